"""Turns with calls: several choices, one reason to finish, and what comes too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.lib.events import FinishReason, ResponseDone, TurnEnded
from app.lib.orders import StopChoice
from app.lib.usage import Usage
from tests.contract.called import ARGUMENTS, GONE, RUNNING_ON, TOOLS, USE, called
from tests.contract.conftest import MODES, OPENAI, Answer, Answers, Post, read_body
from tests.support.scripted_backend import (
    USAGE,
    Anew,
    ScriptedBackend,
    Step,
    call,
    end,
    say,
    signal,
    tell_in_chat,
)
from tests.support.sse import DONE, read_frames

BLOCK = "<use_tool>\n<name>f</name>\n<a>1</a>\n</use_tool>"


def said(text: str, finish: str = "stop") -> Answer:
    return Answer(text, finish)


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    ("calling", "block"),
    [
        pytest.param(call("f", ARGUMENTS, choice=1), BLOCK, id="structured"),
        pytest.param(say(*USE, choice=1), USE, id="textual"),
    ],
)
@pytest.mark.parametrize("n", [2, 3])
def test_only_the_second_choice_calls(
    answers: Answers, backend: ScriptedBackend, n: int, calling: Step, block: str, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 16, and the reviews' case: nothing of a call shows in another choice."""
    others = [index for index in range(n) if index != 1]
    backend.script = [
        *(say("a", choice=index) for index in others),
        calling,
        *(say("b", choice=index) for index in others),
        end(choice=1),
        *(end(choice=index) for index in others),
    ]
    expected = [called(block, headers) if index == 1 else said("ab") for index in range(n)]
    assert answers(tools=TOOLS, headers=headers, n=n) == expected
    assert backend.turns[0].orders == [StopChoice(1)]


@pytest.mark.parametrize("headers", MODES)
def test_every_choice_has_its_own_finish(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 4, 16."""
    backend.script = [
        say("a") + say("c", choice=2) + call("f", ARGUMENTS, choice=1),
        end(FinishReason.CONTENT_FILTER, choice=2) + end(FinishReason.LENGTH, choice=1),
        end(FinishReason.LENGTH),
    ]
    assert answers(tools=TOOLS, headers=headers, n=3) == [
        said("a", "length"),
        called(BLOCK, headers),
        said("c", "content_filter"),
    ]


@pytest.mark.parametrize("gateway_settings", [pytest.param(RUNNING_ON, id="running-on")])
@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize("reason", FinishReason)
@pytest.mark.parametrize(
    ("calling", "block"),
    [pytest.param(call("f", ARGUMENTS), BLOCK, id="structured"), pytest.param(say(USE), USE, id="textual")],
)
def test_a_call_is_the_reason_whatever_else_there_was(
    answers: Answers,
    backend: ScriptedBackend,
    calling: Step,
    block: str,
    reason: FinishReason,
    headers: dict[str, str],
) -> None:
    """Story 2.9 AC 4."""
    backend.script = [calling, [TurnEnded(0, reason)]]
    assert answers(tools=TOOLS, headers=headers) == [called(block, headers)]


@pytest.mark.parametrize("headers", MODES)
def test_every_choice_may_call(answers: Answers, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    """Story 2.9 AC 16: ids and places of one choice are nothing to another."""
    told = [tell_in_chat("f", ('{"a":', f"{index}}}")) for index in range(2)]
    rounds = [signal(a) + signal(b, choice=1) for a, b in zip(*told, strict=True)]
    backend.script = [*rounds, end(), end(choice=1)]
    assert [answer.calls for answer in answers(tools=TOOLS, headers=headers, n=2)] == [
        (("f", '{"a":0}'),),
        (("f", '{"a":1}'),),
    ]


def build_chunk(*indexes: int | None) -> dict[str, Any]:
    """A chat chunk in which each of these choices calls."""
    part = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
    delta = {"delta": {"tool_calls": [part]}}
    return {"choices": [delta if index is None else delta | {"index": index} for index in indexes]}


ITEM = {"type": "function_call", "call_id": "call_0", "name": "f", "arguments": ARGUMENTS}


@pytest.mark.parametrize(
    ("payload", "callers"),
    [
        pytest.param(build_chunk(1), {1}, id="chat"),
        pytest.param(build_chunk(0, 1), {0, 1}, id="chat-both"),
        pytest.param(build_chunk(None), {0}, id="chat-unnamed"),
        pytest.param({"choice_index": 1, "item": ITEM}, {1}, id="choice_index"),
        pytest.param({"params": {"choiceIndex": 1, "item": ITEM}}, {1}, id="choiceIndex"),
        pytest.param({"choice_index": -1, "item": ITEM}, {0}, id="no-index"),
        pytest.param(build_chunk(2), set(), id="out-of-range"),
        pytest.param(build_chunk(10**15), set(), id="far-out-of-range"),
        pytest.param({"choice_index": 2, "item": ITEM}, set(), id="choice_index-out-of-range"),
    ],
)
def test_a_payload_may_name_its_choice(
    answers: Answers, backend: ScriptedBackend, payload: dict[str, Any], callers: set[int]
) -> None:
    """Story 2.9 AC 16, 20: it is resolved before anything is recorded; one nobody asked for is dropped."""
    backend.script = [signal(payload), end(), end(choice=1)]
    expected = [called("", OPENAI) if index in callers else Answer(None, "stop") for index in range(2)]
    assert answers(tools=TOOLS, n=2) == expected


def test_the_usage_of_all_choices_is_told_once(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [call("f", ARGUMENTS), say("b", choice=1), end(), end(choice=1)]
    request = {"tools": TOOLS, "n": 2, "stream": True, "stream_options": {"include_usage": True}}
    *_, last, done = read_frames(post(**request).data)
    total = USAGE + USAGE
    assert (last["choices"], last["usage"]["total_tokens"], done) == (
        [],
        total.input_tokens + total.output_tokens,
        DONE,
    )


LATE = [*call("g", "{}", "call_9"), *say("late", item_id="late"), *end(FinishReason.LENGTH)]


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    ("script", "block", "reads"),
    [
        pytest.param([[*call("f", ARGUMENTS), *end(), *LATE]], BLOCK, 1, id="one-batch"),
        pytest.param([[*call("f", ARGUMENTS), ResponseDone(0, USAGE), *LATE]], BLOCK, 1, id="a-response"),
        pytest.param([call("f", ARGUMENTS) + end(), LATE, GONE], BLOCK, 1, id="other-batches"),
        pytest.param([[*say(USE), *LATE], LATE, GONE], USE, 1, id="behind-a-block"),
    ],
)
def test_what_comes_late_is_dropped(
    answers: Answers,
    backend: ScriptedBackend,
    script: list[Step],
    block: str,
    reads: int,
    headers: dict[str, str],
) -> None:
    """Story 2.9 AC 10: nothing follows the finish, and nothing more is asked for."""
    backend.script = script
    assert answers(tools=TOOLS, headers=headers) == [called(block, headers)]
    assert [(turn.reads, turn.closes) for turn in backend.turns] == [(reads, 1)] * 2


@pytest.mark.parametrize("headers", MODES)
def test_what_comes_late_for_one_choice_is_dropped(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 10, 16: the backend may not have heard yet that it is to stop."""

    def play() -> Iterator[Step]:
        yield [*call("f", ARGUMENTS, choice=1), ResponseDone(1, USAGE)]
        assert backend.turns[-1].orders == [StopChoice(1)]
        yield say("late", choice=1) + call("g", "{}", "call_9", choice=1)
        yield [ResponseDone(1, USAGE), TurnEnded(1, FinishReason.LENGTH)]
        yield say("a") + end()

    backend.script = Anew(play)
    assert answers(tools=TOOLS, headers=headers, n=2) == [said("a"), called(BLOCK, headers)]


def test_calls_end_a_choice_though_the_turn_runs_on(post: Post, backend: ScriptedBackend) -> None:
    """The client is to run them: what codex would do next is not waited for."""
    backend.script = [call("f", ARGUMENTS), [ResponseDone(0, Usage(10, 0, 5, 0))], say("never read")]
    response = post(tools=TOOLS)
    assert (read_body(response), backend.turns[0].reads) == ([called("", OPENAI)], 2)
    assert response.get_json()["usage"]["total_tokens"] == 15
