"""One request's account: what is logged at its end, and what must be closed by then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, assert_never

import flask

from app.handlers.client import ClientSocket
from app.lib.events import Completed, Failed, Finished, TurnEvent, Waiting
from app.settings import Settings

log = logging.getLogger("access")


class Access:
    """Lives from the first look at a request until its last byte, or its client, is gone."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._fields: dict[str, Any] = {}
        self._closers: list[Callable[[], None]] = []

    def note(self, **fields: Any) -> None:
        self._fields |= fields

    def on_close(self, closer: Callable[[], None]) -> None:
        self._closers.append(closer)

    def observe(self, batches: Iterator[list[TurnEvent]]) -> Iterator[list[TurnEvent]]:
        """Pass a turn on and note when it began and how it ended."""
        for batch in batches:
            if batch and not isinstance(batch[0], Waiting):
                self._fields.setdefault("first_event_ms", self._elapsed_ms())
            for event in batch:
                if isinstance(event, Finished | Completed | Failed):
                    self._note_end(event)
            yield batch

    def _note_end(self, event: Finished | Completed | Failed) -> None:
        match event:
            case Finished(_, reason):
                self.note(finish=reason.value)
            case Completed(usage):
                self.note(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            case Failed(error):
                self.note(error=error.code)
            case _:
                assert_never(event)

    def close(self) -> None:
        """Release what the request held, then write its line. Safe to call again."""
        closers, self._closers = self._closers, []
        fields, self._fields = self._fields, {}
        try:
            for closer in closers:
                closer()
        finally:
            if fields:
                log.info("request", extra={"fields": fields | {"duration_ms": self._elapsed_ms()}})

    def _elapsed_ms(self) -> float:
        return round((time.monotonic() - self._began_s) * 1000, 1)


def build_begin(settings: Settings) -> Callable[[], None]:
    def begin() -> None:
        """Before anything is read: from here on the client may keep us waiting only so long."""
        flask.g.client = ClientSocket(flask.request.environ, settings.socket_timeout_s)
        flask.g.access = Access()
        flask.g.access.note(method=flask.request.method, path=flask.request.path)

    return begin


def finish(response: flask.Response) -> flask.Response:
    access: Access = flask.g.access
    access.note(request_id=flask.g.request_id, status=response.status_code)
    if "error_code" in flask.g:
        access.note(error=flask.g.error_code)
    response.call_on_close(access.close)
    return response
