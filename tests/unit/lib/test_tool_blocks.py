"""Blocks of a finished text."""

from __future__ import annotations

import pytest

from app.lib.block_rows import TextPattern
from app.lib.tool_blocks import find_blocks
from app.lib.tool_calls import ParsedTextBlock
from tests.support.at_tool import AT_TOOL, UNHELD_AT_TOOL, match_at_tool

USE = '<use_tool>\n  <name>webSearch</name>\n  <args>{"q":"obsidian copilot","k":8}</args>\n</use_tool>'


INSIDE = '<use_tool><name>f</name><args>@tool("x")</args></use_tool>'
AROUND = '@tool("x", "<use_tool><name>f</name></use_tool>")'
DOUBLED = TextPattern("doubled", lambda text: [*match_at_tool(text), *match_at_tool(text)])


def named(text: str, *patterns: TextPattern) -> list[tuple[str, str, str]]:
    """What stands at each block's place, with its call."""
    blocks = find_blocks(text, patterns)
    return [(text[block.index_start : block.index_end], block.name, block.args_text) for block in blocks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("no block", [], id="none"),
        pytest.param(f"a {USE} b", [(USE, "webSearch", '{"q":"obsidian copilot","k":8}')], id="one"),
        pytest.param(
            f"{USE} noise <use_tool {USE}<use_tool>",
            [(USE, "webSearch", '{"q":"obsidian copilot","k":8}')] * 2,
            id="several-with-noise",
        ),
        pytest.param("<use_tool>malformed</use_tool>", [], id="malformed"),
        pytest.param('<tool_call>{"name":"f","arguments":"{}"}</tool_call>', [], id="sentinels-need-tools"),
        pytest.param('@tool("x")', [], id="unregistered"),
    ],
)
def test_use_tool_blocks(text: str, expected: list[tuple[str, str, str]]) -> None:
    """AC 6 of story 2.8; R-101 c: the places are exact."""
    assert named(text) == expected


@pytest.mark.parametrize("pattern", [AT_TOOL, UNHELD_AT_TOOL], ids=["with-opener", "without"])
def test_registered_patterns_count_too(pattern: TextPattern) -> None:
    text = f'@tool("x") {USE} @tool("y", {{"a": 1}}) <use_tool>'
    assert [name for _, name, _ in named(text, pattern)] == ["x", "webSearch", "y"]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param(AT_TOOL, INSIDE, ["f"], id="held-inside-another"),
        pytest.param(UNHELD_AT_TOOL, INSIDE, ["f"], id="unheld-inside-another"),
        pytest.param(AT_TOOL, AROUND, ["x"], id="held-around-another"),
        pytest.param(UNHELD_AT_TOOL, AROUND, ["f"], id="unheld-around-another"),
        pytest.param(DOUBLED, '@tool("x") @tool("y")', ["x", "y"], id="the-same-twice"),
    ],
)
def test_of_two_that_overlap_one_counts(pattern: TextPattern, text: str, expected: list[str]) -> None:
    """Of those a stream is held for, the first; then the others, where they are free of these."""
    assert [name for _, name, _ in named(text, pattern)] == expected


def test_the_contracts_shape() -> None:
    assert [block.to_dict() for block in find_blocks("a <use_tool><name>f</name></use_tool>")] == [
        {"indexStart": 2, "indexEnd": 37, "name": "f", "argsText": ""}
    ]


def test_a_block_is_a_value() -> None:
    assert find_blocks("<use_tool><name>f</name></use_tool>") == (ParsedTextBlock(0, 35, "f", ""),)
