"""What a worker makes of its requests: counts as they run, and an account of each when it ends."""

from __future__ import annotations

import logging
from typing import Any

import orjson

from app.handlers.meters import Meters
from app.handlers.recorder import UsageRecorder
from app.handlers.tool_buffers import COUNTED, BufferEvent, ToolBufferCounters
from app.lib.account_limits import AccountLimits
from app.lib.events import Note, Placed
from app.lib.models import find_base
from app.lib.redaction import Redactor
from app.pipeline import Backend

log = logging.getLogger("access")

OTHER = "other"
REFUSED = (401, 403)

Fields = dict[str, Any]


class Telemetry:
    def __init__(self, backend: Backend, recorder: UsageRecorder, meters: Meters, redactor: Redactor) -> None:
        self.buffers = ToolBufferCounters()
        self.meters = meters
        self.redactor = redactor
        self._backend = backend
        self._recorder = recorder
        self._under_way = 0
        self._open_streams = 0

    def note_placed(self, placed: Placed) -> None:
        self.meters.count_placed(placed)

    def note_limits(self, limits: AccountLimits) -> None:
        self._recorder.note_limits(limits)

    def note(self, note: Note, mode: str) -> None:
        if note.kind in COUNTED:
            event = BufferEvent(note.kind, mode, note.row, note.reason)
            self.buffers.count(event)
            self.meters.count_buffer(event)
        else:
            self.meters.count_note(note)

    def begin(self) -> None:
        """A request that will end."""
        self._under_way += 1

    def count_open_streams(self, change: int) -> None:
        self._open_streams += change

    def end(self, fields: Fields) -> None:
        self._under_way -= 1
        self.account(fields)

    def pass_by(self, fields: Fields) -> None:
        """The end of a request that is nobody's use; who tries keys is counted wherever that is."""
        if fields.get("status") in REFUSED:
            self.account(fields)
        else:
            write_line(fields)

    def account(self, fields: Fields) -> None:
        """What becomes of every request of the API's, however it ended."""
        label = self._label_model(fields.get("model"))
        self.meters.count_request(fields, label)
        self._recorder.add(self._hide_secrets(fields), label)
        write_line(fields)

    def sample(self) -> None:
        """What is so at this moment, for whoever looks next."""
        self.meters.show_pool(self._backend.census())
        self.meters.show_open(self._under_way, self._open_streams)
        self.meters.publish()

    def _hide_secrets(self, fields: Fields) -> Fields:
        """What is kept may be read by others than who sent it: a path, a model's name, a tool's."""
        text = orjson.dumps(fields).decode()
        hidden = self.redactor.redact(text)
        return fields if hidden == text else orjson.loads(hidden)

    def _label_model(self, asked: str | None) -> str:
        """One of the models there are, whatever a client wrote: labels must not grow without bound."""
        if asked is None:
            return ""
        return find_base(self._backend.known_models(), asked) or OTHER


def write_line(fields: Fields) -> None:
    """Log a request; without `log.info`, which looks for its caller at the price of the whole line."""
    record = logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", None, None)
    record.fields = fields
    if log.isEnabledFor(record.levelno):
        log.handle(record)
