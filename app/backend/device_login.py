"""Logging in by device code: codex gives a code and waits until a person has entered it elsewhere."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Generator

from app.backend import calls
from app.backend.account import read_code, read_login_end
from app.backend.drain import Drain
from app.backend.jsonrpc import Notification
from app.backend.line import Wish
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.waiting import run_beside, run_through
from app.lib.account import LoginDone, LoginEnd, LoginFailed, LoginStep
from app.lib.errors import (
    BackendRefused,
    BackendTimeout,
    ClientGone,
    GatewayBusy,
    GatewayStopping,
    ProxyError,
)
from app.lib.events import Queued
from app.pipeline import Client

log = logging.getLogger(__name__)

# A code is good for fifteen minutes; codex says so itself when they are over.
LOGIN_TIMEOUT_S = 16 * 60.0
CANCEL_TIMEOUT_S = 3.0
LOOK_S = 0.25
OUTCOMES = {LoginDone: "done", LoginFailed: "failed"}


class Seat:
    """For one login at a time, as each holds a codex process: the latest has it, once the one before is out.

    Not the first: who reloads the page begins another before the gateway has seen the old page go.
    """

    def __init__(self) -> None:
        self._latest: DeviceLogin | None = None
        self._taken = threading.Lock()

    def call(self, login: DeviceLogin) -> None:
        self._latest = login

    def is_for(self, login: DeviceLogin) -> bool:
        return self._latest is login

    def take(self, patience_s: float) -> Generator[None, None, None]:
        """Yields while another one, which has been told, is not out yet."""
        deadline_s = time.monotonic() + patience_s
        while not self._taken.acquire(timeout=LOOK_S):
            if time.monotonic() >= deadline_s:
                raise GatewayBusy("Another login is under way; try again shortly.")
            yield

    def leave(self) -> None:
        self._taken.release()


class DeviceLogin:
    """One login; owns a codex process until it ends, however it does."""

    def __init__(self, pool: Pool, drain: Drain, seat: Seat, timeout_s: float = LOGIN_TIMEOUT_S) -> None:
        self._pool = pool
        self._drain = drain
        self._seat = seat
        self._deadline_s = time.monotonic() + timeout_s
        #: Codex's name for it, once there is a code.
        self._id: str | None = None
        #: As the log has it.
        self._outcome = "cancelled"

    def run(self, client: Client) -> Generator[LoginStep | None, None, None]:
        """What goes wrong before there is a code is raised; from then on it is told."""
        self._seat.call(self)
        try:
            yield from self._watch(client)
        finally:
            # The one trace of who may use the account; neither the code nor the account is in it.
            log.info("a login by device code has ended", extra={"fields": {"outcome": self._outcome}})

    def _watch(self, client: Client) -> Generator[LoginStep | None, None, None]:
        try:
            with contextlib.closing(self._sit(client.patience_s)) as signs:
                for sign in signs:
                    yield None if isinstance(sign, Queued) else sign
                    if isinstance(sign, LoginEnd):
                        self._outcome = OUTCOMES[type(sign)]
                        return
                    self._look_around(client)
        except ProxyError as error:
            self._outcome = self._outcome if isinstance(error, ClientGone) else "failed"
            if self._id is None:
                raise
            yield LoginFailed(error.message)

    def _look_around(self, client: Client) -> None:
        if client.has_left():
            raise ClientGone("The client closed the connection.")
        if self._drain.is_set:
            raise GatewayStopping("The gateway is stopping; log in again in a moment.")
        if not self._seat.is_for(self):
            # Of those that are not to be tried again: that would end the other one in turn.
            raise BackendRefused("Another login was begun, which ends this one.", code="login_replaced")
        if time.monotonic() >= self._deadline_s:
            raise BackendTimeout("The code was not entered in time.")

    def _sit(self, patience_s: float) -> Generator[LoginStep | Queued | None, None, None]:
        yield from self._seat.take(patience_s)
        try:
            yield from self._log_in(patience_s)
        finally:
            self._seat.leave()

    def _log_in(self, patience_s: float) -> Generator[LoginStep | Queued | None, None, None]:
        process = yield from self._pool.lease(Wish(patience_s))
        end: LoginEnd | None = None
        try:
            yield from self._pool.greet(process)
            try:
                answer = yield from process.rpc.call(calls.START_LOGIN)
            except BackendRefused as error:
                end = LoginFailed(error.message)
            else:
                self._id, code = read_code(answer)
                self._pool.note_started(process)  # turns may start while a person looks for the page
                yield code
                end = yield from self._await_end(process, self._id)
            yield end
        finally:
            self._let_go(process, end)

    @staticmethod
    def _await_end(process: CodexProcess, id_: str) -> Generator[None, None, LoginEnd]:
        while True:
            for message in process.rpc.receive():
                end = read_login_end(message, id_) if isinstance(message, Notification) else None
                if end is not None:
                    return end
            yield

    def _let_go(self, process: CodexProcess, end: LoginEnd | None) -> None:
        if process.is_settled and isinstance(end, LoginFailed):
            self._pool.give_back(process)
        elif process.is_settled and end is None and self._id is not None:
            run_beside(self._cancel, process, self._id)
        else:
            self._pool.discard(process)  # once logged in it is not whose it was

    def _cancel(self, process: CodexProcess, id_: str) -> None:
        """Have codex wait no longer; should the code be entered just then, the pool sees another login."""
        try:
            run_through(process.rpc.call(calls.cancel_login(id_), CANCEL_TIMEOUT_S))
        except ProxyError as error:
            log.warning("a login could not be cancelled: %s", error)
            self._pool.discard(process)
        else:
            self._pool.give_back(process)
