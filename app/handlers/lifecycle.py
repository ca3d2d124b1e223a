"""What a worker starts after its fork, tells to end, and stops."""

from __future__ import annotations

import logging
import time

from app.handlers.background import Background
from app.pipeline import Backend
from app.store.database import StoreFault
from app.store.responses import ResponseStore

log = logging.getLogger(__name__)

# What background responses have to say that they were cut off; a tick is enough.
LAST_WORDS_S = 4.0


class Lifecycle:
    def __init__(self, backend: Backend, store: ResponseStore, background: Background) -> None:
        self._backend = backend
        self._store = store
        self._background = background
        self._deadline_s = 0.0

    def start(self) -> None:
        try:
            self._store.start()
        except StoreFault as error:  # it costs what would have been stored, not the answers
            log.warning("responses cannot be stored: %s", error)
        self._backend.start()

    def drain(self, deadline_s: float) -> None:
        """Have everything that runs end by that (monotonic) time."""
        self._deadline_s = deadline_s
        self._backend.drain(deadline_s)

    def close(self) -> None:
        """Behind the last client: what runs by itself has as long as a stream, then it ends and says so."""
        self._background.wait(max(self._deadline_s - time.monotonic(), 0))
        self._backend.drain(time.monotonic())
        self._background.wait(LAST_WORDS_S)
        self._backend.close()
        self._store.close()
