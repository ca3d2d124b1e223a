"""The result: rows of one markdown table, and the place in a document where it stands."""

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass

BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
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


def replace_section(path: pathlib.Path, text: str) -> None:
    """Put the text between the markers; what stands around them stays."""
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks the markers {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")
