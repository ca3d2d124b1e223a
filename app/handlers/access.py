"""One request's account: what is noted while it runs, and what must be closed by its end."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import flask

from app.handlers.client import Nobody
from app.handlers.customs import OF_THE_API, find_customs
from app.handlers.logs import EXCHANGE_ID, REQUEST_ID, log_body
from app.handlers.telemetry import Telemetry
from app.lib.keys import STRANGER, AccessKey
from app.lib.redaction import Redactor
from app.pipeline import Client

LONGEST_HEADER = 1000
LONGEST_PATH = 500
UNTOLD = re.compile(r"[^\x20-\x7e]")
ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Access:
    """Lives from the first look at a request until its last byte, or its client, is gone."""

    def __init__(self, client: Client, request_id: str, telemetry: Telemetry) -> None:
        self.client = client
        self.request_id = request_id
        self.key: AccessKey = STRANGER
        self.customs = OF_THE_API
        #: What every reply says, an error too.
        self.headers = {"x-request-id": request_id}
        #: What its log line is to say, as far as that is known.
        self.fields: dict[str, Any] = {}
        self.telemetry = telemetry
        self._began_s = time.monotonic()
        self._closers: list[Callable[[], None]] = []
        #: Where its fields go in the end.
        self._end = telemetry.pass_by

    @property
    def owner(self) -> str:
        """Names the key that was sent, without telling it; on an open gateway everyone is one."""
        return self.key.digest

    def count(self) -> None:
        """Have this be one of the requests that are counted."""
        self.telemetry.begin()
        self._end = self.telemetry.end

    def welcome(self, key: AccessKey) -> None:
        self.key = key
        self.note(key=key.name)

    def detach(self) -> Access:
        """An account for what goes on when this request is answered; no client can leave it.

        What was noted so far moves there, so that nothing is counted twice, the request itself neither.
        It counts from when that begins: it may never.
        """
        detached = Access(Nobody(), self.request_id, self.telemetry)
        detached.key = self.key
        detached.note(**self.fields, request_id=self.request_id, status=200, background=True)
        self.fields = {name: self.fields[name] for name in ("method", "path", "route", "key", "model")}
        return detached

    def tell(self, name: str, value: str) -> None:
        """Have the reply say so, as far as a header can: whatever it says, the reply must go out."""
        self.headers[name] = UNTOLD.sub("?", value[:LONGEST_HEADER])

    def note(self, **fields: Any) -> None:
        self.fields |= fields

    def observe_frames(self, chunks: Iterator[bytes]) -> Generator[bytes, None, None]:
        """Pass a stream on and note what of it goes out."""
        self.fields["frames"] = 0
        self.telemetry.count_open_streams(1)
        self.on_close(lambda: self.telemetry.count_open_streams(-1))
        for chunk in chunks:
            self.fields["frames"] += chunk.count(b"\n\n")
            log_body("frames", chunk)
            yield chunk

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have this called at the end, last one first, whatever the others do."""
        self._closers.append(closer)

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
            fields, self.fields = self.fields, {}
            if fields:
                self._end(fields | {"duration_ms": self.measure_ms()})
                REQUEST_ID.set(None)

    def measure_ms(self) -> float:
        """How long it has been under way."""
        return round((time.monotonic() - self._began_s) * 1000, 1)


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
