"""The examples in the documentation, run as they stand."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def read_examples(page: str) -> str:
    """Every Python example of a page as one program, each line where it stands on the page."""
    text = (DOCS / page).read_text("utf-8")
    program = [""] * text.count("\n")
    for fence in FENCE.finditer(text):
        first = text.count("\n", 0, fence.start(1))
        lines = fence[1].splitlines()
        program[first : first + len(lines)] = lines
    return "\n".join(program)


@pytest.mark.parametrize("page", ["dev/tool-call-aggregator.md"])
def test_the_examples_hold(page: str) -> None:
    program = read_examples(page)
    assert program.count("assert ") > 10
    names: dict[str, Any] = {"__name__": page}
    exec(compile(program, str(DOCS / page), "exec"), names)


ACCEPTANCE = (DOCS / "dev" / "acceptance.md").read_text("utf-8")
SHORT_NAMES = dict(re.findall(r"\*\*(\w+)\*\* `(tests/\S+\.py)`", ACCEPTANCE))
#: A row of the page: the criterion, and what stands for it.
ROWS = re.findall(r"^\| (?!criterion|decision|---)(.+?) \| (.+) \|$", ACCEPTANCE, re.MULTILINE)


NAMED = re.compile(rf"`(tests/\S+\.py)`|\b({'|'.join(SHORT_NAMES)}) `|`?(test_\w+)`")


def read_claims(cell: str) -> set[tuple[str, str]]:
    """The tests a cell names, each with its file: the last one named before it."""
    file, claims = "", set()
    for path, short, name in NAMED.findall(cell):
        file = path or SHORT_NAMES.get(short, file)
        if name:
            claims.add((file, name))
    return claims


CLAIMS = sorted({claim for _, cell in ROWS for claim in read_claims(cell)})


@pytest.mark.parametrize(("file", "name"), CLAIMS)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize(("title", "count"), [("Story 2.8", 24), ("Story 2.9", 21), ("Story 2.12", 5)])
def test_every_criterion_has_a_row(title: str, count: int) -> None:
    section = ACCEPTANCE.split(f"## {title}:")[1].split("\n## ")[0]
    assert re.findall(r"^\| AC (\d+) ", section, re.MULTILINE) == [
        str(number) for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("criterion", "cell"), [pytest.param(*row, id=row[0]) for row in ROWS])
def test_a_row_names_a_test_or_is_open(criterion: str, cell: str) -> None:
    others = ("this page", "the import-linter contract")
    assert read_claims(cell) or cell.startswith("open") or cell.startswith(others)
