"""Events and errors as values that compare: two errors are never equal as exceptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from app.lib.errors import ProxyError
from app.lib.events import Failed, TurnEvent, TurnFailed


class PlainError(NamedTuple):
    kind: type[ProxyError]
    message: str
    param: str | None = None
    code: str | None = None
    retry_at_s: float | None = None


def to_plain_error(error: ProxyError) -> PlainError:
    code = None if error.code == error.default_code else error.code
    return PlainError(type(error), error.message, error.param, code, error.retry_at_s)


def to_plain(events: Iterable[Any]) -> list[TurnEvent | PlainError | Any]:
    """The same events, failures as `PlainError`; its code is set only where it is not the class's own."""
    return [
        to_plain_error(event.error) if isinstance(event, Failed | TurnFailed) else event for event in events
    ]
