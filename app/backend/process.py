"""One codex app-server process: spawned, greeted, made to open threads, ended."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from typing import IO, Any

from app.backend import calls
from app.backend.account import read_account, read_version
from app.backend.calls import Call
from app.backend.home import CodexHome
from app.backend.last_words import read_last_words
from app.backend.pipe import Pipe
from app.backend.resting import RestingThreads
from app.backend.rpc import Rpc
from app.lib.account import Account, AccountState
from app.lib.errors import BackendRefused, ProxyError
from app.settings import Settings

TERMINATE_GRACE_S = 2
#: Between the end of a process's pipe and its own.
LAST_MOMENTS_S = 0.5


class CodexProcess:
    """Owned by one request or by the pool; whoever owns it reads its pipe."""

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._settings = settings
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
        #: What it is asked, and says; for its owner.
        self.rpc = Rpc(self._pipe, settings, self.pid)

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
        return self.account is not None and self.rpc.is_settled

    def greet(self) -> Generator[None, None, None]:
        """Say hello, which codex takes once, and learn the login; yields while it waits."""
        answer = yield from self.rpc.call(calls.INITIALIZE, self._settings.start_timeout_s)
        self.rpc.notify("initialized")
        self._home.codex_version = read_version(answer)
        yield from self.ask_account(self._settings.start_timeout_s)

    def ask_account(self, timeout_s: float | None = None) -> Generator[None, None, Account]:
        """Whose it is now."""
        try:
            self.account = read_account((yield from self.rpc.call(calls.READ_ACCOUNT, timeout_s)))
        except BackendRefused:
            # With a ChatGPT login and no network codex cannot tell: unknown is not logged out.
            self.account = Account(AccountState.UNKNOWN)
        return self.account

    def open_threads(self, thread: Call, count: int) -> Generator[None, None, list[dict[str, Any]]]:
        """Open so many threads; the first may have been opened ahead."""
        same, self._thread = thread == self._thread, thread
        primed_id, self._primed_id = self._primed_id, None
        ahead = {primed_id: thread[0]} if primed_id is not None and same else {}
        self.rpc.expect(ahead.keys())
        pending = ahead
        if missing := count - len(ahead):
            self.turns += missing
            pending |= yield from self.rpc.request([thread] * missing)
        return (yield from self.rpc.await_all(pending, self._settings.rpc_timeout_s))

    def rest(self) -> bool:
        """Between two owners: forget the last turn, and open a thread like its own ahead of the next."""
        with contextlib.suppress(ProxyError):  # which leaves it unsettled
            self.rpc.clear_inbox()
        if self._primed_id is None:
            self.rpc.forget_replies()
            self._prime()
        return self.is_settled

    def _prime(self) -> None:
        if self._thread is not None:
            with contextlib.suppress(ProxyError):  # which leaves it unsettled
                self._primed_id = self.rpc.ask(self._thread)
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
        return {"exit": self._popen.returncode, "stderr": read_last_words(self.folder / "stderr")}

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
