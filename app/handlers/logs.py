"""Log lines as JSON, one object each."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
from typing import Any

import orjson

STDERR_FD = 2


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class LineHandler(logging.Handler):
    """Writes a record as one line; a line that cannot be written is lost, never its writer."""

    def handle(self, record: logging.LogRecord) -> bool:
        """Without logging's lock: the line goes out in one system call."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            os.write(STDERR_FD, self.format(record).encode() + b"\n")


def configure(level: str) -> None:
    """Send our own loggers to stderr; the server's stay as they are."""
    handler = LineHandler()
    handler.setFormatter(JsonFormatter())
    for name in ("app", "access"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
