"""Whose account codex uses and what is left of it; logging in and out."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass

from app.backend import calls
from app.backend.account import read_account_limits
from app.backend.device_login import LOGIN_TIMEOUT_S, DeviceLogin, Seat
from app.backend.drain import Drain
from app.backend.home import CodexHome
from app.backend.lending import borrow
from app.backend.line import Wish
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.waiting import run_beside, run_through
from app.lib.account import Account, AccountReport, AccountState, LoginStep
from app.lib.account_limits import AccountLimits
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, ClientGone, ProxyError
from app.pipeline import Client

log = logging.getLogger(__name__)

LOOK_S = 0.25
#: Of those for whom nobody waits: they let all others pass.
NO_HURRY = float("inf")


@dataclass(frozen=True, slots=True)
class Paces:
    #: How long whoever asks about the account waits for an answer.
    patience_s: float = 2.0
    #: How long an answer is good; a login or logout is noticed at once.
    fresh_s: float = 15.0
    # Codex asks upstream for the limits each time. A process that waits for them serves nobody, and is of no
    # use any more once it has waited in vain: so not for long, and then not again for a while.
    limits_timeout_s: float = 5.0
    limits_pause_s: float = 300.0
    login_timeout_s: float = LOGIN_TIMEOUT_S


PACES = Paces()


class KnownLogin:
    """What codex told of one login. It stays true until codex tells otherwise."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.report = AccountReport(Account(AccountState.UNKNOWN))
        self._good_until_s = 0.0
        self._limits_due_s = 0.0
        #: Set while nobody asks codex.
        self._is_settled = threading.Event()
        self._is_settled.set()

    @property
    def wants_limits(self) -> bool:
        return self.report.account.has_limits and time.monotonic() >= self._limits_due_s

    def begin(self) -> bool:
        """Whether codex is to be asked now, by whoever is told so: once for all who want to know."""
        if not self._is_settled.is_set() or time.monotonic() < self._good_until_s:
            return False
        self._is_settled.clear()
        return True

    def end(self, fresh_s: float) -> None:
        is_known = self.report.account.state is not AccountState.UNKNOWN
        self._good_until_s = time.monotonic() + fresh_s if is_known else 0.0
        self._is_settled.set()

    def expire(self) -> None:
        """Have codex asked again, although it was a moment ago."""
        self._good_until_s = 0.0

    def tell_account(self, account: Account) -> None:
        """Codex may not know for want of a network: whose it is has not changed by that."""
        if account.has_limits:
            self.report = dataclasses.replace(self.report, account=account)
        elif account.state is not AccountState.UNKNOWN:
            self.report = AccountReport(account)

    def tell_limits(self, limits: AccountLimits) -> None:
        self.report = AccountReport(self.report.account, limits, time.time())

    def put_limits_off(self, pause_s: float) -> None:
        self._limits_due_s = time.monotonic() + pause_s

    def wait(self, client: Client, patience_s: float) -> AccountReport:
        """What is known when codex has answered, or does not in time."""
        deadline_s = time.monotonic() + patience_s
        while not self._is_settled.wait(LOOK_S) and time.monotonic() < deadline_s:
            if client.has_left():
                raise ClientGone("The client closed the connection.")
        return self.report


class AccountDesk:
    def __init__(self, pool: Pool, home: CodexHome, drain: Drain, paces: Paces = PACES) -> None:
        self._pool = pool
        self._home = home
        self._drain = drain
        self._paces = paces
        self._seat = Seat()
        self._lock = threading.Lock()
        self._known = KnownLogin("")

    def read_account(self, client: Client) -> AccountReport:
        return self._inquire().wait(client, self._paces.patience_s)

    def log_in(self, client: Client) -> Generator[LoginStep | None, None, None]:
        try:
            login = DeviceLogin(self._pool, self._drain, self._seat, self._paces.login_timeout_s)
            yield from login.run(client)
        finally:
            self._known.expire()

    def log_out(self, client: Client) -> None:
        try:
            with borrow(self._pool, Wish(client.patience_s), client) as process:
                # Whether the client waits for that or not: it was asked for.
                run_through(process.rpc.call(calls.LOG_OUT))
                run_through(process.ask_account())
        finally:
            self._known.expire()

    def _inquire(self) -> KnownLogin:
        identity = self._home.login.read().identity
        with self._lock:
            if self._known.identity != identity:
                self._known = KnownLogin(identity)
            if self._known.begin():
                # Beside: who asked waits for a while only, and a process that is slow need not end for that.
                run_beside(self._ask, self._known)
            return self._known

    def _ask(self, known: KnownLogin) -> None:
        try:
            with borrow(self._pool, Wish(NO_HURRY, ends_parked=False)) as process:
                if process.login == known.identity:  # else that login ended while this waited
                    known.tell_account(run_through(process.ask_account()))
                    if known.wants_limits:
                        self._ask_limits(process, known)
        except (ProxyError, OSError) as error:  # who waits is told what was known before
            log.info("codex could not be asked about its account: %s", error)
        except Exception:  # a fault of our own
            log.exception("codex could not be asked about its account")
        finally:
            known.end(self._paces.fresh_s)

    def _ask_limits(self, process: CodexProcess, known: KnownLogin) -> None:
        try:
            answer = run_through(process.rpc.call(calls.READ_LIMITS, self._paces.limits_timeout_s))
        except BackendRefused:
            return
        except BackendTimeout as error:
            known.put_limits_off(self._paces.limits_pause_s)
            # Upstream's, and no failure of the process.
            raise BackendUnavailable(error.message) from error
        if limits := read_account_limits(answer):
            known.tell_limits(limits)
