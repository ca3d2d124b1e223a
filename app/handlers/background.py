"""Responses that nobody waits for: run beside the requests, their events kept for whoever comes back."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from app.handlers.allowances import Allowance
from app.handlers.recording import CANCELLED, RecordedStream
from app.lib.errors import GatewayBusy
from app.lib.events import TurnEvent
from app.lib.sse import DONE
from app.store.database import StoreFault
from app.store.responses import ResponseStore

log = logging.getLogger(__name__)

FRAME_END = b"\n\n"
CANCEL_LOOK_S = 0.25


class Background:
    """The background responses of one worker."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        #: Places taken, by what runs and by what is about to.
        self._taken = 0

    @contextlib.contextmanager
    def reserve(self, allowance: Allowance) -> Iterator[Callable[[Callable[[], None]], None]]:
        """A place, before anything of a response is kept, and the way to have its work done there.

        Past the limit the client is told to come back. The key it is for has one answer more under way.
        """
        with self._changed:
            if self._taken >= self._most:
                raise GatewayBusy("Too many background responses are under way; try again shortly.")
            self._taken += 1
        allowance.add()
        with contextlib.ExitStack() as undo:
            undo.callback(self._leave)
            undo.callback(allowance.leave)

            def start(work: Callable[[], None]) -> None:
                # The place is the thread's now.
                arguments = work, undo.pop_all()
                name = "background-response"
                threading.Thread(target=self._do, args=arguments, name=name, daemon=True).start()

            yield start

    def wait(self, timeout_s: float) -> None:
        """Until all have ended, or that long."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken == 0, timeout_s)

    def _do(self, work: Callable[[], None], place: contextlib.ExitStack) -> None:
        with place:
            try:
                work()
            except Exception:
                log.exception("a background response broke")

    def _leave(self) -> None:
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()


class EventLog:
    """The frames of one response, kept by their numbers."""

    def __init__(self, store: ResponseStore, response_id: str) -> None:
        self._store = store
        self._response_id = response_id
        self._next = 0
        #: What the store would not take yet.
        self._unkept: list[tuple[int, bytes]] = []
        self._next_look_s = 0.0

    def add(self, chunk: bytes) -> None:
        """Keep these, and with them what could not be kept before: a stream must not have holes."""
        frames = [frame + FRAME_END for frame in chunk.removesuffix(DONE).split(FRAME_END) if frame]
        self._unkept += enumerate(frames, self._next)
        self._next += len(frames)
        if not self._unkept:
            return
        try:
            self._store.add_events(self._response_id, self._unkept)
        except StoreFault as error:
            log.warning("events of a background response wait for the store: %s", error)
        else:
            self._unkept = []

    def is_cancelled(self) -> bool:
        """Whether somebody, at whatever worker, asked for the end; looked up now and then."""
        if time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + CANCEL_LOOK_S
        try:
            return self._store.is_cancel_asked(self._response_id)
        except StoreFault:
            return False


def run_unattended(
    recorded: RecordedStream, start: Callable[[], Iterator[list[TurnEvent]]], events: EventLog
) -> None:
    """Run a response to its end, or until it is cancelled; whatever happens, it ends for those who wait."""
    try:
        events.add(recorded.open())
        for batch in start():
            events.add(recorded.feed(batch))
            if events.is_cancelled():
                break
        events.add(recorded.end(CANCELLED))
    except Exception:
        recorded.break_off()
        raise
