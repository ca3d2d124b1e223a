"""Server-sent events as bytes."""

from __future__ import annotations

from typing import Any

import orjson

DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n\n"
#: Stands for a text while the rest of its frame is made.
GAP = "<text>"


def encode_data(payload: Any) -> bytes:
    """One unnamed frame; JSON has no raw line break, so one `data:` line always does."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def encode_event(name: str, payload: Any) -> bytes:
    """One named frame."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(payload))


def split_at_gap(frame: bytes) -> tuple[bytes, bytes]:
    """What stands before and after a text: most frames are text, and the rest of them is made once.

    The last gap is the text's: a client may name its model so, and that stands before it.
    """
    before, _, after = frame.rpartition(b'"%s"' % GAP.encode())
    return before, after
