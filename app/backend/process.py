"""One codex app-server process: spawned, greeted, called, ended."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import IO, Any

from app.backend import jsonrpc
from app.backend.home import CodexHome
from app.backend.pipe import Pipe
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ProxyError
from app.settings import Settings

log = logging.getLogger(__name__)

CLIENT_INFO = {"name": "codex_gateway", "title": "Codex Gateway", "version": "0.1.0"}
# `item/started` stays: it is the earliest sign that the model answers.
UNREAD_NOTIFICATIONS = [
    "thread/started",
    "thread/status/changed",
    "thread/settings/updated",
    "turn/started",
    "item/completed",
    "item/reasoning/summaryPartAdded",
    "remoteControl/status/changed",
]
OVERLOADED = -32001
TERMINATE_GRACE_S = 2
STDERR_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Account:
    needs_login: bool


@dataclass(frozen=True, slots=True)
class Primed:
    """A thread opened ahead of the next request: the call, and what it asked for."""

    call_id: int
    params: dict[str, Any]


class CodexProcess:
    """Owned by one request or by the pool; whoever owns it reads its pipe."""

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._settings = settings
        self._next_id = 0
        self._replies: dict[int, jsonrpc.Response | jsonrpc.ErrorResponse] = {}
        self._inbox: list[jsonrpc.Notification] = []
        self._thread_params: dict[str, Any] | None = None
        self._primed: Primed | None = None
        self.login_stamp = home.login_stamp()
        self.turns = 0
        self.account = Account(needs_login=False)
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

    def greet(self) -> Generator[None, None, None]:
        """Say hello and learn the login; yields while it waits."""
        capabilities = {"experimentalApi": True, "optOutNotificationMethods": UNREAD_NOTIFICATIONS}
        hello = {"clientInfo": CLIENT_INFO, "capabilities": capabilities}
        yield from self.call("initialize", hello, self._settings.start_timeout_s)
        self._send(jsonrpc.encode_notification("initialized"))
        self.account = yield from self._read_account()

    def _read_account(self) -> Generator[None, None, Account]:
        try:
            answer = yield from self.call("account/read", {})
        except BackendRefused:
            # With a ChatGPT login and no network codex cannot tell: unknown is not logged out.
            return Account(needs_login=False)
        return Account(bool(answer.get("requiresOpenaiAuth")) and answer.get("account") is None)

    def open_threads(self, params: dict[str, Any], count: int) -> Generator[None, None, list[dict[str, Any]]]:
        """Call `thread/start` so many times; the first may have been opened ahead."""
        primed, self._primed = self._primed, None
        self._thread_params = params
        if primed is None or primed.params != params:
            self.turns += count
            return (yield from self.call_all([("thread/start", params)] * count))
        self._pipe.glance()
        first = yield from self._await(primed.call_id, "thread/start", self._deadline())
        rest = (yield from self.open_threads(params, count - 1)) if count > 1 else []
        return [first, *rest]

    def call(
        self, method: str, params: dict[str, Any], timeout_s: float | None = None
    ) -> Generator[None, None, dict[str, Any]]:
        """Ask and wait for the answer; yields at least once a tick while it waits."""
        answers = yield from self.call_all([(method, params)], timeout_s)
        return answers[0]

    def call_all(
        self, calls: Iterable[tuple[str, dict[str, Any]]], timeout_s: float | None = None
    ) -> Generator[None, None, list[dict[str, Any]]]:
        """Ask several things in one write; codex takes the calls of one thread in order."""
        pending: list[tuple[int, str]] = []
        data = b""
        for method, params in calls:
            self._next_id += 1
            pending.append((self._next_id, method))
            data += jsonrpc.encode_request(self._next_id, method, params)
        deadline_s = self._deadline(timeout_s)
        self._send(data)
        answers = []
        for id_, method in pending:
            answers.append((yield from self._await(id_, method, deadline_s)))
        return answers

    def _deadline(self, timeout_s: float | None = None) -> float:
        return time.monotonic() + (timeout_s or self._settings.rpc_timeout_s)

    def _await(self, id_: int, method: str, deadline_s: float) -> Generator[None, None, dict[str, Any]]:
        while id_ not in self._replies:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise BackendTimeout(f"Codex did not answer {method} in time.")
            lines = self._pipe.receive(min(remaining_s, self._settings.tick_s))
            self._sort(lines)
            if not lines:
                yield
        reply = self._replies.pop(id_)
        if isinstance(reply, jsonrpc.ErrorResponse):
            raise _to_error(method, reply)
        return reply.result

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Call without waiting for the answer."""
        self._next_id += 1
        self._send(jsonrpc.encode_request(self._next_id, method, params))
        return self._next_id

    def receive(self) -> list[jsonrpc.Notification]:
        """What arrived, waiting at most a tick."""
        if not self._inbox:
            self._sort(self._pipe.receive(self._settings.tick_s))
        notifications, self._inbox = self._inbox, []
        return notifications

    def _send(self, data: bytes) -> None:
        self._pipe.send(data, self._settings.rpc_timeout_s)

    def _sort(self, lines: list[bytes]) -> None:
        for line in lines:
            match jsonrpc.parse_message(line):
                case jsonrpc.Notification() as notification:
                    self._inbox.append(notification)
                case jsonrpc.Response(id_) | jsonrpc.ErrorResponse(id_) as reply:
                    self._replies[id_] = reply
                case jsonrpc.ServerRequest() as request:
                    self._decline(request)
                case None:
                    raise BackendUnavailable("Codex sent a line that is not JSON-RPC.")

    def _decline(self, request: jsonrpc.ServerRequest) -> None:
        """No approval, login or tool of codex's own is ever granted; an unanswered request hangs the turn."""
        log.warning("declined %s", request.method, extra={"fields": {"codex_pid": self.pid}})
        self._send(jsonrpc.encode_error(request.id, "not available here"))

    def rest(self) -> None:
        """Between two owners: forget the last turn, and open a thread like its own ahead."""
        self._inbox.clear()
        if self._primed is None:
            self._replies.clear()
            self._prime()

    def _prime(self) -> None:
        if self._thread_params is not None:
            self._primed = Primed(self.ask("thread/start", self._thread_params), self._thread_params)
            self.turns += 1

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def describe_end(self) -> dict[str, Any]:
        """How it ended and the last it said, for the log."""
        try:
            with open(self.folder / "stderr", "rb") as stderr:
                stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
                tail = stderr.read().decode("utf-8", "replace")
        except OSError as error:
            tail = f"({error})"
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


def _to_error(method: str, reply: jsonrpc.ErrorResponse) -> ProxyError:
    if reply.code == OVERLOADED:
        return BackendUnavailable("Codex is overloaded.")
    return BackendRefused(f"Codex refused {method}: {reply.message}")
