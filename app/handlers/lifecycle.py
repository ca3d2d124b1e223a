"""What a worker starts after its fork, tells to end, and stops."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from app.handlers.background import Background
from app.handlers.clock import Clock
from app.handlers.live import LiveFeed
from app.handlers.recorder import UsageRecorder
from app.handlers.slow_bodies import SlowBodies
from app.handlers.stores import Stores
from app.pipeline import Backend
from app.store.database import StoreFault

log = logging.getLogger(__name__)

# What background responses have to say that they were cut off; a tick is enough.
LAST_WORDS_S = 4.0


@dataclass(frozen=True, slots=True)
class Company:
    """What goes on beside the requests."""

    background: Background
    recorder: UsageRecorder
    bodies: SlowBodies
    feed: LiveFeed
    clocks: tuple[Clock, ...]


class Lifecycle:
    def __init__(self, backend: Backend, stores: Stores, company: Company) -> None:
        self._backend = backend
        self._stores = stores
        self._background = company.background
        self._recorder = company.recorder
        self._feed = company.feed
        self._clocks = company.clocks
        self._deadline_s = 0.0

    def start(self) -> None:
        for store in (self._stores.responses, self._stores.usage):
            try:
                store.start()
            except StoreFault as error:  # it costs what would have been stored, not the answers
                log.warning("nothing can be stored: %s", error)
        self._recorder.start()
        for clock in self._clocks:
            clock.start()
        self._backend.start()

    def drain(self, deadline_s: float) -> None:
        """Have everything that runs end by that (monotonic) time."""
        self._deadline_s = deadline_s
        self._backend.drain(deadline_s)
        self._feed.end()

    def close(self) -> None:
        """Behind the last client: what runs by itself has as long as a stream, then it ends and says so."""
        self._background.wait(max(self._deadline_s - time.monotonic(), 0))
        self._backend.drain(time.monotonic())
        self._background.wait(LAST_WORDS_S)
        self._backend.close()
        for clock in self._clocks:
            clock.close()
        self._recorder.close()
        self._stores.close()
