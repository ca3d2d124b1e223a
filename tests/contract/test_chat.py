"""Chat completions over HTTP: bodies, streams, what is held back and when it is let go."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.lib.errors import BackendUnavailable, ClientGone
from app.lib.events import FinishReason, Tick
from app.settings import Settings
from tests.contract.conftest import Post
from tests.support.scripted_backend import ScriptedBackend, Step, end, say, think
from tests.support.sse import DONE, read_deltas, read_frames

ROLE = (0, {"role": "assistant", "content": ""}, None)
STOP = (0, {}, "stop")
USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 20,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
PATIENCE_S = 10
HELLO = [[Tick(0)], think("Hm."), say("Hel"), say("lo"), end()]


def text(delta: str, choice: int = 0) -> tuple[int, dict[str, str], None]:
    return choice, {"content": delta}, None


def failure(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "server_error", "param": None, "code": code}}


def test_body(post: Post, backend: ScriptedBackend) -> None:
    backend.script = HELLO
    before_s = int(time.time())
    response = post()
    body = response.get_json()
    id_, created = body.pop("id"), body.pop("created")
    assert (response.status_code, response.content_type, body) == (
        200,
        "application/json",
        {
            "object": "chat.completion",
            "model": "gpt-5.5",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Hello",
                        "refusal": None,
                        "reasoning_content": "Hm.",
                    },
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": USAGE,
        },
    )
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{24}", id_)
    assert before_s <= created <= time.time()


def test_stream(post: Post, backend: ScriptedBackend) -> None:
    backend.script = HELLO
    response = post(stream=True)
    assert (response.status_code, read_deltas(response.data)) == (
        200,
        [ROLE, (0, {"reasoning_content": "Hm."}, None), text("Hel"), text("lo"), STOP, DONE],
    )


def test_every_chunk_says_who_it_is(post: Post, backend: ScriptedBackend) -> None:
    backend.script = HELLO
    *chunks, _ = read_frames(post(stream=True).data)
    first = chunks[0]
    assert [{key: value for key, value in chunk.items() if key != "choices"} for chunk in chunks] == [
        {
            "id": first["id"],
            "object": "chat.completion.chunk",
            "created": first["created"],
            "model": "gpt-5.5",
        }
    ] * len(chunks)


def test_two_answers_have_two_ids(post: Post, backend: ScriptedBackend) -> None:
    backend.script = HELLO
    assert post().get_json()["id"] != post().get_json()["id"]


def test_stream_headers(post: Post, backend: ScriptedBackend) -> None:
    backend.script = HELLO
    headers = post(stream=True).headers
    names = ("content-type", "cache-control", "connection", "x-accel-buffering", "content-length")
    assert {name: headers.get(name) for name in names} == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, no-transform",
        "connection": "keep-alive",
        "x-accel-buffering": "no",
        "content-length": None,
    }


def test_stream_with_usage(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    response = post(stream=True, stream_options={"include_usage": True})
    assert read_deltas(response.data) == [ROLE, text("Hi"), STOP, {"usage": USAGE}, DONE]


def test_two_choices(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [
        say("b", choice=1) + say("a"),
        end(FinishReason.LENGTH, choice=1),
        end(),
    ]
    response = post(stream=True, n=2)
    assert read_deltas(response.data) == [
        ROLE,
        (1, {"role": "assistant", "content": ""}, None),
        text("b", 1),
        text("a"),
        (1, {}, "length"),
        STOP,
        DONE,
    ]


def test_what_codex_is_given(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [end()]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    post(model="fast", messages=messages, reasoning_effort="low", n=1)
    items = (
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    )
    [prompt] = backend.prompts
    assert (prompt.items, prompt.tools, prompt.output_schema) == (items, (), None)
    assert (prompt.request.model, prompt.request.effort, prompt.request.choices) == ("fast", "low", 1)


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"temperature": 0}, "temperature", id="one"),
        pytest.param({"user": "me", "seed": 1, "unheard_of": 2}, "seed, user", id="two-and-an-unknown"),
    ],
)
def test_ignored_params_are_named(
    post: Post, backend: ScriptedBackend, changes: dict[str, Any], expected: str | None, stream: bool
) -> None:
    backend.script = [end()]
    assert post(stream=stream, **changes).headers.get("x-proxy-ignored-params") == expected


def test_one_write_a_batch_and_none_for_a_tick(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("a", "b"), [Tick(1)], say("c", "d"), [Tick(2)], end()]
    with post(stream=True, buffered=False) as response:
        writes = [read_deltas(chunk) for chunk in response.iter_encoded()]
    assert writes == [[ROLE, text("a"), text("b")], [text("c"), text("d")], [STOP, DONE]]


class Held:
    """A script that only ticks until it is let go, or until nobody will."""

    def __init__(self, before: list[Step], after: list[Step]) -> None:
        self._before = before
        self._after = after
        self.released = False

    def __iter__(self) -> Iterator[Step]:
        yield from self._before
        until_s = time.monotonic() + PATIENCE_S
        while not self.released:
            assert time.monotonic() < until_s, "never let go"
            yield [Tick(time.monotonic())]
        yield from self._after


soon = pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(commit_after_s=0.004), id="commit-soon")]
)


@soon
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param([say("Hi"), end()], [text("Hi"), STOP, DONE], id="an-answer"),
        pytest.param(
            [BackendUnavailable("Gone.")], [failure("Gone.", "backend_unavailable"), DONE], id="a-failure"
        ),
        pytest.param(
            [ClientGone("Bye.")], [failure("Bye.", "client_closed_request"), DONE], id="nobody-is-left"
        ),
    ],
)
def test_a_long_think_does_not_look_like_a_dead_server(
    post: Post, backend: ScriptedBackend, after: list[Step], expected: list[Any]
) -> None:
    """The role frame goes out before the model's first event, and later errors are in-band."""
    backend.script = script = Held([], after)
    with post(stream=True, buffered=False) as response:
        chunks = response.iter_encoded()
        first = read_deltas(next(chunks))
        script.released = True
        rest = read_deltas(b"".join(chunks))
    assert (response.status_code, first, rest) == (200, [ROLE], expected)


@soon
def test_a_body_has_nothing_to_hold(post: Post, backend: ScriptedBackend) -> None:
    """However long codex is silent, a failure keeps its status."""

    def fail_later() -> Iterator[Step]:
        until_s = time.monotonic() + 0.02
        while time.monotonic() < until_s:
            yield [Tick(time.monotonic())]
        yield BackendUnavailable("Gone.")

    backend.script = fail_later()
    assert post().status_code == 503


def test_the_200_is_held_for_the_models_first_sign(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [*([Tick(at)] for at in range(5)), say("Hi"), end()]
    with post(stream=True, buffered=False) as response:
        reads = backend.turns[0].reads
        first = read_deltas(next(response.iter_encoded()))
    assert (reads, first) == (6, [ROLE, text("Hi")])


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(keepalive_s=0.004), id="keepalive-soon")])
def test_a_silent_stream_gets_a_comment(post: Post, backend: ScriptedBackend) -> None:
    """Silence is counted from the last byte, a comment's too."""
    backend.script = script = Held([say("Hi")], [end()])
    with post(stream=True, buffered=False) as response:
        chunks = response.iter_encoded()
        first, from_s = next(chunks), time.monotonic()
        comments, took_s = [next(chunks), next(chunks)], time.monotonic() - from_s
        script.released = True
        rest = b"".join(chunks)
    assert (read_deltas(first), comments, read_deltas(rest)) == (
        [ROLE, text("Hi")],
        [b": keepalive\n\n"] * 2,
        [STOP, DONE],
    )
    assert took_s >= 2 * 0.004


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(HELLO, id="an-answer"),
        pytest.param([BackendUnavailable("Gone.")], id="a-failure-before"),
        pytest.param([say("Hi"), BackendUnavailable("Gone.")], id="a-failure-after"),
        pytest.param([say("Hi"), ClientGone("Bye.")], id="nobody-is-left"),
        pytest.param([ZeroDivisionError()], id="a-fault-before"),
        pytest.param([say("Hi"), ZeroDivisionError()], id="a-fault-after"),
        pytest.param([say("Hi")], id="events-just-stop"),
        pytest.param([], id="no-events"),
    ],
)
def test_a_turn_is_closed_exactly_once(
    post: Post, backend: ScriptedBackend, script: list[Step], stream: bool
) -> None:
    backend.script = script
    response = post(stream=stream, buffered=False)
    before = [turn.closes for turn in backend.turns]
    b"".join(response.iter_encoded())
    response.close()
    response.close()
    assert (before, [turn.closes for turn in backend.turns]) == ([0], [1])


@pytest.mark.parametrize(
    ("chunks_read", "batches_read"),
    [pytest.param(0, 1, id="never-started"), pytest.param(1, 1, id="begun"), pytest.param(2, 2, id="midway")],
)
def test_a_client_that_leaves_closes_the_turn(
    post: Post, backend: ScriptedBackend, chunks_read: int, batches_read: int
) -> None:
    backend.script = [say("a"), say("b"), say("c"), end()]
    response = post(stream=True, buffered=False)
    chunks = response.iter_encoded()
    for _ in range(chunks_read):
        next(chunks)
    response.close()
    assert [(turn.closes, turn.reads) for turn in backend.turns] == [(1, batches_read)]


def test_a_bad_request_opens_no_turn(post: Post, backend: ScriptedBackend) -> None:
    assert (post(messages=[]).status_code, backend.turns) == (400, [])
