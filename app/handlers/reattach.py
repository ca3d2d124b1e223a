"""The events of a background response, from wherever a client left off, as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator

from app.handlers.archive import Archive
from app.lib.dialects.response_body import Body, build_error, hide_encrypted, tell_end
from app.lib.errors import BackendTimeout, ProxyError, StoreUnavailable, UnknownResponse
from app.lib.sse import DONE, KEEPALIVE, encode_event
from app.pipeline import Client
from app.settings import Settings

FOLLOW_PERIOD_S = 0.05
# The last events are written just behind the response itself; a worker that was killed never wrote them.
LAST_EVENTS_S = 1.0
# A response that runs into its own deadline is still told of.
SPARE_S = 10.0
LAST = tuple(b"event: response.%s\n" % end for end in (b"completed", b"incomplete", b"failed"))


class Follower:
    """Reads what is stored: whichever worker runs the response, any can tell of it."""

    def __init__(self, archive: Archive, response_id: str, client: Client, settings: Settings) -> None:
        self._archive = archive
        self._response_id = response_id
        self._client = client
        self._keepalive_s = settings.keepalive_s
        self._deadline_s = time.monotonic() + settings.total_timeout_s + SPARE_S
        self._next_check_s = 0.0
        self._is_over = False

    def frames(self, after: int) -> Iterator[bytes]:
        """Every frame behind that number, to the end of the response."""
        written_s = float("-inf")  # a client is told at once that it was heard
        while not self._client.has_left():
            chunk, after = self._look(after)
            if not chunk and time.monotonic() - written_s >= self._keepalive_s:
                chunk = KEEPALIVE
            if chunk:
                yield chunk
                written_s = time.monotonic()
            if chunk.endswith(DONE):
                return
            time.sleep(FOLLOW_PERIOD_S)

    def _look(self, after: int) -> tuple[bytes, int]:
        """What came behind that number, and the number of the last."""
        if time.monotonic() >= self._deadline_s:
            return encode_end(BackendTimeout("The response took too long to be told of."), after), after
        try:
            events = self._archive.read_events(self._response_id, after)
            if not events:
                return self._look_for_end(after), after
        except StoreUnavailable:
            return b"", after  # it may be back before the client loses patience
        end = DONE if events[-1][1].startswith(LAST) else b""
        return b"".join(frame for _, frame in events) + end, events[-1][0]

    def _look_for_end(self, after: int) -> bytes:
        """The end of a response that no event tells, seen twice: events may still have been on their way."""
        if time.monotonic() < self._next_check_s:
            return b""
        self._next_check_s = time.monotonic() + LAST_EVENTS_S
        try:
            was_over, self._is_over = self._is_over, self._archive.get_standing(self._response_id).is_over
            return self._tell_end(after) if was_over else b""
        except UnknownResponse as error:  # deleted meanwhile
            return encode_end(error, after)

    def _tell_end(self, after: int) -> bytes:
        before = self._archive.read_events(self._response_id, after - 1)
        if before and before[0][1].startswith(LAST):
            return DONE  # the client had the last one
        kind, told = tell_end(self._archive.get(self._response_id))
        return encode_last(kind, {"response": hide_encrypted(told)}, after)


def encode_end(error: ProxyError, after: int) -> bytes:
    return encode_last("error", build_error(error), after)


def encode_last(kind: str, payload: Body, after: int) -> bytes:
    return encode_event(kind, {"type": kind, **payload, "sequence_number": after + 1}) + DONE
