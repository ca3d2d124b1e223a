"""Calls that have to be made, as answers in JSON."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.forced_call import (
    MANY_CALLS,
    MANY_FORM,
    NULLS,
    ONE_CALL,
    ONE_FORM,
    ONE_TOOL,
    SEVERAL_TOOLS,
    ForcedCall,
    build_forced,
    build_several_schema,
    read_forced,
)
from app.lib.schema_check.budget import CheckBudget
from app.lib.sentinel import ProblemKind, ToolCallProblem
from app.lib.tool_calls import TextCall
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.lib.tool_validation import find_mismatch

REQUIRED = ToolChoice(ChoiceMode.REQUIRED)
NARROWED = ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset(("now", "search")))
QUERY = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["q"],
}
SEARCH = ToolSpec("search", "Find notes, ä.", QUERY)
STRICT = ToolSpec("strict", None, QUERY, strict=True)
NOW = ToolSpec("now")
FREE = ToolSpec("free", None, {"type": "object", "additionalProperties": True})
TREE = ToolSpec(
    "tree", None,
    {
        "properties": {"up": {"$ref": "#"}, "leaf": {"$ref": "#/$defs/leaf"}},
        "required": ["up", "leaf"],
        "$defs": {"leaf": {"type": "string"}},
    },
)  # fmt: skip
SEARCH_LINE = (
    '{"name":"search","description":"Find notes, ä.","parameters":'
    + json.dumps(QUERY, separators=(",", ":"))
    + "}"
)
NOW_LINE = '{"name":"now","parameters":{"type":"object","properties":{}}}'
FREE_LINE = '{"name":"free","parameters":{"type":"object","additionalProperties":true}}'


def closed(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def entry(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return closed(name={"type": "string", "enum": [name]}, arguments=arguments)


def demand(*specs: ToolSpec, choice: ToolChoice = REQUIRED) -> ToolRegistry:
    return ToolRegistry(specs, choice)


STRICT_QUERY = closed(q={"type": "string"}, n={"type": ["integer", "null"]})
MANY = SEVERAL_TOOLS.format(form=MANY_FORM, count=MANY_CALLS)
ONE = SEVERAL_TOOLS.format(form=ONE_FORM, count=ONE_CALL)


@pytest.mark.parametrize(
    ("registry", "parallel", "instruction", "schema"),
    [
        pytest.param(
            demand(SEARCH), True,
            [ONE_TOOL.format(name="search"), NULLS, "", "Tool:", SEARCH_LINE], STRICT_QUERY, id="only-one",
        ),
        pytest.param(
            demand(SEARCH, NOW, choice=ToolChoice(ChoiceMode.NAMED, "now")), False,
            [ONE_TOOL.format(name="now"), NULLS, "", "Tool:", NOW_LINE], closed(), id="named",
        ),
        pytest.param(
            demand(FREE), True, [ONE_TOOL.format(name="free"), "", "Tool:", FREE_LINE], None, id="only-told"
        ),
        pytest.param(
            demand(SEARCH, NOW), True, [MANY, NULLS, "", "Tools:", SEARCH_LINE, NOW_LINE],
            closed(calls={
                "type": "array", "minItems": 1,
                "items": {"anyOf": [entry("search", STRICT_QUERY), entry("now", closed())]},
            }),
            id="several-calls",
        ),
        pytest.param(
            demand(SEARCH, NOW), False, [ONE, NULLS, "", "Tools:", SEARCH_LINE, NOW_LINE],
            closed(call={"anyOf": [entry("search", STRICT_QUERY), entry("now", closed())]}),
            id="one-of-several",
        ),
        pytest.param(
            demand(NOW, FREE), False, [ONE, "", "Tools:", NOW_LINE, FREE_LINE], None, id="several-only-told"
        ),
        pytest.param(
            demand(SEARCH, NOW, FREE, choice=NARROWED), False,
            [ONE, NULLS, "", "Tools:", SEARCH_LINE, NOW_LINE],
            closed(call={"anyOf": [entry("search", STRICT_QUERY), entry("now", closed())]}),
            id="allowed",
        ),
    ],
)  # fmt: skip
def test_build_forced(
    registry: ToolRegistry, parallel: bool, instruction: list[str], schema: dict[str, Any] | None
) -> None:
    assert build_forced(registry, parallel) == ForcedCall("\n".join(instruction), schema)


@pytest.mark.parametrize(
    "registry",
    [
        pytest.param(demand(SEARCH, choice=ToolChoice()), id="auto"),
        pytest.param(demand(SEARCH, choice=ToolChoice(ChoiceMode.NONE)), id="none"),
        pytest.param(demand(), id="no-tools"),
        pytest.param(demand(SEARCH, choice=ToolChoice(ChoiceMode.NAMED, "other")), id="none-of-that-name"),
    ],
)
def test_nothing_is_forced(registry: ToolRegistry) -> None:
    assert build_forced(registry, True) is None


def test_references_of_several_tools_keep_apart() -> None:
    other = ToolSpec(
        "other", None, {"properties": {"x": {"$ref": "#/$defs/leaf"}}, "$defs": {"leaf": {"type": "null"}}}
    )
    forced = build_forced(demand(NOW, TREE, other), False)
    assert forced
    assert forced.output_schema == closed(
        call={
            "anyOf": [
                entry("now", closed()),
                entry("tree", {"$ref": "#/$defs/tool1"}),
                entry("other", {"$ref": "#/$defs/tool2"}),
            ]
        }
    ) | {
        "$defs": {
            "tool1": closed(up={"$ref": "#/$defs/tool1"}, leaf={"$ref": "#/$defs/tool1_leaf"}),
            "tool1_leaf": {"type": "string"},
            "tool2": closed(x={"anyOf": [{"$ref": "#/$defs/tool2_leaf"}, {"type": "null"}]}),
            "tool2_leaf": {"type": "null"},
        }
    }


def test_the_whole_keeps_to_the_limits() -> None:
    parameters: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    for _ in range(8):
        parameters = {"properties": {"a": parameters}}
    deep = ToolSpec("deep", None, parameters)
    one, several = build_forced(demand(deep), True), build_forced(demand(deep, NOW), True)
    assert one
    assert one.output_schema
    assert several
    assert several.output_schema is None


def test_many_tools_are_counted_together() -> None:
    """Measured: 4 ms, where converting one after the other takes a second."""
    parameters = {"properties": {str(index): {"type": "string"} for index in range(2000)}}
    specs = tuple(ToolSpec(str(index), None, parameters) for index in range(100))
    began_s = time.thread_time()
    assert build_several_schema(specs, True) is None
    assert time.thread_time() - began_s < 0.2


def call(name: str, arguments: str) -> TextCall:
    return TextCall(name, arguments)


NUMBERS = '"q": "a", "x": [1E2, -0, 12345678901234567.5]'


def refusal(kind: ProblemKind, name: str, reason: str) -> ToolCallProblem:
    return ToolCallProblem(kind, f"Call of `{name}`: {reason}.", name, fatal=True)


@pytest.mark.parametrize(
    ("text", "specs", "parallel", "expected"),
    [
        pytest.param(
            ' {"q": "a",\n"n": 1.0}\n', (SEARCH,), True, (call("search", '{"q": "a",\n"n": 1.0}'),),
            id="verbatim",
        ),
        pytest.param(
            '{"q": "a", "n": null}', (STRICT,), True, (call("strict", '{"q":"a"}'),), id="without-nulls"
        ),
        pytest.param(
            '```json\n{"q": "a"}\n```', (STRICT,), True, (call("strict", '{"q": "a"}'),), id="fence"
        ),
        pytest.param('{"q": "a",}', (SEARCH,), False, (call("search", '{"q": "a"}'),), id="mended"),
        pytest.param('{"q": 3}', (SEARCH,), False, (call("search", '{"q": 3}'),), id="soft-mismatch"),
        pytest.param(
            '{"calls":[{"name":"search","arguments":{"q":"ä","n":null}},{"name":"now","arguments":{}}]}',
            (SEARCH, NOW), True, (call("search", '{"q":"ä"}'), call("now", "{}")), id="several",
        ),
        *(
            pytest.param(
                text, specs, True, (call("search", '{"q":"a","x":[1E2,-0,12345678901234567.5]}'),), id=name
            )
            for name, specs, text in (
                ("numbers-beside-a-null", (SEARCH,), f'{{{NUMBERS}, "n": null}}'),
                (
                    "numbers-of-several", (SEARCH, NOW),
                    f'{{"call":{{"name":"search","arguments":{{{NUMBERS}}}}}}}',
                ),
                (
                    "numbers-of-several-beside-a-null", (SEARCH, NOW),
                    f'{{"call":{{"name":"search","arguments":{{{NUMBERS}, "n": null}}}}}}',
                ),
            )
        ),
        pytest.param(
            '{"calls":[{"name":"now","arguments":{}},{"name":"lost","arguments":{}}]}', (SEARCH, NOW),
            False, (call("now", "{}"),), id="only-the-first",
        ),
        pytest.param(
            '{"call":{"name":"search","arguments":{"q":"a"}}}', (SEARCH, NOW),
            False, (call("search", '{"q":"a"}'),), id="one-of-several",
        ),
        pytest.param(
            '{"name":"search","arguments":"{\\"q\\": \\"a\\"}"}', (SEARCH, NOW),
            True, (call("search", '{"q": "a"}'),), id="by-itself-and-arguments-as-text",
        ),
        pytest.param('{"call":{"name":"now"}}', (SEARCH, NOW), True, (call("now", "{}"),), id="no-arguments"),
        pytest.param(
            '{"call":{"name":"now","arguments":"{\'a\'"}}', (SEARCH, NOW), True,
            refusal(ProblemKind.UNREADABLE, "now", "its arguments are no JSON text"),
            id="arguments-are-no-json",
        ),
        pytest.param(
            '{"q": 3}', (STRICT,), True,
            refusal(ProblemKind.MISMATCH, "strict", "arguments.q: 3 is not of type 'string'"),
            id="strict-mismatch",
        ),
        pytest.param(
            '{"calls":[{"name":"now","arguments":{}},{"name":"lost","arguments":{}}]}', (SEARCH, NOW), True,
            refusal(ProblemKind.UNKNOWN_TOOL, "lost", "no such tool is declared"),
            id="unknown",
        ),
    ],
)  # fmt: skip
def test_read_forced(
    text: str, specs: tuple[ToolSpec, ...], parallel: bool, expected: tuple[TextCall, ...] | ToolCallProblem
) -> None:
    assert read_forced(text, demand(*specs), parallel, time.thread_time) == expected


@pytest.mark.parametrize(
    ("max_s", "arguments"),
    [
        pytest.param(0, '{"q":"a","n":null}', id="none"),
        pytest.param(3, '{"q":"a"}', id="enough-for-one"),
    ],
)
def test_nulls_are_looked_for_while_there_is_time(max_s: float, arguments: str) -> None:
    """The first call spends it; the other one goes out as it is."""
    spelled = {"name": "search", "arguments": {"q": "a", "n": None}}
    looks = itertools.count(step=4)
    found = read_forced(
        json.dumps({"calls": [spelled] * 2}), demand(SEARCH, NOW), True, CheckBudget(looks.__next__, max_s)
    )
    assert found == (call("search", arguments), call("search", '{"q":"a","n":null}'))


def test_a_tool_that_is_not_allowed() -> None:
    choice = ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset(("search", "strict")))
    registry = demand(SEARCH, STRICT, NOW, choice=choice)
    problem = refusal(ProblemKind.NOT_ALLOWED, "now", "`tool_choice` does not allow it")
    assert read_forced('{"call":{"name":"now"}}', registry, True, time.thread_time) == problem


NOT_SEVERAL = "The answer has to be a JSON object of the form "
NOT_ONE = "The answer has to be the JSON object of the arguments of `search`, and nothing else."


@pytest.mark.parametrize(
    ("text", "specs", "parallel", "message"),
    [
        pytest.param("", (SEARCH,), True, NOT_ONE, id="empty"),
        pytest.param('Here: {"q": "a"}', (SEARCH,), True, NOT_ONE, id="text-around-it"),
        pytest.param('[{"q": "a"}]', (SEARCH,), True, NOT_ONE, id="no-object"),
        pytest.param(
            '{"q": "a",}', (STRICT,), True, NOT_ONE.replace("search", "strict"), id="strict-is-not-mended"
        ),
        *(
            pytest.param(text, (SEARCH, NOW), parallel, NOT_SEVERAL + f"{form}, and nothing else.", id=name)
            for name, text, parallel, form in (
                ("no-json", "I cannot.", True, MANY_FORM),
                ("no-call", '{"calls":[]}', True, MANY_FORM),
                ("no-list", '{"calls":3}', False, ONE_FORM),
                ("no-name", '{"call":{"arguments":{}}}', False, ONE_FORM),
                ("one-unreadable", '{"calls":[{"name":"now"},3]}', True, MANY_FORM),
                ("other-key", '{"call":{"name":"search","parameters":{}}}', False, ONE_FORM),
            )
        ),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_call(
    text: str, specs: tuple[ToolSpec, ...], parallel: bool, message: str
) -> None:
    name = specs[0].name if len(specs) == 1 else None
    problem = ToolCallProblem(ProblemKind.UNREADABLE, message, name, fatal=True)
    assert read_forced(text, demand(*specs), parallel, time.thread_time) == problem


@given(st.booleans(), st.text(), st.none() | st.integers())
def test_an_answer_that_is_held_to_the_schema_is_a_call(
    parallel: bool, query: str, count: int | None
) -> None:
    registry = demand(STRICT, NOW)
    forced = build_forced(registry, parallel)
    spelled = {"name": "strict", "arguments": {"q": query, "n": count}}
    answer = {"calls": [spelled]} if parallel else {"call": spelled}
    assert forced
    assert find_mismatch(forced.output_schema, answer, time.thread_time) is None
    calls = read_forced(json.dumps(answer), registry, parallel, time.thread_time)
    assert isinstance(calls, tuple)
    expected = {"q": query} if count is None else {"q": query, "n": count}
    assert [(each.name, json.loads(each.arguments)) for each in calls] == [("strict", expected)]
