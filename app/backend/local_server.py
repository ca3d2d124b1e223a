"""What an HTTP server that only our own codex asks is: on a loopback port of its own, and silent."""

from __future__ import annotations

import contextlib
import http.server
import socketserver
from typing import Any, ClassVar


class LocalServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[LocalHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def server_bind(self) -> None:
        # The inherited one asks DNS for this host's name, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.socket.getsockname()[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class LocalHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float] = 30

    def handle(self) -> None:
        # codex closes the connection when a turn is interrupted: the end of a stream, not a fault.
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def send_head(self, status: int, content_type: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the inherited name
        """Log nothing: what is said here is a client's, or the doctor's own."""
