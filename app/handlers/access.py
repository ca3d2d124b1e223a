"""One request's account: what is logged at its end, and what must be closed by then."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, assert_never

import flask

from app.handlers.client import ClientSocket
from app.lib.errors import InternalError
from app.lib.events import Completed, Failed, Finished, Note, ToolCalled, TurnEvent, Waiting

NOTED = (Finished, Completed, Failed, ToolCalled, Note)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

log = logging.getLogger("access")


class Access:
    """Lives from the first look at a request until its last byte, or its client, is gone."""

    def __init__(self, client: ClientSocket, request_id: str) -> None:
        self.client = client
        self.request_id = request_id
        self._began_s = time.monotonic()
        self._fields: dict[str, Any] = {}
        self._calls: set[tuple[int, int]] = set()
        self._closers = contextlib.ExitStack()

    def note(self, **fields: Any) -> None:
        self._fields |= fields

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have this called at the end, last one first, whatever the others do."""
        self._closers.callback(closer)

    def observe(self, batches: Iterator[list[TurnEvent]]) -> Iterator[list[TurnEvent]]:
        """Pass a turn on and note when it began, how it ended, and its tool calls."""
        for batch in self._guard(batches):
            if batch and not isinstance(batch[0], Waiting):
                self._fields.setdefault("first_event_ms", self._elapsed_ms())
            self.note_events(batch)
            yield batch

    def note_events(self, events: Iterable[TurnEvent]) -> None:
        for event in events:
            if isinstance(event, NOTED):
                self._note_event(event)

    def _guard(self, batches: Iterator[list[TurnEvent]]) -> Iterator[list[TurnEvent]]:
        """A fault of our own ends a turn as any failure does: after the first byte nothing may be raised."""
        try:
            yield from batches
        except Exception:
            log.exception("a turn broke", extra={"fields": {"request_id": self.request_id}})
            yield [Failed(InternalError("The gateway failed; its log has the details."))]

    def _note_event(self, event: Finished | Completed | Failed | ToolCalled | Note) -> None:
        match event:
            case ToolCalled(choice, delta):
                self._calls.add((choice, delta.index))
                self.note(tool_calls=len(self._calls))
            case Note(_, kind, row, reason):
                counted = ".".join(filter(None, (kind, row, reason)))
                self._fields[counted] = self._fields.get(counted, 0) + 1
            case Finished(_, reason):
                self.note(finish=reason.value)
            case Completed(usage):
                self.note(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            case Failed(error):
                self.note(error=error.code)
            case _:
                assert_never(event)

    def close(self) -> None:
        """Release what the request held, which may note more, then write its line. Safe to call again."""
        try:
            self._closers.close()
        finally:
            fields, self._fields = self._fields, {}
            if fields:
                write_line(fields | {"duration_ms": self._elapsed_ms()})

    def _elapsed_ms(self) -> float:
        return round((time.monotonic() - self._began_s) * 1000, 1)


def write_line(fields: dict[str, Any]) -> None:
    """Log a request; without `log.info`, which looks for its caller at the price of the whole line."""
    record = logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", None, None)
    record.fields = fields
    if log.isEnabledFor(record.levelno):
        log.handle(record)


def build_begin(socket_timeout_s: float) -> Callable[[], None]:
    def begin() -> None:
        """Before anything is read: from here on the client may keep us waiting only so long."""
        request = flask.request
        client = ClientSocket(request.environ, socket_timeout_s)
        access = flask.g.access = Access(client, find_request_id(request.headers.get("x-request-id", "")))
        access.note(method=request.method, path=request.path)

    return begin


def find_request_id(asked: str) -> str:
    """The client's own id, if it is one that can stand in a header and a log."""
    return asked if REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"


def finish(response: flask.Response) -> flask.Response:
    access: Access = flask.g.access
    response.headers["x-request-id"] = access.request_id
    access.note(request_id=access.request_id, status=response.status_code)
    response.call_on_close(access.close)
    return response
