"""What a worker does for its codex processes beside the requests: spares, tidying, the login."""

from __future__ import annotations

import contextlib
import logging
import time

from app.backend import calls
from app.backend.drain import Drain
from app.backend.home import CodexHome
from app.backend.lending import borrow, start_spare
from app.backend.line import Wish
from app.backend.login import LoginKeeper
from app.backend.pool import Pool
from app.backend.waiting import run_beside, run_through
from app.lib.errors import BackendRefused, ProxyError

log = logging.getLogger(__name__)

PERIOD_S = 1.0
SPARE_LIFETIME_S = 60.0
SWEEP_PERIOD_S = 60.0
LOGIN_PATIENCE_S = 30.0


class Keeper:
    """One thread a worker, and a small one beside it; whatever goes wrong in it, it goes on."""

    def __init__(self, pool: Pool, home: CodexHome, drain: Drain) -> None:
        self._login = LoginKeeper(home.login, home.path / "refresh.lock", self._refresh_login)
        self._pool = pool
        self._home = home
        self._drain = drain
        self._is_stopping = False
        self._next_sweep_s = 0.0

    def start(self) -> None:
        """Begin; in the worker, after fork."""
        run_beside(self._keep)
        run_beside(self._trim)

    def stop(self) -> None:
        self._is_stopping = True

    def _keep(self) -> None:
        is_full = False
        while not self._is_stopping:
            if is_full:
                self._pool.shrunk.wait(PERIOD_S)
            self._pool.shrunk.clear()
            is_full = True
            try:
                self._tidy()
                self._login.look()
                is_full = self._drain.is_set or not start_spare(self._pool)
            except (ProxyError, OSError) as error:
                log.warning("the pool could not be kept: %s", error)
            except Exception:  # a fault of our own; nobody else would start it again
                log.exception("the pool could not be kept")

    def _tidy(self) -> None:
        self._pool.retire(SPARE_LIFETIME_S)
        if self._drain.is_set:
            self._pool.drop_parked()
        if time.monotonic() >= self._next_sweep_s:
            self._next_sweep_s = time.monotonic() + SWEEP_PERIOD_S
            self._home.sweep()

    def _trim(self) -> None:
        """By itself: a process that never says hello is waited for, and may write all the while."""
        while not self._is_stopping:
            self._home.trim_last_words()
            time.sleep(PERIOD_S)

    def _refresh_login(self) -> None:
        # Before everyone in the line: without a login none of them is served.
        first = Wish(LOGIN_PATIENCE_S, arrived_s=0.0)
        # What codex says to it tells nothing: it may refuse, and have refreshed all the same.
        with borrow(self._pool, first) as process, contextlib.suppress(BackendRefused):
            run_through(process.rpc.call(calls.REFRESH_LOGIN))
