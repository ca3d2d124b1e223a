"""The sentinel parser of the v2 document: its Task 1, case by case."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pytest

from app.lib.sentinel import ProblemKind
from app.lib.tool_call_parser import ParserResult, ToolCallParser
from app.lib.tool_calls import ToolCallFunction, ToolCallRecord
from app.lib.tool_registry import ToolRegistry, ToolSpec
from tests.support.cuts import every_cut

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SOFT = [ToolSpec("search", "", SCHEMA, None), ToolSpec("read", "", None, None)]
STRICT = [ToolSpec("search", "", SCHEMA, True), ToolSpec("read", "", None, None)]
GOOD = '<tool_call>{"name":"search","arguments":"{\\"q\\":\\"é🙂\\"}"}</tool_call>'
READ = '<tool_call>\n{"name": "read", "arguments": "{}"}\n</tool_call>'
BROKEN = '<tool_call>{"name":"search","arguments":</tool_call>'
UNKNOWN = '<tool_call>{"name":"nope","arguments":"{}"}</tool_call>'
COMMA = '<tool_call>{"name":"read","arguments":"{\\"a\\":1,}"}</tool_call>'
OBJECT = '<tool_call>{"name":"read","arguments":{"a":100000000000000000000000000001}}</tool_call>'
PROSE = "<tool_call> and </tool_call>"

Summary = tuple[str, list[tuple[str, str]], list[tuple[ProblemKind, bool]], int]


def summarise(specs: list[ToolSpec], parts: Iterable[str]) -> Summary:
    parser = ToolCallParser(ToolRegistry(specs), time.thread_time)
    results = [*(parser.feed(part) for part in parts), parser.finish()]
    return (
        "".join(text for result in results for text in result.visible_text_deltas),
        [(call.function.name, call.arguments) for result in results for call in result.parsed_tool_calls],
        [(problem.kind, problem.fatal) for result in results for problem in result.errors],
        sum(result.repaired for result in results),
    )


@pytest.mark.parametrize(
    ("specs", "text", "expected"),
    [
        pytest.param(SOFT, "just text", ("just text", [], [], 0), id="no-call"),
        pytest.param(SOFT, f"a {GOOD} b", ("a  b", [("search", '{"q":"é🙂"}')], [], 0), id="one"),
        pytest.param(
            SOFT,
            f"{READ}{GOOD}{READ}",
            ("", [("read", "{}"), ("search", '{"q":"é🙂"}'), ("read", "{}")], [], 0),
            id="several-in-order-of-appearance",
        ),
        pytest.param(
            SOFT, BROKEN, (BROKEN, [], [(ProblemKind.UNREADABLE, False)], 0), id="invalid-json-soft"
        ),
        pytest.param(STRICT, BROKEN, ("", [], [(ProblemKind.UNREADABLE, True)], 0), id="invalid-json-strict"),
        pytest.param(SOFT, UNKNOWN, (UNKNOWN, [], [(ProblemKind.UNKNOWN_TOOL, False)], 0), id="unknown-soft"),
        pytest.param(STRICT, UNKNOWN, ("", [], [(ProblemKind.UNKNOWN_TOOL, True)], 0), id="unknown-strict"),
        pytest.param(
            SOFT,
            GOOD.replace("q", "p"),
            ("", [("search", '{"p":"é🙂"}')], [(ProblemKind.MISMATCH, False)], 0),
            id="mismatch-soft",
        ),
        pytest.param(
            STRICT, GOOD.replace("q", "p"), ("", [], [(ProblemKind.MISMATCH, True)], 0), id="mismatch-strict"
        ),
        pytest.param(SOFT, COMMA, ("", [("read", '{"a":1}')], [], 1), id="a-trailing-comma-is-mended"),
        pytest.param(
            SOFT,
            OBJECT,
            ("", [("read", '{"a":100000000000000000000000000001}')], [], 1),
            id="object-arguments",
        ),
        pytest.param(SOFT, "<tool_call>{", ("<tool_call>{", [], [], 0), id="never-closed"),
        pytest.param(SOFT, PROSE, (PROSE, [], [], 0), id="prose-soft"),
        pytest.param(STRICT, PROSE, ("", [], [(ProblemKind.UNREADABLE, True)], 0), id="prose-strict"),
        pytest.param(
            SOFT,
            '```json\n{"name":"read","arguments":"{}"}\n```',
            ('```json\n{"name":"read","arguments":"{}"}\n```', [], [], 0),
            id="only-sentinels-are-calls",
        ),
        pytest.param(
            SOFT,
            "<use_tool><name>read</name></use_tool>",
            ("<use_tool><name>read</name></use_tool>", [], [], 0),
            id="no-other-tag",
        ),
    ],
)
def test_for_every_cut(specs: list[ToolSpec], text: str, expected: Summary) -> None:
    got = [summarise(specs, cut) for cut in every_cut(text)]
    assert got == [expected] * len(got)


def test_a_result_by_its_names() -> None:
    parser = ToolCallParser(ToolRegistry(SOFT), time.thread_time, suffix="ab12")
    first, second = (
        ToolCallRecord(f"fc_{number}_ab12", ToolCallFunction("read"), "{}") for number in ("001", "002")
    )
    assert parser.feed(f"a {READ} b") == ParserResult(("a ", " b"), (first,))
    assert parser.feed(READ) == ParserResult((), (second,))


def test_arguments_of_megabytes_get_through() -> None:
    """Also where they mention the tag all along."""
    arguments = f'{{"a":"{"</tool_call>" * 400_000}"}}'
    block = f"<tool_call>{json.dumps({'name': 'read', 'arguments': arguments})}</tool_call>"
    parts = [block[start : start + 10_000] for start in range(0, len(block), 10_000)]
    assert summarise(SOFT, parts) == ("", [("read", arguments)], [], 0)
