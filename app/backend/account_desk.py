"""Whose account codex uses and what is left of it; logging in and out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from typing import Generic, TypeVar

from app.backend import calls
from app.backend.account import CHATGPT, read_account_limits
from app.backend.device_login import LOGIN_TIMEOUT_S, DeviceLogin
from app.backend.drain import Drain
from app.backend.home import CodexHome
from app.backend.line import Wish
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.waiting import run_beside, run_through
from app.lib.account import Account, AccountState, LoginStep
from app.lib.account_limits import AccountLimits
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ClientGone
from app.pipeline import Client

log = logging.getLogger(__name__)

#: How long whoever asks about the account waits for an answer.
PATIENCE_S = 2.0
LOOK_S = 0.25
# Codex asks upstream for the limits each time; a login or logout is noticed at once.
FRESH_S = 15.0

T = TypeVar("T")


class Reply(Generic[T]):
    """An answer that somebody else gets; until then, and if there never is one, it is `value` as it began."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._is_told = threading.Event()

    def tell(self, value: T) -> None:
        if not self._is_told.is_set():
            self.value = value
            self._is_told.set()

    def wait(self, client: Client) -> T:
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._is_told.wait(LOOK_S) and time.monotonic() < deadline_s:
            if client.has_left():
                raise ClientGone("The client closed the connection.")
        return self.value


class Inquiry:
    """What is asked about one login, for all who want to know at about the same time."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._began_s = time.monotonic()
        self._is_over = False
        self.account = Reply(Account(AccountState.UNKNOWN))
        self.limits: Reply[AccountLimits | None] = Reply(None)

    def serves(self, identity: str) -> bool:
        """Whether its answers are still good, or still to come."""
        is_known = self.account.value.state is not AccountState.UNKNOWN
        is_fresh = is_known and time.monotonic() < self._began_s + FRESH_S
        return identity == self._identity and (is_fresh or not self._is_over)

    def end(self) -> None:
        self.account.tell(self.account.value)
        self.limits.tell(self.limits.value)
        self._is_over = True


class AccountDesk:
    def __init__(self, pool: Pool, home: CodexHome, drain: Drain, timeout_s: float = LOGIN_TIMEOUT_S) -> None:
        self._pool = pool
        self._home = home
        self._drain = drain
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._inquiry: Inquiry | None = None

    def read_account(self, client: Client) -> Account:
        return self._inquire().account.wait(client)

    def read_limits(self, client: Client) -> AccountLimits | None:
        return self._inquire().limits.wait(client)

    def log_in(self, client: Client) -> Generator[LoginStep | None, None, None]:
        try:
            yield from DeviceLogin(self._pool, self._drain, self._timeout_s).run(client)
        finally:
            self._inquiry = None

    def log_out(self, client: Client) -> None:
        try:
            with self._pool.borrow(Wish(client.patience_s), client) as process:
                # Whether the client waits for that or not: it was asked for.
                run_through(process.call(calls.LOG_OUT))
                run_through(process.ask_account())
        finally:
            self._inquiry = None

    def _inquire(self) -> Inquiry:
        identity = self._home.login.read().identity
        with self._lock:
            if self._inquiry is None or not self._inquiry.serves(identity):
                self._inquiry = Inquiry(identity)
                # Beside: who asked waits for a while only, and a process that is slow need not end for that.
                run_beside(self._ask, self._inquiry)
            return self._inquiry

    def _ask(self, inquiry: Inquiry) -> None:
        try:
            with self._pool.borrow(Wish(PATIENCE_S)) as process:
                account = run_through(process.ask_account())
                inquiry.account.tell(account)
                if account.kind == CHATGPT:
                    inquiry.limits.tell(run_through(self._ask_limits(process)))
        except Exception as error:  # noqa: BLE001  who waits is told that it is not known
            log.info("codex could not be asked about its account: %s", error)
        finally:
            inquiry.end()

    @staticmethod
    def _ask_limits(process: CodexProcess) -> Generator[None, None, AccountLimits | None]:
        try:
            return read_account_limits((yield from process.call(calls.READ_LIMITS)))
        except BackendRefused:
            return None
        except BackendTimeout as error:  # upstream's, and no failure of the process
            raise BackendUnavailable(error.message) from error
