"""Recordings played through the gateway: story 2.12's regression, whole, broken off, and left alone."""

from __future__ import annotations

import json
import logging
import pathlib
import re
from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from app.settings import Settings
from tests.support.replay import Recording, ReplayBackend, main, replay
from tests.support.sse import DONE, read_deltas
from tests.support.transcripts import FOLDER

PATH = FOLDER.parent / "proto-replay" / "req-HevrLsVQESL3K1M3_3dHi.jsonl"
RECORDING = Recording(PATH)
SENTENCE = ["I will look ", "through your ", "notes first.", "\n\n"]
BLOCK = (
    "<use_tool>\n<name>localSearch</name>\n<query>quarterly plan 日本語 🎹</query>\n"
    '<salientTerms>["plan", "quarterly"]</salientTerms>\n</use_tool>'
)
TAIL = ["\n\nWhile that ", "runs: the plan ", "is usually in ", "`plans/`."]
ARGUMENTS = '{"query":"quarterly plan 日本語 🎹","salientTerms":["plan","quarterly"]}'
CALL_ID = re.compile(r"tool_0_0_[0-9a-f]{8}")
#: A delta inside the block, and what was said of the block with it.
INSIDE = 'Terms>["pl'
BEGUN = BLOCK[: BLOCK.index('an", "quart')]
LEFT_BEHIND = {"tool_buffer_started": 1, "tool_buffer_flushed": 0, "tool_buffer_aborted": 1}
ROLE = (0, {"role": "assistant", "content": ""}, None)
FINISH = (0, {}, "tool_calls")
STARTED = {
    "index": 0,
    "id": "tool_0_0_…",
    "type": "function",
    "function": {"name": "localSearch", "arguments": ""},
}
ADDED = {"index": 0, "function": {"arguments": ARGUMENTS}}


def text(said: str) -> tuple[int, dict[str, str], None]:
    return 0, {"content": said}, None


def call(*deltas: dict[str, Any]) -> list[tuple[int, dict[str, Any], None]]:
    return [(0, {"tool_calls": [delta]}, None) for delta in deltas]


CALL_IN_XML = call(STARTED | {"arguments": ""}, ADDED | {"arguments": ARGUMENTS})
IN_XML = [ROLE, *map(text, SENTENCE), *CALL_IN_XML, text(BLOCK), FINISH, DONE]


@pytest.fixture
def recording() -> Recording:
    return RECORDING


@pytest.fixture
def per_read() -> int:
    return 1


@pytest.fixture
def backend(recording: Recording, per_read: int) -> ReplayBackend:
    return ReplayBackend(recording, per_read)


def ask(app: flask.Flask, recording: Recording, buffered: bool = True, **more: Any) -> TestResponse:
    body = recording.build_request() | more
    return app.test_client().post("/v1/chat/completions", json=body, buffered=buffered)


def read(response: TestResponse) -> list[Any]:
    """What each frame brings, without what is random in a call's id."""
    return read_deltas(CALL_ID.sub("tool_0_0_…", response.get_data(as_text=True)).encode())


def test_the_recording_is_what_it_is_said_to_be() -> None:
    """A sentence, a block cut inside its tags, a tail; and the raw final message repeats it all."""
    deltas = RECORDING.deltas()
    whole = "".join([*SENTENCE, BLOCK, *TAIL])
    raw = [
        each.params["item"]
        for each in RECORDING.notifications()
        if each.method == "rawResponseItem/completed"
    ]
    said = [item["content"] for item in raw if item.get("role") == "assistant"]
    assert ("".join(deltas), said) == (whole, [[{"type": "output_text", "text": whole}]])
    assert not [delta for delta in deltas if "<use_tool" in delta or "</use_tool" in delta]


def test_the_request_is_built_again() -> None:
    request = RECORDING.build_request()
    [instructions, asked] = request.pop("messages")
    assert (request, instructions["role"], "<use_tool>" in instructions["content"]) == (
        {"model": "scripted-model", "n": 1},
        "developer",
        True,
    )
    # Codex joins the first two pieces of the tag.
    [step] = json.loads(asked["content"])
    assert "".join(step["say"]) == "".join(RECORDING.deltas())


@pytest.mark.parametrize("per_read", [1, 2, 7, 1000])
def test_one_textual_frame(app: flask.Flask, recording: Recording) -> None:
    """Story 2.12 AC 5: the block once, verbatim, and behind it only the finish; however the pipe is read."""
    assert read(ask(app, recording, stream=True)) == IN_XML


RUN_ON = Settings(stop_after_tools=False)
FLOW_ON = Settings(stop_after_tools=False, suppress_tail=False)


@pytest.mark.parametrize(
    ("gateway_settings", "expected"),
    [
        pytest.param(RUN_ON, IN_XML, id="the-turn-runs-on"),
        pytest.param(FLOW_ON, [*IN_XML[:-2], *map(text, TAIL), FINISH, DONE], id="the-text-flows-on"),
    ],
)
def test_the_final_message_repeats_nothing(
    app: flask.Flask, recording: Recording, expected: list[Any]
) -> None:
    """Where the turn is not cut, the message that repeats the block is read too, and adds nothing."""
    assert read(ask(app, recording, stream=True)) == expected
    assert app.extensions["tool_buffers"].totals() == {
        "tool_buffer_started": 1,
        "tool_buffer_flushed": 1,
        "tool_buffer_aborted": 0,
    }


def test_the_body_says_the_same(app: flask.Flask, recording: Recording) -> None:
    [choice] = ask(app, recording).get_json()["choices"]
    [called] = choice["message"]["tool_calls"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (
        "".join(SENTENCE) + BLOCK,
        "tool_calls",
    )
    assert called["function"] == {"name": "localSearch", "arguments": ARGUMENTS}


@pytest.mark.parametrize("recording", [pytest.param(RECORDING.break_behind(INSIDE), id="inside-the-block")])
def test_a_stream_that_breaks_inside_the_block(app: flask.Flask, recording: Recording) -> None:
    """Story 2.12 AC 2, 5: what was held goes out once, then the error; no call, and counted as aborted."""
    *said, error, done = read(ask(app, recording, stream=True))
    contents = [delta["content"] for _, delta, _ in said]
    assert ("".join(contents), [finish for *_, finish in said]) == (
        "".join(SENTENCE) + BEGUN,
        [None] * len(said),
    )
    assert (error["error"]["code"], done) == ("backend_unavailable", DONE)
    assert app.extensions["tool_buffers"].totals() == LEFT_BEHIND


@pytest.mark.parametrize("recording", [pytest.param(RECORDING.break_behind(INSIDE), id="inside-the-block")])
def test_a_body_that_breaks_inside_the_block(app: flask.Flask, recording: Recording) -> None:
    assert (ask(app, recording).status_code, app.extensions["tool_buffers"].totals()) == (503, LEFT_BEHIND)


@pytest.mark.parametrize(
    "per_read",
    [pytest.param(len(list(RECORDING.break_behind(INSIDE).notifications())), id="inside-the-block")],
)
def test_a_client_that_leaves_inside_the_block(
    app: flask.Flask, recording: Recording, backend: ReplayBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.12 AC 2: it got nothing of the block; that is counted, and the turn is closed."""
    response = ask(app, recording, buffered=False, stream=True)
    first = next(response.iter_encoded())
    response.close()
    assert read_deltas(first) == [ROLE, *map(text, SENTENCE)]
    [line] = [dict(record.fields) for record in logged if record.name == "access"]
    assert line["tool_buffer_aborted.use_tool.client_left"] == 1
    assert (app.extensions["tool_buffers"].totals(), backend.turns[0].closes) == (LEFT_BEHIND, 1)


IN_JSON = [ROLE, *map(text, SENTENCE), *call(STARTED, ADDED), FINISH, DONE]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], IN_XML, id="as-it-comes"),
        pytest.param(["--stream", "--mode", "obsidian-xml"], IN_XML, id="xml"),
        pytest.param(["--mode", "openai-json"], IN_JSON, id="json"),
    ],
)
def test_the_script_prints_a_stream(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: list[Any]
) -> None:
    assert main([str(PATH), *options]) == 0
    printed = CALL_ID.sub("tool_0_0_…", capsys.readouterr().out)
    assert read_deltas(printed.encode() + b"\n") == expected


def test_the_script_prints_a_body(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PATH), "--body", "--mode", "openai-json"]) == 0
    [choice] = json.loads(capsys.readouterr().out)["choices"]
    assert (choice["message"]["content"], len(choice["message"]["tool_calls"])) == ("".join(SENTENCE), 1)


def test_the_script_tells_of_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FOLDER / "error-http-503.jsonl")]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "backend_unavailable"


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("**/*.jsonl"))]
)
def test_every_recording_can_be_replayed(path: pathlib.Path) -> None:
    """A request that our own door refuses would be the script's fault."""
    response = replay(Recording(path), stream=False)
    assert response.status_code == 200 or response.get_json()["error"]["param"] is None
