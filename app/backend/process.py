"""One codex app-server process: spawned, greeted, called, ended."""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import IO, Any, assert_never

from app.backend import calls, jsonrpc
from app.backend.account import read_account, read_version
from app.backend.calls import Call
from app.backend.home import CodexHome
from app.backend.inbox import Inbox, Incoming
from app.backend.last_words import read_last_words
from app.backend.pipe import Pipe
from app.backend.resting import RestingThreads
from app.lib.account import Account, AccountState
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ProcessFailed, ProxyError
from app.settings import Settings

log = logging.getLogger(__name__)

OVERLOADED = -32001
TERMINATE_GRACE_S = 2
#: Between the end of a process's pipe and its own.
LAST_MOMENTS_S = 0.5
#: An answer that comes so soon is no wait: what is asked next may be waited for with the same tick.
PROMPT_S = 0.02


class CodexProcess:
    """Owned by one request or by the pool; whoever owns it reads its pipe."""

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._tick_s = settings.tick_s
        self._next_id = 0
        self._unanswered: set[int] = set()
        self._is_broken = False
        self._replies: dict[int, jsonrpc.Response | jsonrpc.ErrorResponse] = {}
        self._inbox = Inbox()
        #: What is wrong with what came behind the inbox: it is told once that was read.
        self._fault: ProcessFailed | None = None
        #: The last thread opened, and the id of the call that opened one more like it.
        self._thread: Call | None = None
        self._primed_id: int | None = None
        #: Whose it was when it started.
        self.login = home.login.read().identity
        self.started_s = time.monotonic()
        self.turns = 0
        self.weighed_s = float("-inf")  # when its size was looked at
        #: What idle threads hold, for requests that go on from there.
        self.resting = RestingThreads(settings.park_ttl_s)
        #: Unknown until it has said hello.
        self.account: Account | None = None
        # Its own database folder: shared ones kill each other at first boot and keep clients' words.
        self.folder, stderr = home.make_process_folder()
        with stderr:
            self._start(home, stderr)

    def _start(self, home: CodexHome, stderr: IO[bytes]) -> None:
        try:
            self._pipe = Pipe(self._settings.max_line_bytes)
            self._popen = self._spawn(home, stderr)
        except OSError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _spawn(self, home: CodexHome, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [str(home.binary), "app-server"],
                stdin=self._pipe.child_stdin_fd,
                stdout=self._pipe.child_stdout_fd,
                stderr=stderr,
                cwd=home.work,
                env=home.environment(self.folder),
                # A Ctrl-C in the terminal is for the server, which then lets answers end.
                start_new_session=True,
            )
        except OSError:
            self._pipe.close()
            raise
        finally:
            self._pipe.close_child_ends()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_settled(self) -> bool:
        """Whether it can serve another turn: greeted, its pipe whole, nothing left unanswered."""
        return self.account is not None and not self._unanswered and not self._is_broken

    def greet(self) -> Generator[None, None, None]:
        """Say hello and learn the login, if that is not done; yields while it waits."""
        if self.account is not None:
            return
        answer = yield from self.call(calls.INITIALIZE, self._settings.start_timeout_s)
        self._send(jsonrpc.encode_notification("initialized"))
        self._home.codex_version = read_version(answer)
        yield from self.ask_account(self._settings.start_timeout_s)

    def ask_account(self, timeout_s: float | None = None) -> Generator[None, None, Account]:
        """Whose it is now."""
        try:
            self.account = read_account((yield from self.call(calls.READ_ACCOUNT, timeout_s)))
        except BackendRefused:
            # With a ChatGPT login and no network codex cannot tell: unknown is not logged out.
            self.account = Account(AccountState.UNKNOWN)
        return self.account

    def open_threads(self, thread: Call, count: int) -> Generator[None, None, list[dict[str, Any]]]:
        """Open so many threads; the first may have been opened ahead."""
        same, self._thread = thread == self._thread, thread
        primed_id, self._primed_id = self._primed_id, None
        ahead = {primed_id: thread[0]} if primed_id is not None and same else {}
        if not self._replies.keys() >= ahead.keys():
            self._unanswered.update(ahead)
            self._take_in(self._pipe.glance)
        pending = ahead
        if missing := count - len(ahead):
            self.turns += missing
            pending |= yield from self._request([thread] * missing)
        return (yield from self._await_all(pending, self._settings.rpc_timeout_s))

    def call(self, call: Call, timeout_s: float | None = None) -> Generator[None, None, dict[str, Any]]:
        """Ask and wait for the answer; yields at least once a tick while it waits."""
        answers = yield from self.call_all([call], timeout_s)
        return answers[0]

    def call_all(
        self, batch: Sequence[Call], timeout_s: float | None = None
    ) -> Generator[None, None, list[dict[str, Any]]]:
        """Ask several things in one write; codex takes the calls of one thread in order."""
        pending = yield from self._request(batch)
        return (yield from self._await_all(pending, timeout_s or self._settings.rpc_timeout_s))

    def _request(self, batch: Sequence[Call]) -> Generator[None, None, dict[int, str]]:
        """Send calls; their ids and methods."""
        numbered = dict(enumerate(batch, self._next_id + 1))
        self._next_id += len(numbered)
        self._unanswered.update(numbered)
        lines = [jsonrpc.encode_request(id_, *call) for id_, call in numbered.items()]
        yield from self._sending(b"".join(lines))
        return {id_: method for id_, (method, _) in numbered.items()}

    def _await_all(
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

    def receive(self) -> list[Incoming]:
        """What arrived, waiting at most a tick; the requests in it are its owner's to answer."""
        if not self._inbox:
            self._take_in(self._pipe.receive, self._tick_s)
        return self._inbox.take()

    def answer(self, request: jsonrpc.ServerRequest, result: dict[str, Any]) -> Generator[None, None, None]:
        """Answer a request of codex's, at whatever length."""
        yield from self._sending(jsonrpc.encode_result(request.id, result))

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
                    log.warning("declined %s", request.method, extra={"fields": {"codex_pid": self.pid}})
                    self.decline(request)
                case None:
                    self._fault = ProcessFailed("Codex sent a line that is not JSON-RPC.")
                    return

    def decline(self, request: jsonrpc.ServerRequest) -> None:
        """No approval, login or tool of codex's own is ever granted; an unanswered request hangs the turn."""
        self._send(jsonrpc.encode_error(request.id, "not available here"))

    def rest(self) -> bool:
        """Between two owners: forget the last turn, and open a thread like its own ahead of the next."""
        with contextlib.suppress(ProxyError):  # which leaves it unsettled
            self._clear_inbox()
        if self._primed_id is None:
            self._replies.clear()
            self._prime()
        return self.is_settled

    def _clear_inbox(self) -> None:
        for message in self._inbox.take():
            if isinstance(message, jsonrpc.ServerRequest):
                self.decline(message)

    def _prime(self) -> None:
        if self._thread is not None:
            with contextlib.suppress(ProxyError):  # which leaves it unsettled
                self._primed_id = self.ask(self._thread)
                self.turns += 1

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def has_ended(self) -> bool:
        """Whether it ended by itself; one that closed its pipe is about to."""
        if self._pipe.has_ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(LAST_MOMENTS_S)
        return not self.is_alive()

    def describe_end(self) -> dict[str, Any]:
        """How it ended and the last it said, for the log."""
        tail = read_last_words(self.folder / "stderr")
        return {"codex_pid": self.pid, "exit": self._popen.returncode, "stderr": tail}

    def terminate(self) -> None:
        """Ask the process to end."""
        self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process, politely for two seconds, and remove what it kept. For its owner, once."""
        self._pipe.close()
        self.terminate()
        try:
            self._popen.wait(TERMINATE_GRACE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


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
