"""One request's account: what is logged at its end, and what must be closed by then."""

from __future__ import annotations

import collections
import contextlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import flask

from app.handlers.client import ClientSocket
from app.handlers.tool_buffers import COUNTED, BufferEvent, ToolBufferCounters
from app.handlers.tool_counters import ToolCounters
from app.lib.errors import FAULT, InternalError
from app.lib.events import (
    PRELUDE,
    Completed,
    Failed,
    Finished,
    Note,
    NoteKind,
    Placed,
    ToolCalled,
    TurnEvent,
)
from app.lib.text_gate import Reason
from app.pipeline import Client
from app.settings import Settings

NOTED = (Placed, Finished, Completed, Failed, ToolCalled, Note)
CONTINUATION_HEADER = "x-proxy-continuation"
# Of each kind, in one request: a model may write any number of half blocks.
MOST_CRUMBS = 10
# Blocks that nobody wanted, and words about a tag: plain text, and no cause for alarm.
QUIET = (Reason.NO_CALL, Reason.PROSE)
LONGEST_HEADER = 1000
UNTOLD = re.compile(r"[^\x20-\x7e]")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

log = logging.getLogger("access")
crumbs = logging.getLogger("app.tool_buffers")


@dataclass(frozen=True, slots=True)
class Counters:
    """What a worker counts over its requests."""

    buffers: ToolBufferCounters
    tools: ToolCounters
    #: Where turns ran, and what they went on from.
    placements: collections.Counter[Placed]


class Access:
    """Lives from the first look at a request until its last byte, or its client, is gone."""

    def __init__(self, client: Client, request_id: str, counters: Counters) -> None:
        self.client = client
        self.request_id = request_id
        #: Names the key that was sent, without telling it; on an open gateway everyone is one.
        self.owner = ""
        self._counters = counters
        #: What every reply says, an error too.
        self.headers = {"x-request-id": request_id}
        self._began_s = time.monotonic()
        self._fields: dict[str, Any] = {}
        self._calls: set[tuple[int, int]] = set()
        self._closers = contextlib.ExitStack()

    def detach(self) -> Access:
        """An account for what goes on when this request is answered; no client can leave it.

        What was noted so far moves there, so that nothing is counted twice.
        """
        detached = Access(Nobody(), self.request_id, self._counters)
        detached.owner = self.owner
        detached.note(**self._fields, request_id=self.request_id)
        self._fields = {name: self._fields[name] for name in ("method", "path", "model")}
        return detached

    def tell(self, name: str, value: str) -> None:
        """Have the reply say so, as far as a header can: whatever it says, the reply must go out."""
        self.headers[name] = UNTOLD.sub("?", value[:LONGEST_HEADER])

    def note(self, **fields: Any) -> None:
        self._fields |= fields

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have this called at the end, last one first, whatever the others do."""
        self._closers.callback(closer)

    def observe(self, batches: Iterator[list[TurnEvent]]) -> Generator[list[TurnEvent], None, None]:
        """Pass a turn on and note when it began, how it ended, and its tool calls."""
        with contextlib.closing(self._guard(batches)) as guarded:
            for batch in guarded:
                if batch and not isinstance(batch[-1], PRELUDE):
                    self._fields.setdefault("first_event_ms", self._elapsed_ms())
                self.note_events(batch)
                yield batch

    def note_events(self, events: Iterable[TurnEvent]) -> None:
        for event in events:
            if isinstance(event, NOTED):
                self._note_event(event)

    def _guard(self, batches: Iterator[list[TurnEvent]]) -> Generator[list[TurnEvent], None, None]:
        """A fault of our own ends a turn as any failure does: after the first byte nothing may be raised."""
        try:
            yield from batches
        except Exception:
            log.exception("a turn broke", extra={"fields": {"request_id": self.request_id}})
            yield [Failed(InternalError(FAULT))]

    def _note_event(self, event: Placed | Finished | Completed | Failed | ToolCalled | Note) -> None:
        match event:
            case Placed(tier, origin):
                self.tell(CONTINUATION_HEADER, tier.value)
                self.note(continuation=tier.value, continued_from=origin.value)
                self._counters.placements[event] += 1
            case ToolCalled(choice, delta):
                self._calls.add((choice, delta.index))
                self.note(tool_calls=len(self._calls))
            case Note():
                self._count(event)
            case Finished(_, reason):
                self.note(finish=reason.value)
            case Completed(usage):
                self.note(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            case Failed(error):
                self.note(error=error.code)
            case _:
                assert_never(event)

    def _count(self, note: Note) -> None:
        counted = ".".join(filter(None, (note.kind, note.row, note.reason)))
        times = self._fields[counted] = self._fields.get(counted, 0) + 1
        if note.kind not in COUNTED:
            self._counters.tools.count_note(counted)
            return
        mode = self._fields.get("output_mode", "")
        self._counters.buffers.count(BufferEvent(note.kind, mode, note.row, note.reason))
        if times <= MOST_CRUMBS:
            self._leave_crumb(note, mode)

    def _leave_crumb(self, note: Note, mode: str) -> None:
        """A line for each block held; where it was not delivered, a warning. Counts and names, no words."""
        is_odd = note.kind is NoteKind.BUFFER_ABORTED and note.reason not in QUIET
        level = logging.WARNING if is_odd else logging.DEBUG
        about = {"choice": note.choice, "row": note.row, "reason": note.reason, "output_mode": mode}
        crumbs.log(level, note.kind.value, extra={"fields": {"request_id": self.request_id, **about}})

    def let_go(self) -> None:
        """Release what the request holds, which may note more. Safe to call again."""
        self._closers.close()

    def close(self) -> None:
        """Release what the request holds, then write its line. Safe to call again."""
        try:
            self.let_go()
        finally:
            fields, self._fields = self._fields, {}
            if fields:
                self._counters.tools.count_request(fields)
                write_line(fields | {"duration_ms": self._elapsed_ms()})

    def _elapsed_ms(self) -> float:
        return round((time.monotonic() - self._began_s) * 1000, 1)


class Nobody:
    """The client of a turn that nobody waits for."""

    #: Only the turn's own deadline ends it.
    patience_s = float("inf")

    def has_left(self) -> bool:
        return False


def write_line(fields: dict[str, Any]) -> None:
    """Log a request; without `log.info`, which looks for its caller at the price of the whole line."""
    record = logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", None, None)
    record.fields = fields
    if log.isEnabledFor(record.levelno):
        log.handle(record)


def build_begin(settings: Settings, counters: Counters) -> Callable[[], None]:
    def begin() -> None:
        """Before anything is read: from here on the client may keep us waiting only so long."""
        request = flask.request
        client = ClientSocket(request.environ, settings.socket_timeout_s, settings.queue_timeout_s)
        request_id = find_request_id(request.headers.get("x-request-id", ""))
        access = flask.g.access = Access(client, request_id, counters)
        access.note(method=request.method, path=request.path)

    return begin


def find_request_id(asked: str) -> str:
    """The client's own id, if it is one that can stand in a header and a log."""
    return asked if REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"


def finish(response: flask.Response) -> flask.Response:
    access: Access = flask.g.access
    response.headers.update(access.headers)
    access.note(request_id=access.request_id, status=response.status_code)
    response.call_on_close(access.close)
    return response
