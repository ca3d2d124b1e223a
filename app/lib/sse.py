"""Server-sent events as bytes."""

from __future__ import annotations

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n\n"


def encode_data(payload: Any) -> bytes:
    """One unnamed frame; JSON has no raw line break, so one `data:` line always does."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def encode_event(name: str, payload: Any) -> bytes:
    """One named frame."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(payload))
