"""Who a turn is for: the client at a socket, its patience and whether it is still there; or nobody."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

# Of `enum tcp_state`: the one in which both sides are there.
TCP_ESTABLISHED = 1
INTERNET = (socket.AF_INET, socket.AF_INET6)


def limit_unsent(environ: dict[str, Any], size: int) -> None:
    """Have the kernel hold less of what the client has not read: who reads nothing is noticed soon."""
    client: socket.socket | None = environ.get("gunicorn.socket")
    if client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


class ClientSocket:
    """Satisfies the pipeline's `Client`; without a real socket nobody leaves."""

    def __init__(self, environ: dict[str, Any], timeout_s: float, patience_s: float) -> None:
        self.patience_s = patience_s
        #: Whether it took too long to send its body.
        self.is_late = False
        self._socket: socket.socket | None = environ.get("gunicorn.socket")
        if self._socket:
            # A client that neither sends nor reads must not hold a codex process for ever.
            self._socket.settimeout(timeout_s)

    def stop_reading(self) -> None:
        """Whoever reads its body comes to an end there."""
        self.is_late = True
        if self._socket:
            with contextlib.suppress(OSError):  # it is gone
                self._socket.shutdown(socket.SHUT_RD)

    def has_left(self) -> bool:
        """Ask the kernel: it knows of a hang-up also behind unread data, and never makes us wait."""
        if self._socket is None or self._socket.family not in INTERNET:
            return False
        try:
            return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_ESTABLISHED
        except OSError:
            return True


class Nobody:
    """The client of a turn that nobody waits for."""

    #: Only the turn's own deadline ends it.
    patience_s = float("inf")

    def has_left(self) -> bool:
        return False
