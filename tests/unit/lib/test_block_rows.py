"""Rows: which text is a call of which spelling."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.block_rows import Reading, TextPattern, build_use_tool_row, read_match
from app.lib.tool_calls import ParsedTextBlock

BLOCK = ParsedTextBlock(1, 4, "f", "{}")


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        pytest.param(BLOCK, BLOCK, id="a-block"),
        pytest.param({"indexStart": 1, "indexEnd": 4, "name": "f", "argsText": "{}"}, BLOCK, id="a-mapping"),
        pytest.param(BLOCK.to_dict(), BLOCK, id="a-block-as-a-mapping"),
        pytest.param({"indexStart": 1, "indexEnd": 4, "name": "f"}, None, id="no-arguments"),
        pytest.param({}, None, id="empty"),
        pytest.param((1, 4, "f", "{}"), None, id="a-tuple"),
        pytest.param(ParsedTextBlock(1, 4, "", ""), None, id="no-name"),
        pytest.param(
            {"indexStart": 1, "indexEnd": 4, "name": 7, "argsText": ""}, None, id="a-name-that-is-none"
        ),
        pytest.param({"indexStart": "1", "indexEnd": 4, "name": "f", "argsText": ""}, None, id="no-number"),
        pytest.param(ParsedTextBlock(4, 4, "f", ""), None, id="no-text"),
        pytest.param(ParsedTextBlock(-1, 4, "f", ""), None, id="before-the-text"),
        pytest.param(ParsedTextBlock(1, 10, "f", ""), None, id="behind-the-text"),
    ],
)
def test_what_a_matcher_may_return(match: Any, expected: ParsedTextBlock | None) -> None:
    assert read_match(match, 9) == expected


def test_a_patterns_blocks_come_in_order() -> None:
    late, early = ParsedTextBlock(5, 6, "b", ""), ParsedTextBlock(0, 2, "a", "")
    pattern = TextPattern("p", lambda _: [late, {"name": "junk"}, early])
    assert (pattern.match("text text"), pattern.to_row()) == ([early, late], None)


@pytest.mark.parametrize(
    ("opener", "closer", "is_apart"),
    [
        pytest.param("a)b(", ")", False, id="closer-inside-the-opener"),
        pytest.param("##", "###", False, id="opener-begins-the-closer"),
        pytest.param("b", "abc", False, id="opener-inside-the-closer"),
        pytest.param("```tool", "```", True, id="closer-begins-the-opener"),
        pytest.param("<x>", ">", True, id="closer-ends-the-opener"),
    ],
)
def test_an_opener_and_its_closer_must_be_told_apart(opener: str, closer: str, is_apart: bool) -> None:
    """Otherwise a block would end, or another begin, as the stream is cut."""
    try:
        TextPattern("p", lambda _: [], opener, closer)
        told = ""
    except ValueError as error:
        told = str(error)
    assert told == ("" if is_apart else "p: its opener and its closer cannot be told apart")


@pytest.mark.parametrize(("names", "is_call"), [(None, True), (["f"], True), (["g"], False), ([], False)])
def test_use_tool_may_be_kept_to_declared_tools(names: list[str] | None, is_call: bool) -> None:
    block = "<use_tool><name>f</name></use_tool>"
    assert isinstance(build_use_tool_row(names).read(block), Reading) == is_call


def test_a_matcher_may_find_nothing_at_all() -> None:
    assert TextPattern("p", lambda _: None).match("text") == []  # type: ignore[arg-type,return-value]
