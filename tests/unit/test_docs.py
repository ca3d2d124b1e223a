"""The examples in the documentation, run as they stand."""

from __future__ import annotations

import configparser
import pathlib
import re
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Page:
    """A page that names tests, in tables whose last column is headed `tests`."""

    path: str

    @property
    def text(self) -> str:
        return (DOCS / self.path).read_text("utf-8")

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What each row is about, and its tests."""
        rows, is_meant = [], False
        for line in self.text.splitlines():
            cells = line.strip("| ").split(" | ") if line.startswith("| ") else []
            if not cells:
                is_meant = is_meant and line.startswith("|---")
            elif cells[-1] == "tests":
                is_meant = True
            elif is_meant:
                rows.append((cells[0], cells[-1]))
        return rows

    def read_claims(self, cell: str) -> set[tuple[str, str]]:
        """The tests a cell names, each with its file: the last one named before it."""
        short_names = dict(re.findall(r"\*\*(\w+)\*\* `(tests/\S+\.py)`", self.text))
        named = re.compile(rf"`(tests/\S+\.py)`|\b({'|'.join(short_names)}) `|`?(test_\w+)`")
        file, claims = "", set()
        for path, short, name in named.findall(cell):
            file = path or short_names.get(short, file)
            if name:
                claims.add((file, name))
        return claims


ACCEPTANCE = Page("dev/acceptance.md")
#: Where every row has to name a test; in the other one it may be open.
COMPLETE = (Page("dev/test-design.md"), Page("dev/tool-call-buffering.md"), Page("security.md"))
CLAIMS = sorted(
    {claim for page in (ACCEPTANCE, *COMPLETE) for _, cell in page.rows for claim in page.read_claims(cell)}
)


@pytest.mark.parametrize(("file", "name"), CLAIMS)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize(("title", "count"), [("Story 2.8", 24), ("Story 2.9", 21), ("Story 2.12", 5)])
def test_every_criterion_has_a_row(title: str, count: int) -> None:
    section = ACCEPTANCE.text.split(f"## {title}:")[1].split("\n## ")[0]
    assert re.findall(r"^\| AC (\d+) ", section, re.MULTILINE) == [
        str(number) for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("criterion", "cell"), [pytest.param(*row, id=row[0]) for row in ACCEPTANCE.rows])
def test_a_row_names_a_test_or_is_open(criterion: str, cell: str) -> None:
    others = ("this page", "the import-linter contract")
    assert ACCEPTANCE.read_claims(cell) or cell.startswith("open") or cell.startswith(others)


@pytest.mark.parametrize(
    ("page", "cell"), [pytest.param(page, cell, id=about) for page in COMPLETE for about, cell in page.rows]
)
def test_a_row_names_a_test(page: Page, cell: str) -> None:
    assert page.read_claims(cell)


def test_risks_are_numbered_once() -> None:
    """R-101 and R-107 are the requirements' own."""
    numbers = [number for number, _ in Page("dev/test-design.md").rows]
    assert numbers == sorted(set(numbers))
    assert {"R-101", "R-107"} <= set(numbers)


PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    found = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text("utf-8"))
    assert [link for link in found if not (ROOT / page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_files_that_are_named_exist(page: pathlib.Path) -> None:
    named = re.findall(r"`((?:\.ci|app|config|docs|tests)/[\w./-]+)`", (ROOT / page).read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"\]\(([^)]+\.md)\)", (DOCS / "README.md").read_text("utf-8"))
    wanted = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted({*wanted, "../CONTRIBUTING.md", "../CHANGELOG.md"})


def test_the_changelog_begins_with_this_version() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changes, re.MULTILINE)
    assert newest is not None
    assert newest[1] == setup["metadata"]["version"]
