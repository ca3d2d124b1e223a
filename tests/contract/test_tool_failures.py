"""Turns with calls that go wrong: a response begun again, a failure, a client that leaves."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from app.handlers.tool_buffers import BufferEvent
from app.lib.errors import ProxyError
from app.lib.events import NoteKind, Retrying, TurnFailed
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.called import ARGUMENTS, GONE, RUNNING_ON, TOOLS, USE, called
from tests.contract.conftest import MODES, OPENAI, Answers, Post
from tests.support.scripted_backend import (
    ScriptedBackend,
    Step,
    call,
    end,
    say,
    signal,
    tell_in_chat,
)
from tests.support.sse import DONE, read_deltas

STRICT = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object"}}}]
NAMED = {"type": "function", "function": {"name": "f"}}
AGAIN: Step = [Retrying(0, "The stream broke.")]


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(call("f", ARGUMENTS, "c1"), id="a-call"),
        pytest.param(signal(*tell_in_chat("f", ['{"a"'], "c1")), id="half-a-call"),
    ],
)
def test_a_call_that_was_shown_is_not_begun_again(
    post: Post, backend: ScriptedBackend, before: Step, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 7: where codex starts a response over, its calls come again under other ids."""
    backend.script = [before, AGAIN, call("f", ARGUMENTS, "c2"), end()]
    body = post(tools=TOOLS, headers=headers)
    assert (body.status_code, body.get_json()["error"]["code"]) == (503, "answer_interrupted")
    assert read_deltas(post(tools=TOOLS, headers=headers, stream=True).data)[-2:] == [body.get_json(), DONE]


@pytest.mark.parametrize(
    ("request_", "before", "after"),
    [
        pytest.param(
            {"tools": STRICT}, call("f", ARGUMENTS, "c1"), call("f", ARGUMENTS, "c2"), id="a-strict-call"
        ),
        pytest.param(
            {"tools": TOOLS, "tool_choice": NAMED}, say('{"a":'), say(ARGUMENTS), id="a-demanded-call"
        ),
        pytest.param({"tools": TOOLS}, [], call("f", ARGUMENTS), id="nothing"),
    ],
)
def test_what_was_not_shown_begins_anew(
    answers: Answers, backend: ScriptedBackend, request_: dict[str, Any], before: Step, after: Step
) -> None:
    """Nothing of a response that broke is in the answer."""
    backend.script = [before, AGAIN, after, end()]
    assert answers(**request_) == [called("", OPENAI)]


def build_error_end(error: ProxyError) -> list[Any]:
    return [error.to_dict(), DONE]


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "failure", [pytest.param(GONE, id="raised"), pytest.param([TurnFailed(GONE)], id="told")]
)
@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="at-once"),
        pytest.param([say("Hi")], id="behind-text"),
        pytest.param([say("Hi <use_tool><name>f")], id="in-a-block"),
        pytest.param([signal(*tell_in_chat("f", ['{"a"']))], id="in-arguments"),
        pytest.param([call("f", ARGUMENTS)], id="in-a-batch"),
    ],
)
def test_a_failure_before_a_call_is_one(
    post: Post, backend: ScriptedBackend, before: list[Step], failure: Step, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 14: a status, or one frame; a call counts once its response is complete."""
    backend.script = [*before, failure]
    body = post(tools=TOOLS, headers=headers)
    stream = post(tools=TOOLS, headers=headers, stream=True)
    assert (body.status_code, body.get_json()) == (503, GONE.to_dict())
    if not before:
        assert (stream.status_code, stream.get_json()) == (503, GONE.to_dict())
        return
    *brought, error, done = read_deltas(stream.data)
    assert (stream.status_code, [error, done]) == (200, build_error_end(GONE))
    assert {finish for _, _, finish in brought} == {None}


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "failure", [pytest.param(GONE, id="raised"), pytest.param([TurnFailed(GONE)], id="told")]
)
@pytest.mark.parametrize(
    ("gateway_settings", "script"),
    [
        pytest.param(RUNNING_ON, [say(USE)], id="running-on"),
        pytest.param(RUNNING_ON, [say(USE, " tail")], id="in-a-tail"),
        pytest.param(RUNNING_ON, [say(USE, "<use_tool><name>g")], id="in-another-block"),
        pytest.param(Settings(stop_mode=StopMode.ALL), [say(USE)], id="waiting-for-another"),
    ],
)
def test_a_failure_behind_a_block_is_none(
    answers: Answers,
    backend: ScriptedBackend,
    script: list[Step],
    failure: Step,
    headers: dict[str, str],
) -> None:
    """Story 2.9 AC 14: the client has its call, so the canonical finish follows, and no error."""
    backend.script = [*script, failure]
    assert answers(tools=TOOLS, headers=headers) == [called(USE, headers)]
    assert [turn.closes for turn in backend.turns] == [1, 1]


@pytest.mark.parametrize("gateway_settings", [pytest.param(RUNNING_ON, id="running-on")])
def test_a_failure_behind_a_block_is_another_choices(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 14, 16: the choice with the call finishes; that the other one never came is an error."""
    backend.script = [say(USE) + say("a", choice=1), GONE]
    brought = read_deltas(post(tools=TOOLS, n=2, stream=True).data)
    finishes = [(index, finish) for index, _, finish in brought[:-2] if finish]
    assert (finishes, brought[-2:]) == ([(0, "tool_calls")], build_error_end(GONE))
    assert post(tools=TOOLS, n=2).status_code == 503


@pytest.mark.parametrize("headers", MODES)
def test_a_client_that_leaves_in_a_block(
    app: flask.Flask, post: Post, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 17, 2.12 AC 2: the turn is closed once, and what was held is counted."""
    backend.script = [say("a ", "<use_tool>", "<name>f"), say("never read")]
    response = post(headers=headers, stream=True, buffered=False)
    shown = read_deltas(next(response.iter_encoded()))
    response.close()
    response.close()
    mode = headers["x-proxy-output-mode"]
    assert shown[1:] == [(0, {"content": "a "}, None)]
    assert [(turn.reads, turn.closes) for turn in backend.turns] == [(1, 1)]
    assert app.extensions["tool_buffers"].read() == {
        BufferEvent(NoteKind.BUFFER_STARTED, mode, "use_tool", ""): 1,
        BufferEvent(NoteKind.BUFFER_ABORTED, mode, "use_tool", "client_left"): 1,
    }


@pytest.mark.parametrize("headers", MODES)
def test_a_client_that_leaves_in_a_call(
    app: flask.Flask, post: Post, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 17."""
    backend.script = [signal(*tell_in_chat("f", ['{"a"'])), signal({"never": "read"})]
    response = post(tools=TOOLS, headers=headers, stream=True, buffered=False)
    next(response.iter_encoded())
    response.close()
    assert [(turn.reads, turn.closes) for turn in backend.turns] == [(1, 1)]
    assert app.extensions["tool_buffers"].read() == {}
