"""Server-sent events to a client: the 200 held for the model's first sign, keepalives, one way to leave."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Protocol

import flask

from app.handlers.access import Access
from app.handlers.http import Reply
from app.lib.events import PRELUDE, Failed, TurnEvent, Waiting
from app.lib.sse import KEEPALIVE
from app.settings import Settings

SSE_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "connection": "keep-alive",
    "x-accel-buffering": "no",
}
#: Of a stream asked for by GET: `no-cache` lets a browser keep it, if it asks again before it uses it.
UNKEPT_HEADERS = SSE_HEADERS | {"cache-control": "no-store, no-transform"}


class Encoder(Protocol):
    """A dialect's stream."""

    def open(self) -> bytes:
        """What goes out with the headers."""

    def feed(self, events: Iterable[TurnEvent]) -> bytes:
        """The frames of these events."""


def stream_response(
    batches: Iterator[list[TurnEvent]], encoder: Encoder, settings: Settings
) -> flask.Response:
    """Answer with a stream; raises what goes wrong before the model's first sign."""
    held = hold(batches, settings.commit_after_s - settings.tick_s)
    frames = paced(held, batches, encoder, settings.keepalive_s)
    return build_stream(frames)


def build_stream(frames: Iterator[bytes], headers: dict[str, str] = SSE_HEADERS) -> flask.Response:
    """Send these, and have the request's account know."""
    access: Access = flask.g.access
    reply = Reply(access.observe_frames(frames))
    reply.standing = headers
    return reply


def hold(batches: Iterator[list[TurnEvent]], commit_s: float) -> list[TurnEvent]:
    """Wait until the model shows itself or was given `commit_s`: errors up to then keep their status."""
    deadline_s = time.monotonic() + commit_s
    for batch in batches:
        kinds = set(map(type, batch))
        if Failed in kinds:
            raise next(event.error for event in batch if isinstance(event, Failed))
        if Waiting in kinds:  # in the queue no time is the model's: overload stays a status
            deadline_s = time.monotonic() + commit_s
        elif not kinds <= PRELUDE or time.monotonic() >= deadline_s:
            return batch
    return []


def paced(
    held: list[TurnEvent], batches: Iterator[list[TurnEvent]], encoder: Encoder, keepalive_s: float
) -> Iterator[bytes]:
    """One write a batch; silence is counted from the last byte the client got."""
    yield encoder.open() + encoder.feed(held)
    yield from keep_alive(map(encoder.feed, batches), keepalive_s)


def keep_alive(chunks: Iterable[bytes], keepalive_s: float) -> Iterator[bytes]:
    """Pass these on; when they have been empty for so long, a word that no proxy takes for a dead server."""
    written_s = time.monotonic()
    for chunk in chunks:
        if chunk or time.monotonic() - written_s >= keepalive_s:
            yield chunk or KEEPALIVE
            written_s = time.monotonic()
