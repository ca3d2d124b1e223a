"""The conversation over a pipe, with a test at its other side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from app.backend.jsonrpc import Notification, ServerRequest
from app.backend.pipe import Pipe
from app.backend.rpc import Rpc
from app.backend.waiting import run_through
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ProcessFailed, ProxyError
from app.settings import Settings

CALLS = [("first", {"a": 1}), ("second", {})]
TOLD = Notification("told", {"x": 1})
QUESTION = ServerRequest(7, "item/tool/call", {"callId": "c"})


class Line:
    """A pipe, and what codex has at its ends of it."""

    def __init__(self) -> None:
        self._pipe = Pipe(1 << 20)
        self.rpc = Rpc(self._pipe, Settings(), 0)
        self._is_open = True
        os.set_blocking(self._pipe.child_stdin_fd, False)

    def say(self, *messages: dict[str, Any]) -> None:
        self.write(b"".join(orjson.dumps(message) + b"\n" for message in messages))

    def write(self, data: bytes) -> None:
        os.write(self._pipe.child_stdout_fd, data)

    def hear(self) -> list[dict[str, Any]]:
        """What codex was sent."""
        try:
            return [orjson.loads(line) for line in os.read(self._pipe.child_stdin_fd, 1 << 16).splitlines()]
        except BlockingIOError:
            return []

    def hang_up(self) -> None:
        self._pipe.close_child_ends()
        self._is_open = False

    def close(self) -> None:
        if self._is_open:
            self.hang_up()
        self._pipe.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def answer(id_: int, result: dict[str, Any]) -> dict[str, Any]:
    return {"id": id_, "result": result}


def tell(message: Notification) -> dict[str, Any]:
    return {"method": message.method, "params": message.params}


def test_answers_come_in_any_order(line: Line) -> None:
    line.say(answer(2, {"n": 2}), answer(1, {"n": 1}))
    assert run_through(line.rpc.call_all(CALLS)) == [{"n": 1}, {"n": 2}]
    assert [(sent["id"], sent["method"], sent["params"]) for sent in line.hear()] == [
        (1, "first", {"a": 1}),
        (2, "second", {}),
    ]
    assert line.rpc.is_settled


def test_what_is_said_before_an_answer_is_kept_for_its_owner(line: Line) -> None:
    line.say(tell(TOLD), {"id": 7, "method": QUESTION.method, "params": QUESTION.params}, answer(1, {}))
    run_through(line.rpc.call(CALLS[0]))
    assert line.rpc.receive() == [TOLD, QUESTION]
    run_through(line.rpc.answer(QUESTION, {"y": 2}))
    line.rpc.notify("initialized")
    assert line.hear()[1:] == [answer(7, {"y": 2}), {"method": "initialized"}]


def test_what_nobody_reads_is_declined(line: Line) -> None:
    """Be it a question that is never ours, or one whose owner left."""
    line.say({"id": 6, "method": "approve", "params": {}}, {"id": 7, "method": QUESTION.method}, tell(TOLD))
    line.say(answer(1, {}))
    run_through(line.rpc.call(CALLS[0]))
    line.rpc.clear_inbox()
    refusal = {"code": -32601, "message": "not available here"}
    assert line.hear()[1:] == [{"id": 6, "error": refusal}, {"id": 7, "error": refusal}]


def test_history_that_comes_back_is_not_even_read(line: Line) -> None:
    line.write(b'{"method":"rawResponseItem/completed","params":{"turnId":"auto-compact-0",not json\n')
    line.say(tell(TOLD))
    assert line.rpc.receive() == [TOLD]


@pytest.mark.parametrize(
    ("code", "error", "told"),
    [
        pytest.param(-32001, BackendUnavailable, "Codex is overloaded.", id="overloaded"),
        pytest.param(-32600, BackendRefused, "Codex refused first: no", id="refused"),
    ],
)
def test_an_error_for_an_answer(line: Line, code: int, error: type[ProxyError], told: str) -> None:
    line.say({"id": 1, "error": {"code": code, "message": "no"}})
    with pytest.raises(error) as caught:
        run_through(line.rpc.call(CALLS[0]))
    assert (caught.value.message, line.rpc.is_settled) == (told, True)


def test_no_answer_in_time_leaves_the_conversation_open(line: Line) -> None:
    with pytest.raises(BackendTimeout, match=r"^Codex did not answer first in time\.$"):
        run_through(line.rpc.call(CALLS[0], 0.01))
    assert not line.rpc.is_settled


def test_what_came_before_a_bad_line_is_read_before_it_is_told(line: Line) -> None:
    line.say(tell(TOLD))
    line.write(b"not json\n")
    assert line.rpc.receive() == [TOLD]
    with pytest.raises(ProcessFailed, match="not JSON-RPC"):
        line.rpc.receive()
    assert not line.rpc.is_settled


def test_a_bad_line_ends_a_wait_at_once(line: Line) -> None:
    line.say(tell(TOLD))
    line.write(b"not json\n")
    with pytest.raises(ProcessFailed, match="not JSON-RPC"):
        run_through(line.rpc.call(CALLS[0]))
    assert not line.rpc.is_settled


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "still-to-come"])
def test_an_answer_that_was_asked_for_without_waiting(line: Line, is_there: bool) -> None:
    """Its thread is opened ahead: its answer may have been read with another, and nobody need want it."""
    id_ = line.rpc.ask(CALLS[0])
    assert line.rpc.is_settled
    if is_there:
        line.say(answer(id_, {"n": 1}), answer(id_ + 1, {}))
        run_through(line.rpc.call(CALLS[1]))
    line.rpc.expect({id_})
    assert line.rpc.is_settled is is_there
    if not is_there:
        line.say(answer(id_, {"n": 1}))
    assert run_through(line.rpc.await_all({id_: "first"}, 5)) == [{"n": 1}]


def test_an_answer_that_was_forgotten_is_waited_for_in_vain(line: Line) -> None:
    line.say(answer(1, {}), answer(2, {}))
    id_ = line.rpc.ask(CALLS[0])
    run_through(line.rpc.call(CALLS[1]))
    line.rpc.forget_replies()
    line.rpc.expect({id_})
    assert not line.rpc.is_settled


def test_an_end_is_told_to_whoever_writes_or_reads(line: Line) -> None:
    line.hang_up()
    with pytest.raises(ProcessFailed):
        line.rpc.notify("initialized")
    with pytest.raises(ProcessFailed):
        line.rpc.receive()
    assert not line.rpc.is_settled
