"""Bodies and items as they stand in the store."""

from __future__ import annotations

from typing import Any

import orjson

from app.store.database import StoreFault


def encode(value: Any) -> bytes:
    return orjson.dumps(value)


def decode(blob: bytes) -> Any:
    """SQLite does not look after what is inside a value: a bad disk may have changed it."""
    try:
        return orjson.loads(blob)
    except orjson.JSONDecodeError as error:
        raise StoreFault("What was stored cannot be read any more.") from error
