"""Server-sent events as bytes."""

from __future__ import annotations

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n\n"


def encode_data(payload: Any) -> bytes:
    """One unnamed frame; JSON has no raw line break, so one `data:` line always does."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"
