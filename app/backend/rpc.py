"""The conversation over a codex process's pipe: what it is asked, its answers, what else it says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, assert_never

from app.backend import calls, jsonrpc
from app.backend.calls import Call
from app.backend.inbox import Inbox, Incoming
from app.backend.log_fields import name_process
from app.backend.pipe import Pipe
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ProcessFailed, ProxyError
from app.settings import Settings

log = logging.getLogger(__name__)

OVERLOADED = -32001
#: An answer that comes so soon is no wait: what is asked next may be waited for with the same tick.
PROMPT_S = 0.02


class Rpc:
    """For whoever owns the process; nobody else reads the pipe."""

    def __init__(self, pipe: Pipe, settings: Settings, pid: int) -> None:
        self._pipe = pipe
        self._settings = settings
        self._tick_s = settings.tick_s
        self._pid = pid
        self._next_id = 0
        self._unanswered: set[int] = set()
        self._is_broken = False
        self._replies: dict[int, jsonrpc.Response | jsonrpc.ErrorResponse] = {}
        self._inbox = Inbox()
        #: What is wrong with what came behind the inbox: it is told once that was read.
        self._fault: ProcessFailed | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the pipe is whole, and nothing left unanswered."""
        return not self._unanswered and not self._is_broken

    def call(self, call: Call, timeout_s: float | None = None) -> Generator[None, None, dict[str, Any]]:
        """Ask and wait for the answer; yields at least once a tick while it waits."""
        answers = yield from self.call_all([call], timeout_s)
        return answers[0]

    def call_all(
        self, batch: Sequence[Call], timeout_s: float | None = None
    ) -> Generator[None, None, list[dict[str, Any]]]:
        """Ask several things in one write; codex takes the calls of one thread in order."""
        pending = yield from self.request(batch)
        return (yield from self.await_all(pending, timeout_s or self._settings.rpc_timeout_s))

    def request(self, batch: Sequence[Call]) -> Generator[None, None, dict[int, str]]:
        """Send calls; their ids and methods."""
        numbered = dict(enumerate(batch, self._next_id + 1))
        self._next_id += len(numbered)
        self._unanswered.update(numbered)
        lines = [jsonrpc.encode_request(id_, *call) for id_, call in numbered.items()]
        yield from self._sending(b"".join(lines))
        return {id_: method for id_, (method, _) in numbered.items()}

    def await_all(
        self, pending: dict[int, str], timeout_s: float
    ) -> Generator[None, None, list[dict[str, Any]]]:
        asked_s = time.monotonic()
        while not self._unanswered.isdisjoint(pending):
            self._listen(asked_s + timeout_s, pending.values())
            if time.monotonic() >= asked_s + PROMPT_S or not self._unanswered.isdisjoint(pending):
                yield
        return [read_reply(method, self._replies.pop(id_)) for id_, method in pending.items()]

    def _listen(self, deadline_s: float, asked: Iterable[str]) -> None:
        """Take in what comes, waiting at most a tick."""
        remaining_s = deadline_s - time.monotonic()
        if self._fault is not None:  # what is waited for cannot come any more, whatever is still to be read
            self._is_broken = True
            raise self._fault
        if remaining_s <= 0:
            raise BackendTimeout(f"Codex did not answer {', '.join(set(asked))} in time.")
        self._take_in(self._pipe.receive, min(remaining_s, self._tick_s))

    def ask(self, call: Call) -> int:
        """Call without waiting for the answer; it may never come."""
        self._next_id += 1
        self._send(jsonrpc.encode_request(self._next_id, *call))
        return self._next_id

    def expect(self, ids: AbstractSet[int]) -> None:
        """Wait, after all, for answers that were asked for without; they may be there."""
        if not self._replies.keys() >= ids:
            self._unanswered.update(ids)
            self._take_in(self._pipe.glance)

    def forget_replies(self) -> None:
        """Those that nobody waits for."""
        self._replies.clear()

    def notify(self, method: str) -> None:
        self._send(jsonrpc.encode_notification(method))

    def receive(self) -> list[Incoming]:
        """What arrived, waiting at most a tick; the requests in it are its owner's to answer."""
        if not self._inbox:
            self._take_in(self._pipe.receive, self._tick_s)
        return self._inbox.take()

    def answer(self, request: jsonrpc.ServerRequest, result: dict[str, Any]) -> Generator[None, None, None]:
        """Answer a request of codex's, at whatever length."""
        yield from self._sending(jsonrpc.encode_result(request.id, result))

    def decline(self, request: jsonrpc.ServerRequest) -> None:
        """No approval, login or tool of codex's own is ever granted; an unanswered request hangs the turn."""
        self._send(jsonrpc.encode_error(request.id, "not available here"))

    def clear_inbox(self) -> None:
        """Nobody reads it any more."""
        for message in self._inbox.take():
            if isinstance(message, jsonrpc.ServerRequest):
                self.decline(message)

    def _take_in(self, read: Callable[..., list[bytes]], *arguments: float) -> None:
        try:
            if self._fault is None:
                self._sort(read(*arguments))
            if self._fault is not None and not self._inbox:
                raise self._fault
        except ProxyError:  # which leaves the pipe in a state nobody knows
            self._is_broken = True
            raise

    def _send(self, data: bytes) -> None:
        """Short lines, which a process that reads takes at once."""
        try:
            self._pipe.send(data, self._settings.interrupt_timeout_s)
        except ProxyError:
            self._is_broken = True
            raise

    def _sending(self, data: bytes) -> Generator[None, None, None]:
        # Half a line, if this fails or its owner leaves now.
        was_broken, self._is_broken = self._is_broken, True
        yield from self._pipe.sending(data, self._settings.rpc_timeout_s, self._tick_s)
        self._is_broken = was_broken

    def _sort(self, lines: list[bytes]) -> None:
        for line in lines:
            if calls.is_echo(line):  # of history that we told: it may be megabytes
                continue
            match jsonrpc.parse_message(line):
                case jsonrpc.Notification() as notification:
                    self._inbox.add(notification, line)
                case jsonrpc.Response(id_) | jsonrpc.ErrorResponse(id_) as reply:
                    self._unanswered.discard(id_)
                    self._replies[id_] = reply
                case jsonrpc.ServerRequest(_, calls.TOOL_CALL) as request:
                    self._inbox.add(request, line)
                case jsonrpc.ServerRequest() as request:
                    log.warning("declined %s", request.method, extra=name_process(self._pid))
                    self.decline(request)
                case None:
                    self._fault = ProcessFailed("Codex sent a line that is not JSON-RPC.")
                    return


def read_reply(method: str, reply: jsonrpc.Response | jsonrpc.ErrorResponse) -> dict[str, Any]:
    match reply:
        case jsonrpc.Response(_, result):
            return result
        case jsonrpc.ErrorResponse(_, code, _) if code == OVERLOADED:
            raise BackendUnavailable("Codex is overloaded.")
        case jsonrpc.ErrorResponse(_, _, message):
            raise BackendRefused(f"Codex refused {method}: {message}")
        case _:
            assert_never(reply)
