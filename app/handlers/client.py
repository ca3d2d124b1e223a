"""The client's socket, watched for its departure."""

from __future__ import annotations

import socket
from typing import Any


class ClientSocket:
    """Satisfies the pipeline's `Client`; without a real socket nobody is watched."""

    def __init__(self, environ: dict[str, Any], write_timeout_s: float) -> None:
        self._socket: socket.socket | None = environ.get("gunicorn.socket")
        if self._socket:
            # A client that stops reading must not hold its codex process for ever.
            self._socket.settimeout(write_timeout_s)

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket else -1

    def has_left(self) -> bool:
        if self._socket is None:
            return False
        try:
            peeked = self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True
        # More data is a pipelined request: the socket stays readable and says nothing any more.
        self._socket = None if peeked else self._socket
        return not peeked
