"""Log lines as JSON, one object each."""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import logging
import os
import re
import secrets
from typing import Any

import orjson

from app.lib.redaction import Redactor
from app.settings import Settings
from app.store.exchanges import Exchanges

STDERR_FD = 2
#: Of the request that this greenlet serves: whatever is said meanwhile, in whichever room, is about it.
REQUEST_ID: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)
#: Of its exchange, where what goes in and out is kept: from its body on, and of nobody without a key.
EXCHANGE_ID: contextvars.ContextVar[str | None] = contextvars.ContextVar("exchange_id", default=None)

#: What clients send and get; silent unless the operator asks for it twice.
bodies = logging.getLogger("app.bodies")
LONGEST_BODY = 64 * 1024
#: What JSON lets stand, and a terminal or an editor obeys: more ends of lines, escapes, turns of direction.
OBEYED = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class JsonFormatter(logging.Formatter):
    def __init__(self, redactor: Redactor = Redactor()) -> None:  # noqa: B008  it never changes
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request_id": request_id} if (request_id := REQUEST_ID.get()) else {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = self._redactor.redact(orjson.dumps(line, default=str).decode())
        is_plain = text.isascii() and "\x7f" not in text
        return text if is_plain else OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class ExchangeHandler(logging.Handler):
    """Keeps what went in and out of a request, as it is written down."""

    def __init__(self, exchanges: Exchanges, redactor: Redactor) -> None:
        super().__init__()
        self._exchanges = exchanges
        self._redactor = redactor

    def handle(self, record: logging.LogRecord) -> bool:
        exchange_id = EXCHANGE_ID.get()
        if exchange_id:
            about = record.fields  # type: ignore[attr-defined]
            piece = orjson.dumps({"what": record.getMessage(), "time": record.created, **about})
            self._exchanges.keep(exchange_id, self._redactor.redact(piece.decode()).encode())
        return True


class Shortener(logging.Filter):
    """Cuts long bodies, behind their secrets: half of one would not be known for what it is."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        about = record.fields  # type: ignore[attr-defined]
        about["body"] = shorten(self._redactor.redact_json(about["body"]))
        return True


class LineHandler(logging.Handler):
    """Writes a record as one line; a line that cannot be written is lost, never its writer."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Without logging's lock: the line goes out in one system call."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            os.write(STDERR_FD, self.format(record).encode() + b"\n")


def build_redactor(settings: Settings) -> Redactor:
    return Redactor((*settings.api_keys, *settings.admin_keys, settings.page_token))


def configure(settings: Settings, exchanges: Exchanges) -> None:
    """Send our own loggers to stderr; the server's are set up in its configuration."""
    redactor = build_redactor(settings)
    handler = LineHandler()
    handler.setFormatter(JsonFormatter(redactor))
    for name in ("app", "access"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(settings.log_level)
        logger.propagate = False
    bodies.setLevel(settings.log_level if settings.logs_bodies else logging.CRITICAL)
    bodies.handlers = [ExchangeHandler(exchanges, redactor)]
    bodies.filters = [Shortener(redactor)]


def shorten(text: str) -> str:
    return text.encode()[:LONGEST_BODY].decode("utf-8", "ignore")


def log_body(what: str, body: bytes) -> None:
    """Write down what went in or out, where that is wanted."""
    if bodies.isEnabledFor(logging.DEBUG):
        about = {"body": body.decode("utf-8", "replace"), "bytes": len(body)}
        bodies.debug(what, extra={"fields": about})


def begin_exchange(body: bytes) -> dict[str, str]:
    """Write down what a request brought; by what name to ask for that, and what follows, if it is kept."""
    told = {}
    if bodies.isEnabledFor(logging.DEBUG):
        told["exchange"] = secrets.token_hex(16)
        EXCHANGE_ID.set(told["exchange"])
    log_body("request", body)
    return told
