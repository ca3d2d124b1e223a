"""How much a key may ask for: answers a minute, and at once."""

from __future__ import annotations

import math
import time

import flask

from app.handlers.access import Access
from app.lib.errors import KeyLimited
from app.lib.keys import AccessKey, KeyLimits
from app.lib.rate import MinuteWindow
from app.settings import Settings

# Streams end at no known time.
STREAM_RETRY_S = 5


class Allowance:
    """What one key has used of its limits, in this worker."""

    def __init__(self, limits: KeyLimits) -> None:
        self.limits = limits
        self._window = MinuteWindow(limits.requests_per_minute or 0)
        self._streams = 0

    def admit(self, access: Access) -> None:
        """One answer more, now and of this minute; raises where that is one too many."""
        try:
            self.enter(access)
            self._take_request()
        finally:  # who is refused a place is told of the minute too
            self._tell_minute(access)

    def _take_request(self) -> None:
        wait_s = self._window.take(time.monotonic()) if self._window.most else 0.0
        if wait_s:
            raise KeyLimited(
                f"This key may ask for {self._window.most} answers a minute; "
                f"try again in {math.ceil(wait_s)} s.",
                retry_at_s=time.time() + wait_s,
            )

    def _tell_minute(self, access: Access) -> None:
        if not self._window.most:
            return
        now_s = time.monotonic()
        access.tell("x-ratelimit-limit-requests", str(self._window.most))
        access.tell("x-ratelimit-remaining-requests", str(self._window.count_left(now_s)))
        access.tell("x-ratelimit-reset-requests", f"{self._window.measure_reset(now_s):.1f}s")

    def enter(self, access: Access) -> None:
        """Have the request count as one that is answered, until it ends."""
        most = self.limits.max_streams
        if most and self._streams >= most:
            raise KeyLimited(
                f"This key may have {most} answers under way at once; wait for one to end.",
                code="concurrency_limit_exceeded",
                retry_at_s=time.time() + STREAM_RETRY_S,
            )
        self.add()
        access.on_close(self.leave)

    def add(self) -> None:
        """One more, whatever the limit: of an answer that goes on behind its request."""
        self._streams += 1

    def leave(self) -> None:
        self._streams -= 1


class Allowances:
    """By key; a key whose limits were changed begins anew with what it has under way forgotten."""

    def __init__(self, settings: Settings) -> None:
        self._general = settings.key_limits
        self._workers = settings.workers
        #: With the limits that its key had.
        self._by_digest: dict[str, tuple[KeyLimits, Allowance]] = {}

    def find(self, key: AccessKey) -> Allowance:
        found = self._by_digest.get(key.digest)
        if found is None or found[0] != key.limits:
            limits = key.limits.over(self._general).share(self._workers)
            found = self._by_digest[key.digest] = key.limits, Allowance(limits)
        return found[1]

    def hand_out(self, _: flask.Request, access: Access) -> None:
        """Have the request know what its key may ask for; whoever answers it asks."""
        flask.g.allowance = self.find(access.key)
