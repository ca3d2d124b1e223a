"""Much work in pieces, so that a worker's other requests are served meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

#: How long one may keep the worker, and how long the others have their turn then. A sleep of no time at all
#: would let those go on that run already, and not look for what arrived.
STRETCH_S = 0.005
PAUSE_S = 0.001


def with_pauses(pieces: Iterable[T]) -> Iterator[T]:
    """These, one by one; a few small ones do not wait."""
    began_s = time.monotonic()
    for piece in pieces:
        if time.monotonic() - began_s >= STRETCH_S:
            time.sleep(PAUSE_S)
            began_s = time.monotonic()
        yield piece
