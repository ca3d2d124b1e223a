"""How long a body may take in all: a byte a second keeps every single read short."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from app.handlers.client import ClientSocket

#: Slower than this, behind the time a client may be silent, is no client that means it.
SLOWEST_BYTES_S = 100_000


class SlowBodies:
    """The bodies that are being read; looked through once a second."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._ends_s: dict[ClientSocket, float] = {}

    @contextlib.contextmanager
    def watch(self, client: ClientSocket, length: int) -> Iterator[None]:
        self._ends_s[client] = time.monotonic() + self._timeout_s + length / SLOWEST_BYTES_S
        try:
            yield
        finally:
            del self._ends_s[client]

    def end_late(self) -> None:
        """Have those who read a body that should be there by now see its end."""
        now_s = time.monotonic()
        for client in [client for client, ends_s in self._ends_s.items() if now_s >= ends_s]:
            client.stop_reading()
