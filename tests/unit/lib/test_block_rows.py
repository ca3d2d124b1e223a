"""Rows: which text is a call of which spelling."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.block_rows import (
    Outcome,
    Reading,
    TextPattern,
    build_tool_call_row,
    build_use_tool_row,
    read_match,
)
from app.lib.sentinel import ProblemKind, ToolCallProblem
from app.lib.tool_calls import ParsedTextBlock, TextCall
from app.lib.tool_registry import ToolRegistry, ToolSpec

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


TOOLS = ToolRegistry([ToolSpec("strict", parameters={"required": ["q"]}, strict=True), ToolSpec("soft")])


def block(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>{{"name":"{name}","arguments":"{arguments}"}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "asked", "unasked"),
    [
        pytest.param("<tool_call>{</tool_call>", "fatal unreadable", "unreadable", id="unreadable"),
        pytest.param("<tool_call></tool_call>", "fatal unreadable", "unreadable", id="empty"),
        pytest.param(block("nope"), "fatal unknown_tool", "unknown_tool", id="of-no-declared-tool"),
        pytest.param(block("strict"), "fatal mismatch", "fatal mismatch", id="strict-and-wrong"),
        pytest.param(block("strict", "{"), *["fatal unreadable"] * 2, id="strict-and-no-json"),
        pytest.param(block("soft", "{"), "unreadable", "unreadable", id="not-strict-and-no-json"),
        pytest.param(block("soft"), "soft({})", "soft({})", id="a-call"),
    ],
)
def test_only_blocks_that_are_asked_for_fail_for_a_tool_they_do_not_name(
    text: str, asked: str, unasked: str
) -> None:
    """D5; by the other transport such a block is text about blocks."""
    rows = [build_tool_call_row(TOOLS, lambda: 0.0, is_asked_for) for is_asked_for in (True, False)]
    assert [show(row.read(text)) for row in rows] == [asked, unasked]


def show(outcome: Outcome) -> str:
    match outcome:
        case Reading(call=TextCall(name, arguments)):
            return f"{name}({arguments})"
        case ToolCallProblem(kind=ProblemKind() as kind, fatal=fatal):
            return f"{'fatal ' if fatal else ''}{kind.value}"
        case None:
            return "nothing"
