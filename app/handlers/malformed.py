"""What the server answers to a request that never gets to be one: no HTTP, a header too long."""

from __future__ import annotations

import contextlib
import secrets
import socket

import orjson

from app.handlers.telemetry import write_line
from app.lib.errors import InvalidRequest

CODE = "malformed_request"


def write_error(client: socket.socket, status: int, reason: str, message: str) -> None:
    """In place of gunicorn's HTML; without waiting for anyone, as there."""
    request_id = f"req_{secrets.token_hex(12)}"
    write_line({"request_id": request_id, "status": status, "error": CODE})
    body = orjson.dumps(InvalidRequest(f"{reason}: {message}"[:500], code=CODE).to_dict())
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nx-request-id: {request_id}\r\nx-should-retry: false\r\n\r\n"
    )
    client.setblocking(False)
    with contextlib.suppress(OSError):  # it is its own loss
        client.sendall(head.encode("latin-1") + body)
