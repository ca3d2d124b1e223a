"""What a worker looks after once a second, beside the requests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

PERIOD_S = 1.0


class Clock:
    def __init__(self, chores: Sequence[Callable[[], None]]) -> None:
        self._chores = chores
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin; in the worker, after fork."""
        threading.Thread(target=self._run, name="clock", daemon=True).start()

    def close(self) -> None:
        """Do it once more, and no more."""
        self._stopped.set()
        self._tick()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            self._tick()

    def _tick(self) -> None:
        for chore in self._chores:
            try:
                chore()
            except Exception:
                log.exception("a chore failed")
