"""A response on its way to its client and into the store."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator

from app.handlers.access import Access
from app.handlers.archive import Context
from app.lib.dialects.response_body import (
    Body,
    ResponseIdentity,
    build_failure,
    build_response,
    hide_encrypted,
)
from app.lib.dialects.responses import ResponsesStream
from app.lib.errors import FAULT, ClientGone, InternalError, ProxyError
from app.lib.events import Failed, TurnEvent
from app.store.database import StoreFault
from app.store.responses import ResponseStore

log = logging.getLogger(__name__)

# Who polls for a response learns of its end from the store alone.
POLLED_PATIENCE_S = 600.0
RETRY_PAUSE_S = 0.5
CANCELLED = ClientGone("The response was cancelled.")


class Record:
    """What the store has of one response; where it fails, the response is just not stored."""

    def __init__(self, store: ResponseStore | None, access: Access, context: Context) -> None:
        """Without a store nothing is kept."""
        self._store = store
        self._access = access
        self._context = context
        #: Whether it is kept while it is under way, and whether its end was written.
        self.has_begun = False
        self.has_ended = False

    @property
    def is_kept(self) -> bool:
        return self._store is not None

    def begin(self, body: Body) -> None:
        """Keep a response that is under way, so that it is known whatever becomes of us."""
        self._write(body)
        self.has_begun = self.is_kept

    def update(self, body: Body) -> None:
        """Say how far it has come; where that fails, its end will say more."""
        if self._store is not None:
            with contextlib.suppress(StoreFault):
                self._put(self._store, body)

    def finish(self, final: Body) -> Body:
        """Commit the finished response; comes back as it is to be told."""
        is_complete = final["status"] == "completed"
        kept = final | {"completed_at": int(time.time()) if is_complete else None, "store": self.is_kept}
        self._write(kept, POLLED_PATIENCE_S if self.has_begun and kept["background"] else 0.0)
        self.has_ended = True
        return kept | {"store": self.is_kept}

    def _write(self, body: Body, patience_s: float = 0.0) -> None:
        deadline_s = time.monotonic() + patience_s
        while self._store is not None:
            try:
                self._put(self._store, body)
                return
            except StoreFault as error:
                if time.monotonic() >= deadline_s:
                    self._give_up(self._store, body, error)
                    return
            self._access.let_go()  # the turn is over: its process need not wait for a disk
            time.sleep(RETRY_PAUSE_S)

    def _put(self, store: ResponseStore, body: Body) -> None:
        if not self.has_begun:
            items = self._context.build_input(body["id"].removeprefix("resp_"))
            store.begin(self._access.owner, body, items, self._context.earlier)
        elif not store.update(self._access.owner, body):
            self._store = None  # deleted meanwhile, and so is not kept

    def _give_up(self, store: ResponseStore, body: Body, error: StoreFault) -> None:
        self._store = None
        if self.has_begun:
            store.disown(body["id"])
        self._access.note(store="failed")
        fields = {"request_id": self._access.request_id}
        log.warning("a response is not stored: %s", error, extra={"fields": fields})


class RecordedStream:
    """Encodes a turn; its response is in the store before its first frame, and complete before its last."""

    def __init__(self, identity: ResponseIdentity, record: Record) -> None:
        self.identity = identity
        self._record = record
        self._stream = ResponsesStream(identity)
        self._is_open = False

    def open(self) -> bytes:
        self._is_open = True
        running = build_response(self.identity, "in_progress")
        if self._record.has_begun:
            self._record.update(running)
        else:
            self._record.begin(running)
        if not self._record.is_kept:
            echo = self.identity.echo | {"store": False}
            self._stream.identity = dataclasses.replace(self.identity, echo=echo)
        return self._stream.open()

    def feed(self, events: Iterable[TurnEvent]) -> bytes:
        chunk = self._stream.feed(events)
        if self._stream.final is None:
            return chunk
        return chunk + self._stream.close(self._record.finish(self._stream.final))

    def collect(self, batches: Iterator[list[TurnEvent]]) -> Body:
        """The response as a body: the very one that a stream's last event would hold."""
        for batch in batches:
            self._stream.feed(batch)
        if self._stream.error:
            raise self._stream.error
        if self._stream.final is None:
            raise InternalError("The turn ended without a word.")
        final = self._record.finish(self._stream.final)
        return final if self.identity.shows_encrypted else hide_encrypted(final)

    def leave(self) -> None:
        """The client is gone, before the end or behind it."""
        if self._is_open:
            self.end(CANCELLED)

    def end(self, error: ProxyError) -> bytes:
        """End a response from outside its turn, if it has not ended."""
        return b"" if self._stream.final is not None else self.feed([Failed(error)])

    def break_off(self) -> None:
        """Keep an end that needs nothing of what broke; who follows the response is told from there."""
        if not self._record.has_ended:
            self._record.finish(
                build_response(self.identity, "failed") | {"error": build_failure(InternalError(FAULT))}
            )
