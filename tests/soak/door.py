"""The way in: a connection for each request, read to its end or left in the middle."""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any

#: No answer may take longer, whatever is done to the gateway meanwhile.
ANSWER_WITHIN_S = 45.0


class NoAnswerError(Exception):
    """The connection broke, or nothing more came in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    data: bytes


@dataclass(frozen=True, slots=True)
class Departure:
    """When a client goes away: after so much of the answer; or before any of it, after so long."""

    after_bytes: int = 0
    after_s: float = 0.0


class Door:
    """Where a gateway listens."""

    def __init__(self, base_url: str) -> None:
        self.address = base_url.removeprefix("http://")

    def post(self, path: str, body: dict[str, Any], request_id: str) -> Reply:
        """Ask, and read until the answer ends."""
        deadline_s = time.monotonic() + ANSWER_WITHIN_S
        connection = http.client.HTTPConnection(self.address, timeout=ANSWER_WITHIN_S)
        try:
            response = send(connection, path, body, request_id)
            return Reply(response.status, dict(response.getheaders()), read(response, deadline_s))
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def leave(self, path: str, body: dict[str, Any], request_id: str, departure: Departure) -> Reply:
        """Ask, and go away in the middle; not of an error, though."""
        deadline_s = time.monotonic() + ANSWER_WITHIN_S
        connection = http.client.HTTPConnection(self.address, timeout=ANSWER_WITHIN_S)
        try:
            if not departure.after_bytes:
                request(connection, path, body, request_id)
                time.sleep(departure.after_s)
                return Reply(0, {}, b"")
            response = send(connection, path, body, request_id)
            most = departure.after_bytes if response.status == 200 else None
            return Reply(response.status, dict(response.getheaders()), read(response, deadline_s, most))
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


def request(connection: http.client.HTTPConnection, path: str, body: dict[str, Any], request_id: str) -> None:
    headers = {"content-type": "application/json", "x-request-id": request_id}
    connection.request("POST", path, json.dumps(body).encode(), headers)


def send(
    connection: http.client.HTTPConnection, path: str, body: dict[str, Any], request_id: str
) -> http.client.HTTPResponse:
    request(connection, path, body, request_id)
    return connection.getresponse()


def read(response: http.client.HTTPResponse, deadline_s: float, most: int | None = None) -> bytes:
    """All of a body, or so much; one that breaks off is an error here, not a shorter body."""
    data = bytearray()
    while (most is None or len(data) < most) and (piece := response.read1(most or 1 << 16)):
        data += piece
        if time.monotonic() > deadline_s:
            raise NoAnswerError(f"not at its end after {ANSWER_WITHIN_S:.0f} s")
    return bytes(data)
