"""Calls that come as calls, through the core: shown, held, sent back, asked for again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import pytest

from app.lib.answer_rules import PLAIN, AnswerRules
from app.lib.block_rows import RowSet, build_use_tool_row
from app.lib.errors import BackendUnavailable, ClientGone
from app.lib.events import (
    BackendEvent,
    Began,
    CallComing,
    CallRejected,
    Completed,
    Failed,
    Finished,
    FinishReason,
    MessageDone,
    ModelActive,
    Note,
    ReasoningDone,
    ReasoningEnded,
    ResponseDone,
    Retrying,
    TextDelta,
    ToolCalled,
    ToolSignal,
    TurnEnded,
    TurnFailed,
)
from app.lib.obsidian import EscapePolicy
from app.lib.orders import AskAgain, Order, RefuseCall, StopChoice
from app.lib.stop_policy import StopMode, StopPolicy
from app.lib.structured_calls import MAX_REJECTIONS, NOT_RUN
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.lib.turn import TurnCore
from app.lib.usage import Usage
from tests.support.events import show

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
CITY = {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]}
STRICT, SOFT = ToolSpec("weather", None, CITY, strict=True), ToolSpec("search", None, CITY)
PARIS, BAD = '{"city": "Paris"}', '{"city": 7}'
DONE = ResponseDone(0, Usage(10, 0, 5, 0))
ENDED = ["finish tool_calls", "Completed"]
USE_TOOL = RowSet([build_use_tool_row()])


def call(arguments: str = PARIS, name: str = "weather", call_id: str = "c0", choice: int = 0) -> ToolSignal:
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return ToolSignal(choice, item)


def declare(*specs: ToolSpec, choice: ToolChoice | None = None, **more: Any) -> AnswerRules:
    return dataclasses.replace(PLAIN, registry=ToolRegistry(specs, choice), **more)


def run(
    rules: AnswerRules, events: Iterable[BackendEvent], choices: int = 1
) -> tuple[list[str], list[Order]]:
    """What came of a turn, and what its backend was told to do."""
    core = TurnCore(choices, rules=rules)
    out, orders = [], []
    for event in events:
        out += core.feed(event)
        orders += core.take_orders()
    return show(out), orders


@pytest.mark.parametrize(
    ("rules", "events", "expected"),
    [
        pytest.param(
            declare(SOFT),
            [call(' {"city":\t"x"}', "search"), DONE],
            ["Began", '0:tool_0_0 search( {"city":\t"x"})', *ENDED],
            id="verbatim",
        ),
        pytest.param(
            declare(SOFT),
            [call(BAD, "search"), DONE],
            ["Began", f"0:tool_0_0 search({BAD})", *ENDED],
            id="soft-arguments-may-be-wrong",
        ),
        pytest.param(
            declare(SOFT),
            [TextDelta(0, "m", "Let me look."), call(name="search"), call("{}", "search", "c1"), DONE],
            ["Began", "Let me look.", f"0:tool_0_0 search({PARIS})", "0:tool_0_1 search({})", *ENDED],
            id="text-then-a-batch",
        ),
        pytest.param(
            declare(SOFT, parallel=False),
            [call(name="search"), call("{}", "search", "c1"), DONE],
            ["Began", f"0:tool_0_0 search({PARIS})", *ENDED],
            id="one-at-most",
        ),
        pytest.param(
            declare(SOFT),
            [CallRejected(0), DONE, TextDelta(0, "m", "Sorry."), DONE, TurnEnded(0, STOP)],
            ["Began", "{tool_call_faulty function rejected}", "Sorry.", "finish stop", "Completed"],
            id="codex-corrects-what-it-rejects",
        ),
        pytest.param(
            declare(SOFT),
            [call(name="search"), DONE, TextDelta(0, "m", "late"), TurnEnded(0, STOP)],
            ["Began", f"0:tool_0_0 search({PARIS})", *ENDED],
            id="nothing-after-the-end",
        ),
        pytest.param(
            declare(STRICT, SOFT),
            [call(), call(BAD, "search", "c1"), DONE],
            ["Began", f"0:tool_0_0 weather({PARIS})", f"0:tool_0_1 search({BAD})", *ENDED],
            id="only-strict-ones-must-hold",
        ),
        pytest.param(
            declare(STRICT, parallel=False),
            [call(), call(BAD, call_id="c1"), DONE],
            ["Began", f"0:tool_0_0 weather({PARIS})", *ENDED],
            id="what-nobody-sees-need-not-hold",
        ),
        pytest.param(
            declare(STRICT),
            [call(), TurnEnded(0, STOP)],
            ["Began", f"0:tool_0_0 weather({PARIS})", *ENDED],
            id="strict-and-the-turn-just-ends",
        ),
        pytest.param(
            declare(STRICT),
            [call(BAD), TurnEnded(0, STOP)],
            ["Began", "{tool_call_faulty function mismatch}", "InvalidToolCall"],
            id="too-late-to-correct",
        ),
        pytest.param(
            declare(STRICT),
            [ToolSignal(0, {"tool_calls": [{"function": {"name": "weather", "arguments": BAD}}]}), DONE],
            ["Began", "{tool_call_faulty function mismatch}", "InvalidToolCall"],
            id="a-call-nobody-can-answer",
        ),
        pytest.param(
            declare(STRICT),
            [TurnFailed(BackendUnavailable("broken"))],
            ["BackendUnavailable"],
            id="broken-before",
        ),
        pytest.param(
            declare(STRICT),
            [call(), TurnFailed(BackendUnavailable("broken"))],
            ["Began", "BackendUnavailable"],
            id="broken-before-the-batch-is-complete",
        ),
    ],
)
def test_calls(rules: AnswerRules, events: list[BackendEvent], expected: list[str]) -> None:
    out, _ = run(rules, events)
    assert [line.partition(": ")[0] if line[0].isupper() else line for line in out] == expected


def test_a_batch_that_does_not_hold_goes_back_as_a_whole() -> None:
    """Contract §1: two rounds, unseen; then what holds is shown."""
    events = [call(BAD), call("{}", "search", "c1"), DONE, call(call_id="c2"), DONE]
    out, orders = run(declare(STRICT, SOFT), events)
    [refused, beside, stopped] = orders
    assert isinstance(refused, RefuseCall)
    assert "city" in refused.message
    assert (refused.call_id, beside, stopped) == ("c0", RefuseCall(0, "c1", NOT_RUN), StopChoice(0))
    notes = ["{tool_call_faulty function mismatch}", "{tool_calls_sent_back function }"]
    assert out == ["Began", *notes, f"0:tool_0_0 weather({PARIS})", *ENDED]


def test_the_thought_that_led_to_a_refused_call_is_as_unseen_as_that() -> None:
    """A follow-up would tell the model of reasoning whose call never was."""
    core = TurnCore(rules=declare(STRICT))
    thoughts = (ReasoningDone(0, name, (), name) for name in ("one", "two"))
    events = [next(thoughts), call(BAD), DONE, next(thoughts), call(call_id="c1"), DONE]
    shown = [event for each in events for event in core.feed(each) if not isinstance(event, Note)]
    assert shown[:2] == [Began(0), ReasoningEnded(0, "two", "two")]
    assert [type(event) for event in shown[2:]] == [ToolCalled, Finished, Completed]


@pytest.mark.parametrize(
    "wrong", [pytest.param(call(BAD), id="arguments"), pytest.param(CallRejected(0), id="rejected-by-codex")]
)
def test_after_two_rounds_the_client_is_told(wrong: BackendEvent) -> None:
    out, orders = run(declare(STRICT), [wrong, DONE] * 3)
    assert out.count("{tool_calls_sent_back function }") == 2
    assert out[-1].startswith("InvalidToolCall")
    assert len(orders) == (0 if isinstance(wrong, CallRejected) else 2)


def test_every_call_of_a_batch_is_refused_though_one_is_wanted() -> None:
    """One left unanswered would hold the turn for ever."""
    events = [call(BAD), call(call_id="c1"), DONE, call(call_id="c2"), DONE]
    out, orders = run(declare(STRICT, parallel=False), events)
    assert [order.call_id for order in orders if isinstance(order, RefuseCall)] == ["c0", "c1"]
    assert out[-3:] == [f"0:tool_0_0 weather({PARIS})", *ENDED]


def test_only_what_was_judged_goes_out() -> None:
    """A later word on a call, which is the one that counts, may be the only one that holds."""
    events = [call(BAD), call(PARIS), DONE]
    out, orders = run(declare(STRICT), events)
    assert (out, orders) == (["Began", f"0:tool_0_0 weather({PARIS})", *ENDED], [StopChoice(0)])


def test_a_call_that_is_not_allowed_does_not_hold_beside_a_strict_tool() -> None:
    rules = declare(STRICT, SOFT, choice=ToolChoice(allowed=frozenset(["weather"])))
    out, _ = run(rules, [call(name="search"), DONE])
    assert out == ["Began", "{tool_call_faulty function not_allowed}", "{tool_calls_sent_back function }"]


def test_codex_does_not_correct_for_ever() -> None:
    out, _ = run(declare(SOFT), [CallRejected(0), DONE] * (MAX_REJECTIONS + 1))
    assert out[-1].startswith("InvalidToolCall")
    assert len(out) == MAX_REJECTIONS + 3


@pytest.mark.parametrize(
    ("last", "finish"),
    [
        pytest.param([call(name="search"), DONE], "tool_calls", id="a-call"),
        pytest.param([CallRejected(0), DONE], "length", id="one-that-codex-rejects"),
        pytest.param([TurnEnded(0, STOP)], "length", id="and-the-turn-ends"),
    ],
)
def test_a_cut_waits_for_calls_on_their_way(last: list[BackendEvent], finish: str) -> None:
    """Text behind a call may reach a limit; the call counts over everything."""
    rules = declare(SOFT, max_bytes=4)
    events = [CallComing(0), TextDelta(0, "m", "abcdef"), TextDelta(0, "m", "more"), *last]
    out, _ = run(rules, events)
    assert (out[:2], out[-2:]) == (["Began", "abcd"], [f"finish {finish}", "Completed"])
    assert "more" not in "".join(out)


def test_a_call_nobody_wants_ends_the_answer_too() -> None:
    """Where one call was read from text and there may be no other, codex's question stays unanswered."""
    rules = declare(SOFT, parallel=False, rows=USE_TOOL, policy=StopPolicy(stop=False))
    text = TextDelta(0, "m", "<use_tool><name>f</name></use_tool>")
    out, _ = run(rules, [text, call(name="search"), DONE])
    assert ([line for line in out if "tool_0_" in line], out[-2:]) == (["0:tool_0_0 f()"], ENDED)


def test_usage_counts_every_round() -> None:
    core = TurnCore(rules=declare(STRICT))
    assert core.feed_all([call(BAD), DONE, call(), DONE])[-1].usage == Usage(20, 0, 10, 0)


BLOCKS = declare(SOFT, escape=EscapePolicy.XML)
BLOCK = "0:[<use_tool>\n<name>search</name>\n<city>Paris</city>\n</use_tool>]"


@pytest.mark.parametrize(
    ("mode", "blocks"),
    [pytest.param(StopMode.FIRST, [BLOCK], id="first"), pytest.param(StopMode.ALL, [BLOCK] * 2, id="all")],
)
def test_calls_are_written_as_blocks(mode: StopMode, blocks: list[str]) -> None:
    """Story 2.9 AC 1, 18: however many are listed, mode `first` shows one."""
    rules = dataclasses.replace(BLOCKS, policy=StopPolicy(mode=mode))
    out, _ = run(rules, [call(name="search"), call(name="search", call_id="c1"), DONE])
    calls = [f"0:tool_0_{place} search({PARIS})" for place in (0, 1)]
    assert out == ["Began", *calls, *blocks, *ENDED]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(
            {"choices": [{"index": 1, "delta": {"content": "Hi"}}]}, ["Began", "Hi"], id="words-of-a-chunk"
        ),
        pytest.param(
            {"choices": [{"index": 2, "delta": {"content": "Hi"}}]}, [], id="a-choice-nobody-asked-for"
        ),
        pytest.param(
            {
                "choices": [
                    {"index": number, "delta": {"tool_calls": [{"index": 0, "function": {"name": name}}]}}
                    for number, name in enumerate("fg")
                ]
            },
            ["Began", "0:tool_0_0 f()", "Began", "1:tool_1_0 g()"],
            id="both-choices",
        ),
        pytest.param({"delta": {"content": "Hi"}}, ["Began", "Hi"], id="no-choice-named"),
        pytest.param({"delta": {"content": ""}}, ["Began"], id="nothing-said"),
        pytest.param(
            {"message": {"role": "assistant", "content": "Hi", "tool_calls": []}},
            ["Began", "Hi"],
            id="message",
        ),
        pytest.param(
            {"message": {"role": "user", "content": "Hi"}}, ["Began"], id="not-the-assistants-words"
        ),
        pytest.param(
            {"choice_index": 1, "delta": {"function_call": {"name": "f", "arguments": "{}"}}},
            ["Began", "1:tool_1_0 f({})"],
            id="a-delta-that-names-its-choice",
        ),
    ],
)
def test_chat_payloads(payload: dict[str, Any], expected: list[str]) -> None:
    """Story 2.9 AC 16, 20: whatever shape a backend speaks, nothing is lost or mixed."""
    assert run(PLAIN, [ToolSignal(0, payload)], choices=2)[0] == expected


def test_a_final_message_repeats_nothing() -> None:
    """Story 2.9 AC 20: codex's deltas and a chat message, mixed."""
    whole = {"message": {"content": "Hi there", "tool_calls": [{"id": "c0", "function": {"name": "f"}}]}}
    events = [TextDelta(0, "m", "Hi "), TextDelta(0, "m", "there"), ToolSignal(0, whole)]
    out, _ = run(PLAIN, [*events, MessageDone(0, "m", "Hi there"), TurnEnded(0, STOP)])
    assert out == ["Began", "Hi there", "0:tool_0_0 f()", *ENDED]


NAMED = ToolChoice(ChoiceMode.NAMED, "weather")


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        pytest.param([PARIS], [f"0:tool_0_0 weather({PARIS})", *ENDED], 0, id="a-call"),
        pytest.param(["I am sorry.", PARIS], [f"0:tool_0_0 weather({PARIS})", *ENDED], 1, id="asked-again"),
        pytest.param(["no", BAD, PARIS], [f"0:tool_0_0 weather({PARIS})", *ENDED], 2, id="asked-twice"),
        pytest.param(["no"] * 3, ["InvalidToolCall"], 2, id="given-up"),
    ],
)
def test_an_answer_that_must_be_a_call(answers: list[str], expected: list[str], asked: int) -> None:
    """Contract: named and required choices hold."""
    events: list[BackendEvent] = []
    for number, answer in enumerate(answers):
        events += [
            TextDelta(0, f"m{number}", answer),
            MessageDone(0, f"m{number}", answer),
            TurnEnded(0, STOP),
        ]
    out, orders = run(declare(STRICT, choice=NAMED), events)
    shown = [line.partition(": ")[0] if line[0].isupper() else line for line in out if line[0] != "{"]
    assert shown == ["Began", *expected]
    assert [type(order) for order in orders] == [AskAgain] * asked


def test_a_call_that_comes_as_one_where_an_answer_was_asked_for() -> None:
    out, orders = run(declare(SOFT, choice=ToolChoice(ChoiceMode.REQUIRED)), [call(name="search"), DONE])
    assert (out, orders) == (["Began", f"0:tool_0_0 search({PARIS})", *ENDED], [StopChoice(0)])


def test_an_answer_that_must_be_a_call_and_was_cut() -> None:
    out, orders = run(declare(STRICT, choice=NAMED), [TextDelta(0, "m", '{"ci'), TurnEnded(0, LENGTH)])
    assert (out, orders) == (["Began", "finish length", "Completed"], [])


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param([TextDelta(0, "m1", '{"ci'), TurnEnded(0, LENGTH)], ["finish length"], id="cut"),
        pytest.param(
            [call(), DONE], [f"0:tool_0_0 weather({PARIS})", "finish tool_calls"], id="a-call-as-one"
        ),
    ],
)
def test_an_answer_that_was_asked_for_again_ends_too(second: list[BackendEvent], expected: list[str]) -> None:
    """Whatever the second one is: nothing more is to come, and who waits for it would run out of time."""
    out, _ = run(
        declare(ToolSpec("weather", None, CITY), choice=NAMED),
        [TextDelta(0, "m", "no"), TurnEnded(0, STOP), *second],
    )
    assert out[3:] == [*expected, "Completed"]


def test_an_unseen_answer_may_start_over() -> None:
    events = [TextDelta(0, "m1", '{"ci'), Retrying(0, "again"), TextDelta(0, "m2", PARIS), TurnEnded(0, STOP)]
    out, _ = run(declare(STRICT, choice=NAMED), events)
    assert out == ["Began", f"0:tool_0_0 weather({PARIS})", *ENDED]


def test_a_forced_call_is_written_as_a_block_too() -> None:
    rules = declare(SOFT, choice=ToolChoice(ChoiceMode.REQUIRED), escape=EscapePolicy.XML)
    out, _ = run(rules, [TextDelta(0, "", PARIS), TurnEnded(0, STOP)])
    assert out == ["Began", f"0:tool_0_0 search({PARIS})", BLOCK, *ENDED]


def test_a_choice_that_ends_early_is_stopped() -> None:
    """The model costs no more than is wanted; the other choice goes on."""
    rules = dataclasses.replace(PLAIN, stop=("END",))
    core = TurnCore(2, rules=rules)
    out = core.feed_all([TextDelta(1, "m", "a END b"), TextDelta(0, "m", "c")])
    assert (show(out), core.take_orders()) == (
        ["Began", "a ", "finish stop", "Began", "c"],
        [StopChoice(1)],
    )
    assert core.take_orders() == []


def test_errors_after_a_delivered_block() -> None:
    """Story 2.9 AC 14: the canonical finish, and the error only in the log; but not for who has no call."""
    block = "<use_tool><name>f</name></use_tool>"
    rules = dataclasses.replace(BLOCKS, rows=USE_TOOL, policy=StopPolicy().run_on())
    broken = TurnFailed(BackendUnavailable("broken"))
    calls = ["0:tool_0_0 f()", f"0:m[{block}]"]
    one, _ = run(rules, [TextDelta(0, "m", block), broken])
    assert [line for line in one if "buffer" not in line] == [
        *("Began", *calls, "{failed_after_calls backend_unavailable }", *ENDED)
    ]
    two, _ = run(rules, [TextDelta(0, "m", block), ModelActive(1), broken], choices=2)
    assert two[-2:] == ["finish tool_calls", "BackendUnavailable: broken"]
    left = TurnCore(rules=rules)
    left.feed(TextDelta(0, "m", block))
    assert isinstance(left.fail(ClientGone("gone"))[-1], Failed)


def test_many_calls() -> None:
    calls = [call(json.dumps({"city": f"日本 {number} 🎹"}), "search", f"c{number}") for number in range(200)]
    out, _ = run(declare(SOFT), [*calls, DONE])
    expected = [
        f"0:tool_0_{number} search({signal.payload['arguments']})" for number, signal in enumerate(calls)
    ]
    assert out == ["Began", *expected, *ENDED]
