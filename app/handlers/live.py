"""What those who watch are told: every second what is so now, before that the hour that was."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from typing import Any

from app.handlers.meters import STATES, TOKENS, Meters
from app.lib.errors import GatewayBusy
from app.lib.sse import encode_data
from app.pipeline import Client
from app.store.database import StoreFault
from app.store.usage import UsageStore

PERIOD_S = 10
HOUR_S = 3600
NEWEST = 50
MOST_WATCHERS = 50
#: Chunks by which a watcher may fall behind, of which there are one to three a second.
MOST_BEHIND = 30
LOOK_S = 1.0
#: What is so at a moment, as meters name it.
GAUGES = {
    "requests_open": ("requests_open", ""),
    "streams_open": ("streams_open", ""),
    **{state: ("processes", state) for state in STATES},
    "queued": ("queue", ""),
}
#: What a period adds.
COUNTS = {
    "requests": ("requests_total", ""),
    "errors": ("errors_total", ""),
    **{f"{kind}_tokens": ("tokens_total", kind) for kind in TOKENS},
    "tool_calls": ("tool_calls_total", ""),
    **{f"tool_buffer_{end}": (f"tool_buffer_{end}_total", "") for end in ("started", "flushed", "aborted")},
    "first_tokens": ("first_token_seconds_count", ""),
    "first_token_s": ("first_token_seconds_sum", ""),
}

Totals = Counter[tuple[str, str]]
Told = dict[str, Any]
Watcher = queue.Queue[bytes]


class LiveFeed:
    """One a worker, of all workers; looked after by a clock, told to each watcher by its own request."""

    def __init__(
        self, meters: Meters, store: UsageStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._meters = meters
        self._store = store
        self._clock = clock
        self._samples: deque[Told] = deque(maxlen=HOUR_S // PERIOD_S)
        #: What there was at the last of them.
        self._before: Totals | None = None
        self._next_sample_s = 0.0
        self._requests: deque[Told] = deque(maxlen=NEWEST)
        #: The number of the last of them.
        self._newest = 0
        self._watchers: set[Watcher] = set()
        #: Held while requests are read and told, so that each watcher is told of each once.
        self._lock = threading.Lock()
        self._is_over = False

    def tick(self) -> None:
        """Look, and tell; once a second."""
        if self._is_over:
            self._let_all_go()
            return
        is_due = self._clock() >= self._next_sample_s
        if not is_due and not self._watchers:
            return
        totals = self._meters.add_up()
        now = build_now(totals)
        if is_due:
            self._take_sample(totals, now)
        self._tell(encode("now", now))
        if self._watchers:
            with self._lock:
                self._read_requests()

    def end(self) -> None:
        """Have every watcher let go at the next tick: the worker stops."""
        self._is_over = True

    def watch(self, client: Client) -> Generator[bytes, None, None]:
        """Until the client leaves or does not keep up, or the worker stops; empty where nothing came."""
        watcher: Watcher = queue.Queue(MOST_BEHIND)
        with self._lock:
            self._read_requests()
            samples = encode("history", {"period_s": PERIOD_S, "samples": [*self._samples]})
            requests = encode("requests", {"data": [*reversed(self._requests)]})
            self._watchers.add(watcher)
        try:
            yield samples + requests
            while watcher in self._watchers and not client.has_left():
                yield take(watcher)
        finally:
            self._watchers.discard(watcher)

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def check_room(self) -> None:
        if self.watchers >= MOST_WATCHERS:
            raise GatewayBusy("Too many are watching; close a page that does.")

    def _take_sample(self, totals: Totals, now: Told) -> None:
        self._next_sample_s = self._clock() + PERIOD_S
        before, self._before = self._before, totals
        if before is not None:
            sample = now | {name: tidy(totals[place] - before[place]) for name, place in COUNTS.items()}
            self._samples.append(sample)
            self._tell(encode("sample", sample))

    def _read_requests(self) -> None:
        try:
            found = self._store.read_newest(NEWEST)
        except StoreFault:  # whoever writes there says so; the next look may find them
            return
        if found and found[0][0] < self._newest:  # a file that broke was replaced: numbers begin anew
            self._newest = 0
        told = ({"number": number, "time": at_s, **entry} for number, at_s, entry in found)
        fresh = [each for each in told if each["number"] > self._newest]
        if fresh:
            self._newest = fresh[0]["number"]
            self._requests.extend(reversed(fresh))
            self._tell(encode("requests", {"data": fresh}))

    def _tell(self, chunk: bytes) -> None:
        for watcher in [*self._watchers]:
            try:
                watcher.put_nowait(chunk)
            except queue.Full:
                self._watchers.discard(watcher)

    def _let_all_go(self) -> None:
        watchers, self._watchers = self._watchers, set()
        for watcher in watchers:
            with contextlib.suppress(queue.Full):
                watcher.put_nowait(b"")


def build_now(totals: Totals) -> Told:
    return {"at": round(time.time(), 3), **{name: int(totals[place]) for name, place in GAUGES.items()}}


def tidy(number: float) -> float:
    return int(number) if number == int(number) else round(number, 6)


def take(watcher: Watcher) -> bytes:
    try:
        return watcher.get(timeout=LOOK_S)
    except queue.Empty:
        return b""


def encode(kind: str, told: Told) -> bytes:
    return encode_data({"type": kind, **told})
