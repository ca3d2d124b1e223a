"""What the server answers to a request that never gets to be one: no HTTP, a header too long."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus

import gunicorn.util
import orjson

from app.handlers.telemetry import Fields
from app.lib.errors import InvalidRequest
from app.lib.keys import STRANGER
from app.lib.redaction import Redactor

#: As gunicorn calls it: with the client, a status, its reason, and what was wrong.
WriteError = Callable[[socket.socket, int, str, str], None]

CODE = "malformed_request"
# What such a client may still send, and for how long, before it gets no more of our time.
LAST_S = 1.0
LAST_BYTES = 256 * 1024
LONGEST_MESSAGE = 500


def build_write_error(redactor: Redactor, account: Callable[[Fields], None]) -> WriteError:
    def write_error(client: socket.socket, status: int, reason: str, message: str) -> None:
        """In place of gunicorn's HTML, and the end of the connection."""
        # A coding that nobody knows is the client's fault like the rest: 501 would say that it is ours.
        status = 400 if status == HTTPStatus.NOT_IMPLEMENTED else status
        request_id = f"req_{secrets.token_hex(12)}"
        about = {"request_id": request_id, "key": STRANGER.name, "status": status, "error": CODE}
        account({**about, "duration_ms": 0.0})
        told = redactor.redact(f"{reason}: {message}")[:LONGEST_MESSAGE]
        body = orjson.dumps(InvalidRequest(told, code=CODE).to_dict())
        head = (
            f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nx-request-id: {request_id}\r\nx-should-retry: false\r\n\r\n"
        )
        client.setblocking(False)
        with contextlib.suppress(OSError):  # it is its own loss
            client.sendall(head.encode("latin-1") + body)
        # Closed on what it still sends, the connection would be reset, and this answer be lost.
        gunicorn.util.close_graceful(client, LAST_S, LAST_BYTES)

    return write_error
