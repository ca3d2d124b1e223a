"""What a request's account notes of its turn: when it began, how it ended, its calls and held text."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from app.handlers.access import Access
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
from app.lib.rate_headers import build_limit_headers
from app.lib.text_gate import Reason
from app.lib.usage import NOTHING_USED

TurnBatches = Generator[list[TurnEvent], None, None]

TOLD = (Text, Reasoning, ToolCalled)
CONTINUATION_HEADER = "x-proxy-continuation"
# Of each kind, in one request: a model may write any number of half blocks.
MOST_CRUMBS = 10
# Blocks that nobody wanted, and words about a tag: plain text, and no cause for alarm.
QUIET = (Reason.NO_CALL, Reason.PROSE)

log = logging.getLogger("access")
crumbs = logging.getLogger("app.tool_buffers")


class TurnNotes:
    """Reads what a turn tells, for the log line and the headers of its request, and for the meters."""

    def __init__(self, access: Access) -> None:
        self._access = access
        #: By choice and place: a call is told piece by piece.
        self._calls: set[tuple[int, int]] = set()

    def observe(self, batches: TurnBatches) -> TurnBatches:
        """Pass a turn on and note what it tells.

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
        if "first_token_ms" not in self._access.fields:
            self._note_beginning(batch)
        self.add(batch)
        return batch

    def add(self, events: Iterable[TurnEvent]) -> None:
        for event in events:
            note = NOTED.get(type(event))
            if note:
                note(self, event)

    def _note_beginning(self, batch: list[TurnEvent]) -> None:
        access, kinds = self._access, set(map(type, batch))
        if not kinds <= PRELUDE:
            access.fields.setdefault("first_event_ms", access.measure_ms())
        if not kinds.isdisjoint(TOLD):
            access.note(first_token_ms=access.measure_ms())

    def _note_placed(self, placed: Placed) -> None:
        access = self._access
        access.tell(CONTINUATION_HEADER, placed.tier.value)
        access.note(continuation=placed.tier.value, continued_from=placed.origin.value)
        access.telemetry.note_placed(placed)

    def _note_limits(self, told: LimitsTold) -> None:
        for name, value in build_limit_headers(told.limits, time.time()).items():
            self._access.tell(name, value)
        self._access.telemetry.note_limits(told.limits)

    def _note_call(self, called: ToolCalled) -> None:
        self._calls.add((called.choice, called.delta.index))
        self._access.note(tool_calls=len(self._calls))

    def _note_block(self, _: ToolBlock) -> None:
        self._count_up("text_calls")

    def _note_finish(self, finished: Finished) -> None:
        self._access.note(finish=finished.reason.value)

    def _note_usage(self, completed: Completed) -> None:
        self._access.note(**completed.usage.to_dict())

    def _note_failure(self, failed: Failed) -> None:
        if "error" not in self._access.fields:  # a turn that broke fails again when it is closed
            used = failed.usage.to_dict() if failed.usage != NOTHING_USED else {}
            self._access.note(error=failed.error.code, **used)

    def _count_note(self, note: Note) -> None:
        times = self._count_up(".".join(filter(None, (note.kind, note.row, note.reason))))
        mode = self._access.fields.get("output_mode", "")
        self._access.telemetry.note(note, mode)
        if note.kind in COUNTED and times <= MOST_CRUMBS:
            self._leave_crumb(note, mode)

    def _leave_crumb(self, note: Note, mode: str) -> None:
        """A line for each block held; where it was not delivered, a warning. Counts and names, no words."""
        is_odd = note.kind is NoteKind.BUFFER_ABORTED and note.reason not in QUIET
        level = logging.WARNING if is_odd else logging.DEBUG
        about = {"choice": note.choice, "row": note.row, "reason": note.reason, "output_mode": mode}
        fields = {"request_id": self._access.request_id, **about}
        crumbs.log(level, note.kind.value, extra={"fields": fields})

    def _count_up(self, name: str) -> int:
        """One more of these, as far as the request has come."""
        fields = self._access.fields
        times: int = fields.get(name, 0) + 1
        fields[name] = times
        return times


#: What a turn tells that is worth noting.
NOTED: dict[type, Callable[[TurnNotes, Any], None]] = {
    Placed: TurnNotes._note_placed,
    LimitsTold: TurnNotes._note_limits,
    ToolCalled: TurnNotes._note_call,
    ToolBlock: TurnNotes._note_block,
    Note: TurnNotes._count_note,
    Finished: TurnNotes._note_finish,
    Completed: TurnNotes._note_usage,
    Failed: TurnNotes._note_failure,
}
