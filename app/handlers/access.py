"""One request's account: what is noted while it runs, and what must be closed by its end."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import flask

from app.handlers.customs import OF_THE_API, find_customs
from app.handlers.logs import EXCHANGE_ID, REQUEST_ID, log_body
from app.handlers.telemetry import Telemetry
from app.handlers.tool_buffers import COUNTED
from app.lib.errors import FAULT, InternalError
from app.lib.events import (
    PRELUDE,
    Completed,
    Failed,
    Finished,
    LimitsTold,
    Note,
    NoteKind,
    Placed,
    Reasoning,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
)
from app.lib.keys import STRANGER, AccessKey
from app.lib.rate_headers import build_limit_headers
from app.lib.redaction import Redactor
from app.lib.text_gate import Reason
from app.lib.usage import NOTHING_USED
from app.pipeline import Client

TurnBatches = Generator[list[TurnEvent], None, None]

TOLD = (Text, Reasoning, ToolCalled)
CONTINUATION_HEADER = "x-proxy-continuation"
# Of each kind, in one request: a model may write any number of half blocks.
MOST_CRUMBS = 10
# Blocks that nobody wanted, and words about a tag: plain text, and no cause for alarm.
QUIET = (Reason.NO_CALL, Reason.PROSE)
LONGEST_HEADER = 1000
LONGEST_PATH = 500
UNTOLD = re.compile(r"[^\x20-\x7e]")
ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

log = logging.getLogger("access")
crumbs = logging.getLogger("app.tool_buffers")


class Access:
    """Lives from the first look at a request until its last byte, or its client, is gone."""

    def __init__(self, client: Client, request_id: str, telemetry: Telemetry) -> None:
        self.client = client
        self.request_id = request_id
        self.key: AccessKey = STRANGER
        self.customs = OF_THE_API
        #: What every reply says, an error too.
        self.headers = {"x-request-id": request_id}
        self._telemetry = telemetry
        self._began_s = time.monotonic()
        self._fields: dict[str, Any] = {}
        self._calls: set[tuple[int, int]] = set()
        self._closers: list[Callable[[], None]] = []
        #: Where its fields go in the end.
        self._end = telemetry.pass_by

    @property
    def owner(self) -> str:
        """Names the key that was sent, without telling it; on an open gateway everyone is one."""
        return self.key.digest

    def count(self) -> None:
        """Have this be one of the requests that are counted."""
        self._telemetry.begin()
        self._end = self._telemetry.end

    def welcome(self, key: AccessKey) -> None:
        self.key = key
        self.note(key=key.name)

    def detach(self) -> Access:
        """An account for what goes on when this request is answered; no client can leave it.

        What was noted so far moves there, so that nothing is counted twice, the request itself neither.
        It counts from when that begins: it may never.
        """
        detached = Access(Nobody(), self.request_id, self._telemetry)
        detached.key = self.key
        detached.note(**self._fields, request_id=self.request_id, status=200, background=True)
        self._fields = {name: self._fields[name] for name in ("method", "path", "route", "key", "model")}
        return detached

    def tell(self, name: str, value: str) -> None:
        """Have the reply say so, as far as a header can: whatever it says, the reply must go out."""
        self.headers[name] = UNTOLD.sub("?", value[:LONGEST_HEADER])

    def note(self, **fields: Any) -> None:
        self._fields |= fields

    def observe_frames(self, chunks: Iterator[bytes]) -> Generator[bytes, None, None]:
        """Pass a stream on and note what of it goes out."""
        self._fields["frames"] = 0
        self._telemetry.count_open_streams(1)
        self.on_close(lambda: self._telemetry.count_open_streams(-1))
        for chunk in chunks:
            self._fields["frames"] += chunk.count(b"\n\n")
            log_body("frames", chunk)
            yield chunk

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have this called at the end, last one first, whatever the others do."""
        self._closers.append(closer)

    def observe(self, batches: TurnBatches) -> TurnBatches:
        """Pass a turn on and note when it began, how it ended, and its tool calls.

        A fault of our own ends it as any failure does: after the first byte nothing may be raised.
        """
        try:
            yield from map(self._note_batch, batches)
        except Exception:
            log.exception("a turn broke")
            yield self._note_batch([Failed(InternalError(FAULT))])
        finally:
            batches.close()

    def _note_batch(self, batch: list[TurnEvent]) -> list[TurnEvent]:
        if "first_token_ms" not in self._fields:
            self._note_beginning(batch)
        self.note_events(batch)
        return batch

    def note_events(self, events: Iterable[TurnEvent]) -> None:
        for event in events:
            note = NOTED.get(type(event))
            if note:
                note(self, event)

    def _note_beginning(self, batch: list[TurnEvent]) -> None:
        kinds = set(map(type, batch))
        if not kinds <= PRELUDE:
            self._fields.setdefault("first_event_ms", self._elapsed_ms())
        if not kinds.isdisjoint(TOLD):
            self._fields["first_token_ms"] = self._elapsed_ms()

    def _note_placed(self, placed: Placed) -> None:
        self.tell(CONTINUATION_HEADER, placed.tier.value)
        self.note(continuation=placed.tier.value, continued_from=placed.origin.value)
        self._telemetry.note_placed(placed)

    def _note_limits(self, told: LimitsTold) -> None:
        for name, value in build_limit_headers(told.limits, time.time()).items():
            self.tell(name, value)
        self._telemetry.note_limits(told.limits)

    def _note_call(self, called: ToolCalled) -> None:
        self._calls.add((called.choice, called.delta.index))
        self.note(tool_calls=len(self._calls))

    def _note_block(self, _: ToolBlock) -> None:
        self.note(text_calls=self._fields.get("text_calls", 0) + 1)

    def _note_finish(self, finished: Finished) -> None:
        self.note(finish=finished.reason.value)

    def _note_usage(self, completed: Completed) -> None:
        self.note(**completed.usage.to_dict())

    def _note_failure(self, failed: Failed) -> None:
        if "error" not in self._fields:  # a turn that broke fails again when it is closed
            used = failed.usage.to_dict() if failed.usage != NOTHING_USED else {}
            self.note(error=failed.error.code, **used)

    def _count(self, note: Note) -> None:
        counted = ".".join(filter(None, (note.kind, note.row, note.reason)))
        times = self._fields[counted] = self._fields.get(counted, 0) + 1
        mode = self._fields.get("output_mode", "")
        self._telemetry.note(note, mode)
        if note.kind in COUNTED and times <= MOST_CRUMBS:
            self._leave_crumb(note, mode)

    def _leave_crumb(self, note: Note, mode: str) -> None:
        """A line for each block held; where it was not delivered, a warning. Counts and names, no words."""
        is_odd = note.kind is NoteKind.BUFFER_ABORTED and note.reason not in QUIET
        level = logging.WARNING if is_odd else logging.DEBUG
        about = {"choice": note.choice, "row": note.row, "reason": note.reason, "output_mode": mode}
        crumbs.log(level, note.kind.value, extra={"fields": {"request_id": self.request_id, **about}})

    def let_go(self) -> None:
        """Release what the request holds, which may note more. Safe to call again."""
        if self._closers:
            try:
                self._closers.pop()()
            finally:  # whatever that one did
                self.let_go()

    def close(self) -> None:
        """Release what the request holds, then account for it. Safe to call again."""
        try:
            self.let_go()
        finally:
            fields, self._fields = self._fields, {}
            if fields:
                self._end(fields | {"duration_ms": self._elapsed_ms()})
                REQUEST_ID.set(None)

    def _elapsed_ms(self) -> float:
        return round((time.monotonic() - self._began_s) * 1000, 1)


#: What a turn tells that is worth noting.
NOTED: dict[type, Callable[[Access, Any], None]] = {
    Placed: Access._note_placed,
    LimitsTold: Access._note_limits,
    ToolCalled: Access._note_call,
    ToolBlock: Access._note_block,
    Note: Access._count,
    Finished: Access._note_finish,
    Completed: Access._note_usage,
    Failed: Access._note_failure,
}


class Nobody:
    """The client of a turn that nobody waits for."""

    #: Only the turn's own deadline ends it.
    patience_s = float("inf")

    def has_left(self) -> bool:
        return False


def begin(request: flask.Request, client: Client, telemetry: Telemetry) -> Access:
    """Before anything is read."""
    request_id = find_request_id(request.headers.get("x-request-id", ""), telemetry.redactor)
    REQUEST_ID.set(request_id)
    EXCHANGE_ID.set(None)
    access = Access(client, request_id, telemetry)
    access.customs = find_customs(request)
    if access.customs.is_counted and request.method != "OPTIONS":
        access.count()
    route = request.url_rule.rule if request.url_rule else None
    # Behind its secrets: half of one would not be known for what it is.
    path = telemetry.redactor.redact(request.path)[:LONGEST_PATH]
    access.note(method=request.method, path=path, route=route, key=STRANGER.name)
    return access


def find_request_id(asked: str, redactor: Redactor) -> str:
    """The client's own id, if it is one that can stand in a header and a log, and no key."""
    is_fit = ID.fullmatch(asked) and redactor.redact(asked) == asked
    return asked if is_fit else f"req_{secrets.token_hex(12)}"
