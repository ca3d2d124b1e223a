"""What the model is told of tools and of past calls."""

from __future__ import annotations

import json
import time

import pytest

from app.lib.sentinel import judge_block
from app.lib.tool_manifest import (
    FORBIDDEN,
    FORMAT,
    MANY_CALLS,
    ONE_CALL,
    STRICT,
    build_manifest,
    flatten_call,
    flatten_output,
)
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec

SEARCH = ToolSpec("search", "Find notes, ä.", {"type": "object", "$schema": "x"}, strict=True)
NOW = ToolSpec("now")
SEARCH_LINE = (
    '{"name":"search","description":"Find notes, ä.",'
    '"parameters":{"type":"object","$schema":"x"},"strict":true}'
)
NOW_LINE = '{"name":"now","parameters":{"type":"object","properties":{}}}'


@pytest.mark.parametrize(
    ("specs", "choice", "parallel", "expected"),
    [
        pytest.param((), ToolChoice(), True, [], id="no-tools"),
        pytest.param(
            (SEARCH, NOW), ToolChoice(), True,
            [FORMAT, STRICT, MANY_CALLS, "", "Tools:", SEARCH_LINE, NOW_LINE], id="tools",
        ),
        pytest.param(
            (NOW,), ToolChoice(), False, [FORMAT, ONE_CALL, "", "Tools:", NOW_LINE], id="one-call-none-strict"
        ),
        pytest.param((SEARCH, NOW), ToolChoice(ChoiceMode.NONE), True, [FORBIDDEN], id="none"),
        pytest.param(
            (SEARCH, NOW), ToolChoice(allowed=frozenset(("now",))), True,
            [FORMAT, MANY_CALLS, "", "Tools:", NOW_LINE], id="allowed",
        ),
    ],
)  # fmt: skip
def test_build_manifest(
    specs: tuple[ToolSpec, ...], choice: ToolChoice, parallel: bool, expected: list[str]
) -> None:
    assert build_manifest(ToolRegistry(specs, choice), parallel) == "\n".join(expected)


def test_the_example_is_a_call_we_read() -> None:
    example = next(line for line in FORMAT.splitlines() if line.startswith("<tool_call>"))
    verdict = judge_block(example, ToolRegistry([ToolSpec("tool_name", strict=True)]), time.thread_time)
    assert verdict.call
    assert json.loads(verdict.call.arguments) == {"key": "value"}
    assert verdict.problem is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            flatten_call("call_1", "search", '{"q":"x"}', "fc_1"),
            '[function_call id=fc_1 call_id=call_1 name=search arguments={"q":"x"}]',
            id="call",
        ),
        pytest.param(
            flatten_call("call_1", "now", ""),
            "[function_call id=call_1 call_id=call_1 name=now arguments={}]",
            id="call-of-chat-without-arguments",
        ),
        pytest.param(
            flatten_output("call_1", 'two\nlines [1] "x"'),
            '[function_call_output call_id=call_1 output=two\nlines [1] "x"]',
            id="output-to-the-letter",
        ),
    ],
)
def test_past_calls_as_text(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        pytest.param(ToolChoice(ChoiceMode.NONE), "Never emit `<tool_call>`.", id="none"),
        pytest.param(ToolChoice(), "arguments MUST conform exactly", id="strict"),
        pytest.param(ToolChoice(), "Call tools in this way only.", id="the-one-format"),
    ],
)
def test_what_the_document_lays_down_is_said(choice: ToolChoice, words: str) -> None:
    strict = ToolSpec("now", strict=True)
    assert words in build_manifest(ToolRegistry([strict], choice))
