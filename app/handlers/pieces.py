"""What a request may take of a worker's time, however fast it comes and however small its pieces are."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

#: How long a connection may keep the worker with what it brought, and how long others have their turn then.
#: To sleep for no time would let those go on that run already, and not look for what arrived.
STRETCH_S = 0.005
PAUSE_S = 0.02
PIECE_BYTES = 1 << 20


class Pacing:
    """Stands before gunicorn's reading of a connection's socket.

    There, since one piece may be any amount of work: chunks of a byte, each with much about it.
    """

    def __init__(self, receive: Callable[..., bytes]) -> None:
        self._receive = receive
        self._worked_s = 0.0
        #: When the last piece was handed over.
        self._left_s: float | None = None

    def chunk(self, size_hint: int | None = None) -> bytes:
        if self._left_s is not None:
            self._worked_s += time.monotonic() - self._left_s
        if self._worked_s >= STRETCH_S:
            time.sleep(PAUSE_S)
            self._worked_s = 0.0
        data = self._receive(size_hint)
        self._left_s = time.monotonic()
        return data

    def rest(self) -> None:
        """A request begins or ends: what lies between two pieces is not about them."""
        self._left_s = None


def pace(reader: Any) -> None:
    """Have gunicorn's reader of connections leave time for the others.

    From the first byte on: at each piece of a header all that came before is looked through.
    """
    receive = reader.chunk

    def chunk(unreader: Any, size_hint: int | None = None) -> bytes:
        if not hasattr(unreader, "pacing"):
            unreader.pacing = Pacing(functools.partial(receive, unreader))
        data: bytes = unreader.pacing.chunk(size_hint)
        return data

    reader.chunk = chunk


def discard(stream: Any, most: int) -> bool:
    """Take what a client still sends behind an answer that came early, up to so much; whether that was all.

    A connection that is closed on unread data is reset, and the answer lost with it.
    """
    while most > 0 and (piece := stream.read(min(most, PIECE_BYTES))):
        most -= len(piece)
    return most > 0
