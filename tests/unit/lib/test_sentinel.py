"""Blocks and calls, judged."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.schema_check.budget import CheckBudget
from app.lib.sentinel import ProblemKind, ToolCallProblem, Verdict, judge_block, judge_call
from app.lib.tool_calls import TextCall
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from tests.unit.lib.schema_check.test_checker import build_bomb, patient
from tests.unit.lib.test_json_text import ANY_TEXT, JSON_VALUES

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
SOFT, HARD = ToolSpec("soft", None, SCHEMA), ToolSpec("hard", None, SCHEMA, strict=True)
BOTH = ToolRegistry([SOFT, HARD])
ONLY_SOFT = ToolRegistry([SOFT, ToolSpec("free")])

NO_CALL = "A `<tool_call>` block does not hold a JSON object with `name` and `arguments`."
NOT_JSON = "its arguments are no JSON text"
NO_BLOCK = "its block is no JSON"
NOT_OBJECT = "arguments: they are not an object"
WRONG_Q = "arguments.q: 1 is not of type 'string'"


def block(**call: Any) -> str:
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def judge(text: str, registry: ToolRegistry) -> Verdict:
    return judge_block(text, registry, time.thread_time)


def build_problem(kind: ProblemKind, name: str, reason: str, fatal: bool) -> ToolCallProblem:
    return ToolCallProblem(kind, f"Call of `{name}`: {reason}.", name, fatal)


def refused(kind: ProblemKind, name: str, reason: str, fatal: bool = False) -> Verdict:
    return Verdict(None, build_problem(kind, name, reason, fatal))


def unreadable(fatal: bool) -> Verdict:
    return Verdict(None, ToolCallProblem(ProblemKind.UNREADABLE, NO_CALL, None, fatal))


@pytest.mark.parametrize("name", ["soft", "hard"])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{"q":"x"}', id="compact"),
        pytest.param(' { "q" : "x" }\n', id="white-space-stays"),
        pytest.param('{"q":"x","q":"y"}', id="a-key-twice-stays"),
        pytest.param('{"q":"\\u00e9\\/","n":1.0e2}', id="spellings-stay"),
        pytest.param('{"q":"é😀"}', id="all-characters"),
    ],
)
def test_a_good_call_is_kept_to_the_letter(name: str, arguments: str) -> None:
    expected = Verdict(TextCall(name, arguments))
    assert judge(block(name=name, arguments=arguments), BOTH) == expected
    assert judge_call(name, arguments, BOTH, time.thread_time) == expected


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param(
            '<tool_call>\n {"name":"soft","arguments":"{\\"q\\":\\"x\\"}"}\n</tool_call>',
            '{"q":"x"}',
            id="white-space-around",
        ),
        pytest.param(block(id="1", name="soft", arguments='{"q":"x"}'), '{"q":"x"}', id="more-keys"),
        pytest.param(block(name="soft", arguments='{"q":"\ud800"}'), '{"q":"\\ud800"}', id="half-character"),
    ],
)
def test_good_blocks(text: str, arguments: str) -> None:
    assert judge(text, BOTH) == Verdict(TextCall("soft", arguments))


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        pytest.param('{"name":"free","arguments":"{}",}', "{}", NO_BLOCK, id="comma-outside"),
        pytest.param('```json\n{"name":"free","arguments":"{}"}\n```', "{}", NO_BLOCK, id="fence-outside"),
        pytest.param('{"name":"free","arguments":"{\\"a\\":1,}"}', '{"a":1}', NOT_JSON, id="comma-inside"),
        pytest.param('{"name":"free","arguments":"{\\"a\\":1,}",}', '{"a":1}', NO_BLOCK, id="commas-in-both"),
        pytest.param(
            '{"name":"free","arguments":"{\\"a\\":\\"b\\nc\\"}"}',
            '{"a":"b\\u000ac"}',
            NOT_JSON,
            id="a-line-break-inside",
        ),
        pytest.param('{"name":"free","arguments":{"a":[1.0]}}', '{"a":[1.0]}', NOT_JSON, id="an-object"),
        pytest.param(
            '{"name":"free","arguments":{"a":"\\ud800"}}', '{"a":"\\ud800"}', NOT_JSON, id="half-a-character"
        ),
        pytest.param('{"name":"free","arguments":null}', "{}", NOT_JSON, id="null"),
        pytest.param('{"name":"free","arguments":" "}', "{}", NOT_JSON, id="blank"),
        pytest.param('{"name":"free"}', "{}", NOT_JSON, id="missing"),
    ],
)
def test_what_can_be_repaired(text: str, arguments: str, reason: str) -> None:
    """D5a: one attempt, where the tool is not strict; for a strict one the same is an error."""
    wrapped = f"<tool_call>{text}</tool_call>"
    assert judge(wrapped, ONLY_SOFT) == Verdict(TextCall("free", arguments), repaired=True)
    strict = ToolRegistry([ToolSpec("free", strict=True)])
    assert judge(wrapped, strict) == refused(ProblemKind.UNREADABLE, "free", reason, fatal=True)


@pytest.mark.parametrize(
    ("text", "fatal"),
    [
        pytest.param(block(name="soft", arguments="{'q':'x'}"), False, id="soft"),
        pytest.param(block(name="hard", arguments="{'q':'x'}"), True, id="hard"),
    ],
)
def test_arguments_that_cannot_be_read(text: str, fatal: bool) -> None:
    name = "hard" if fatal else "soft"
    assert judge(text, BOTH) == refused(ProblemKind.UNREADABLE, name, NOT_JSON, fatal)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<tool_call></tool_call>", id="empty"),
        pytest.param("<tool_call>search for x</tool_call>", id="words"),
        pytest.param('<tool_call>{"name":"soft",</tool_call>', id="cut"),
        pytest.param('<tool_call>["soft"]</tool_call>', id="a-list"),
        pytest.param("<tool_call>null</tool_call>", id="null"),
        pytest.param(block(arguments="{}"), id="no-name"),
        pytest.param(block(name="", arguments="{}"), id="empty-name"),
        pytest.param(block(name=["soft"], arguments="{}"), id="a-name-of-no-text"),
        pytest.param(block(name="soft", parameters={"q": "x"}), id="arguments-under-another-key"),
        pytest.param('{"name":"soft","arguments":"{}"', id="no-block-at-all"),
    ],
)
def test_blocks_that_cannot_be_read(text: str) -> None:
    """Unreadable counts as strict if any tool is: otherwise it stays text."""
    assert judge(text, ONLY_SOFT) == unreadable(fatal=False)
    assert judge(text, BOTH) == unreadable(fatal=True)


@pytest.mark.parametrize(
    ("registry", "fatal"),
    [pytest.param(ONLY_SOFT, False, id="none-strict"), pytest.param(BOTH, True, id="one-strict")],
)
def test_unknown_tools(registry: ToolRegistry, fatal: bool) -> None:
    expected = refused(ProblemKind.UNKNOWN_TOOL, "other", "no such tool is declared", fatal)
    assert judge(block(name="other", arguments="{}"), registry) == expected
    assert judge_call("other", "{}", registry, time.thread_time) == expected


def test_a_long_name_is_told_by_its_beginning() -> None:
    shown = "x" * 255 + "…"
    expected = refused(ProblemKind.UNKNOWN_TOOL, shown, "no such tool is declared")
    assert judge_call("x" * 1000, "{}", ONLY_SOFT, time.thread_time) == expected


@pytest.mark.parametrize(
    ("choice", "text", "expected"),
    [
        pytest.param(
            ToolChoice(ChoiceMode.NONE),
            block(name="hard", arguments="{}"),
            refused(ProblemKind.NOT_ALLOWED, "hard", "`tool_choice` does not allow it"),
            id="none-allowed",
        ),
        pytest.param(
            ToolChoice(ChoiceMode.NONE), "<tool_call>", unreadable(fatal=False), id="none-unreadable"
        ),
        pytest.param(
            ToolChoice(ChoiceMode.NAMED, "soft"),
            block(name="hard", arguments="{}"),
            refused(ProblemKind.NOT_ALLOWED, "hard", "`tool_choice` does not allow it"),
            id="another-than-the-forced-one",
        ),
        pytest.param(
            ToolChoice(ChoiceMode.NAMED, "hard"),
            "<tool_call>",
            unreadable(fatal=True),
            id="forced-unreadable",
        ),
    ],
)
def test_what_the_choice_leaves(choice: ToolChoice, text: str, expected: Verdict) -> None:
    assert judge(text, ToolRegistry([SOFT, HARD], choice)) == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param('{"q":1}', WRONG_Q, id="wrong-type"),
        pytest.param("{}", "arguments: 'q' is a required property", id="missing"),
        pytest.param("[]", NOT_OBJECT, id="a-list"),
        pytest.param("null", NOT_OBJECT, id="null"),
    ],
)
def test_arguments_that_do_not_fit(arguments: str, reason: str) -> None:
    """D5: a warning, or for a strict tool the end of the turn."""
    assert judge(block(name="soft", arguments=arguments), BOTH) == Verdict(
        TextCall("soft", arguments), build_problem(ProblemKind.MISMATCH, "soft", reason, fatal=False)
    )
    strict = refused(ProblemKind.MISMATCH, "hard", reason, fatal=True)
    assert judge(block(name="hard", arguments=arguments), BOTH) == strict
    assert judge_call("hard", arguments, BOTH, time.thread_time) == strict


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        pytest.param(block(name="soft", arguments={"q": 1}), '{"q":1}', WRONG_Q, id="object"),
        pytest.param(block(name="soft", arguments=[1]), "[1]", NOT_OBJECT, id="list"),
        pytest.param(block(name="soft", arguments=5), "5", NOT_OBJECT, id="number"),
    ],
)
def test_repaired_and_still_wrong(text: str, arguments: str, reason: str) -> None:
    problem = build_problem(ProblemKind.MISMATCH, "soft", reason, fatal=False)
    assert judge(text, BOTH) == Verdict(TextCall("soft", arguments), problem, repaired=True)


@pytest.mark.parametrize(
    ("schema", "kind", "reason"),
    [
        pytest.param(
            {"type": "thing"},
            ProblemKind.UNUSABLE_SCHEMA,
            "schema.type: 'thing' is not valid under any of the given schemas"
            " ('thing' is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];"
            " 'thing' is not of type 'array')",
            id="unusable-schema",
        ),
        pytest.param(
            build_bomb("oneOf"),
            ProblemKind.TOO_COSTLY,
            "arguments: holding them against the schema takes too long",
            id="too-costly",
        ),
    ],
)
def test_arguments_that_cannot_be_checked(schema: dict[str, Any], kind: ProblemKind, reason: str) -> None:
    soft, strict = (ToolRegistry([ToolSpec("a", None, schema, strict)]) for strict in (False, True))
    problem = build_problem(kind, "a", reason, fatal=False)
    assert judge_call("a", "{}", soft, time.thread_time) == Verdict(TextCall("a", "{}"), problem)
    assert judge_call("a", "{}", strict, time.thread_time) == refused(kind, "a", reason, fatal=True)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param("soft", '{"q":1}', Verdict(TextCall("soft", '{"q":1}')), id="goes-out-unchecked"),
        pytest.param(
            "soft", "[]",
            Verdict(TextCall("soft", "[]"), build_problem(ProblemKind.MISMATCH, "soft", NOT_OBJECT, False)),
            id="what-costs-nothing-is-seen",
        ),
        pytest.param(
            "hard", '{"q":"x"}',
            refused(
                ProblemKind.TOO_COSTLY, "hard",
                "arguments: holding them against the schema takes too long", fatal=True,
            ),
            id="strict",
        ),
    ],
)  # fmt: skip
def test_calls_of_a_turn_that_has_spent_its_budget(name: str, arguments: str, expected: Verdict) -> None:
    assert judge_call(name, arguments, BOTH, CheckBudget(time.thread_time, 0)) == expected


def test_numbers_stay_as_they_were_written() -> None:
    text = (
        '<tool_call>{"name":"soft","arguments":{"q": "a", "n": [1E2, -0, 12345678901234567.50]}}</tool_call>'
    )
    call = TextCall("soft", '{"q":"a","n":[1E2,-0,12345678901234567.50]}')
    assert judge(text, BOTH) == Verdict(call, None, repaired=True)


def test_nesting_near_the_limit_of_the_stack() -> None:
    """Just below it a value can be read but not written again: the block stays text."""
    for depth in range(700, 1000):
        arguments = '{"a":' + "[" * depth + "]" * depth + "}"
        verdict = judge(f'<tool_call>{{"name":"free","arguments":{arguments}}}</tool_call>', ONLY_SOFT)
        assert verdict.call is None or verdict.call.arguments == arguments


PIECES = st.sampled_from(
    [
        *'{}[]":,\\n \t',
        "<tool_call>",
        "</tool_call>",
        '"name"',
        '"soft"',
        '"hard"',
        '"arguments"',
        "{}",
        "null",
    ]
)
TEXTS = ANY_TEXT | st.lists(PIECES, max_size=25).map("".join)


@patient
@given(TEXTS, st.booleans())
def test_law_no_text_raises_and_none_is_lost(text: str, wrapped: bool) -> None:
    """There is a call, or a word on why there is none; what goes out encodes."""
    for registry in (ONLY_SOFT, BOTH):
        verdict = judge_block(
            f"<tool_call>{text}</tool_call>" if wrapped else text, registry, time.thread_time
        )
        assert verdict.call or verdict.problem
        if verdict.call:
            assert json.loads(verdict.call.arguments.encode()) is not ...
        if verdict.problem:
            verdict.problem.message.encode()
            assert not (verdict.call and verdict.problem.fatal)


@patient
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4), st.sampled_from([None, 1, " "]))
def test_law_readable_arguments_pass_byte_for_byte(value: dict[str, Any], indent: Any) -> None:
    arguments = json.dumps(value, indent=indent)
    for strict in (True, False):
        registry = ToolRegistry([ToolSpec("a", strict=strict)])
        assert judge(block(name="a", arguments=arguments), registry) == Verdict(TextCall("a", arguments))
