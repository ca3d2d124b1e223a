"""Keeps what requests used: taken at once, written beside the requests."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from app.lib.account_limits import AccountLimits
from app.store.database import StoreFault
from app.store.pauses import with_pauses
from app.store.usage import BITE_ROWS, Entry, UsageStore

log = logging.getLogger(__name__)

#: What comes within this time is written at once.
GATHER_S = 0.25
#: Where the store does not take them: beyond this the oldest are lost.
MOST_WAITING = 10_000


class UsageRecorder:
    def __init__(self, store: UsageStore) -> None:
        self._store = store
        #: Held by the one who writes.
        self._guard = threading.Lock()
        self._waiting: list[Entry] = []
        self._limits: AccountLimits | None = None
        self._called = threading.Event()
        self._is_failing = False
        self._is_stopping = False

    def start(self) -> None:
        """Begin to write; in the worker, after fork."""
        threading.Thread(target=self._keep, name="usage", daemon=True).start()

    def add(self, fields: dict[str, Any], model: str) -> None:
        """`model` is one of the models there are."""
        self._waiting.append(Entry(time.time(), model, fields))
        if not self._called.is_set():
            self._called.set()

    def note_limits(self, limits: AccountLimits) -> None:
        self._limits = self._limits.update(limits) if self._limits else limits
        self._called.set()

    def flush(self) -> None:
        """Write what waits; raises StoreFault, and then it waits on."""
        with self._guard:
            try:
                self._write_all()
            except StoreFault:
                del self._waiting[:-MOST_WAITING]
                raise
            self._is_failing = False

    def _write_all(self) -> None:
        # What comes meanwhile is for the next one, or this would never end.
        for _ in with_pauses(range(0, max(len(self._waiting), 1), BITE_ROWS)):
            entries, limits = self._waiting[:BITE_ROWS], self._limits
            self._store.add(entries, limits)
            del self._waiting[: len(entries)]
            self._limits = None if self._limits is limits else self._limits

    def close(self) -> None:
        self._is_stopping = True
        self._called.set()
        self._try_flush()

    def _keep(self) -> None:
        while not self._is_stopping:
            self._called.wait()
            self._called.clear()
            time.sleep(GATHER_S)
            self._try_flush()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except StoreFault as error:
            if not self._is_failing:
                log.warning("what requests used waits for the store: %s", error)
            self._is_failing = True
            self._called.set()
        except Exception:  # nobody else would write again
            log.exception("what requests used is lost")
            self._waiting.clear()
