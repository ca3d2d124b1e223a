"""The result: rows of one markdown table, and the place in a document where it stands."""

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass

HEADINGS = ("what", "gateway", "beside it", "gateway ÷ that", "goal", "result")


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    gateway: str
    beside: str = "-"
    ratio: str = "-"
    goal: str = "-"
    #: Whether the goal was met; nothing when there is none.
    met: bool | None = None

    def to_cells(self) -> tuple[str, ...]:
        result = {True: "met", False: "**missed**", None: "-"}[self.met]
        return (self.what, self.gateway, self.beside, self.ratio, self.goal, result)


def render(rows: Iterable[Row]) -> str:
    ruler = ("---",) * len(HEADINGS)
    cells = [HEADINGS, ruler, *(row.to_cells() for row in rows)]
    return "\n".join("| " + " | ".join(each) + " |" for each in cells)


def replace_section(path: pathlib.Path, text: str, command: str = "make bench") -> None:
    """Put the text between the command's markers; what stands around them stays."""
    first, last = f"<!-- {command}: begin -->", f"<!-- {command}: end -->"
    before, begin, rest = path.read_text("utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{path} lacks the markers {first} and {last}")
    path.write_text(f"{before}{first}\n{text}\n{last}{after}", "utf-8")
