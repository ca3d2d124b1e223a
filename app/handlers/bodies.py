"""The bodies of requests: read whole, within limits of size, time, depth and number of parts."""

from __future__ import annotations

from typing import Any

import flask
import orjson
from gunicorn.http.errors import ParseException

from app.handlers.client import ClientSocket
from app.handlers.http import find_request
from app.handlers.logs import begin_exchange
from app.handlers.slow_bodies import SlowBodies
from app.lib.errors import BodyTimeout, BodyTooLarge, ClientGone, InvalidRequest, NotJson
from app.lib.json_depth import is_deeper

#: A list takes a hundred bytes of memory for two of a body, and time. No model reads a text with so many.
MOST_BRACKETS = 1_000_000
LEFT = "The client left in the middle of its body."
#: Says in a request's environment that nothing of its body is left.
IS_READ = "codex_gateway.body_is_read"


def read_json() -> Any:
    """The request's body; what is no JSON is refused before anything else looks at it."""
    request = find_request()
    if request.mimetype != "application/json":
        raise NotJson("Send the body as `Content-Type: application/json`.")
    bodies: Bodies = flask.current_app.extensions["bodies"]
    access = flask.g.access
    data = bodies.read(request, access.client)
    access.note(**begin_exchange(data))
    return bodies.parse(data)


class Bodies:
    def __init__(self, config: flask.Config, slow: SlowBodies) -> None:
        self._config = config
        self._slow = slow

    def read(self, request: flask.Request, client: ClientSocket) -> bytes:
        """The whole body; one that is too large, too slow or cut is an error, never a shorter body."""
        limit, length = self._config["MAX_CONTENT_LENGTH"], request.content_length
        if length is not None and length > limit:
            raise too_large()
        data = self._receive(request.environ["wsgi.input"], client, limit + 1 if length is None else length)
        if len(data) > limit:
            raise too_large()
        if length is not None and len(data) < length:
            raise ClientGone(LEFT)
        request.environ[IS_READ] = True
        return data

    def _receive(self, stream: Any, client: ClientSocket, length: int) -> bytes:
        """So many bytes, or fewer where they end before; a client that is late is refused."""
        data = b""
        fault: Exception | None = None
        try:
            with self._slow.watch(client, length):
                data = stream.read(length)
        except (OSError, ParseException) as error:
            fault = error
        # Who was told to stop may see an end, an error, or both.
        if client.is_late or isinstance(fault, TimeoutError):
            raise BodyTimeout("The body did not arrive in time.") from fault
        if isinstance(fault, ParseException):
            raise InvalidRequest("The body is not framed as its headers say.") from fault
        if fault:
            raise ClientGone(LEFT) from fault
        return data

    def parse(self, data: bytes) -> Any:
        if not data:
            raise InvalidRequest("The request has no body.")
        brackets = data.count(b"[") + data.count(b"{")
        if brackets > MOST_BRACKETS:
            raise InvalidRequest(
                f"The body has more than {MOST_BRACKETS:,} lists, objects or brackets in its texts."
            )
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}") from error
        most = self._config["MAX_JSON_DEPTH"]
        # Most bodies have fewer brackets than they may have levels.
        if brackets > most and is_deeper(value, most):
            raise InvalidRequest(f"The body is nested deeper than {most} levels.")
        return value


def too_large() -> BodyTooLarge:
    return BodyTooLarge("The body is larger than PROXY_MAX_BODY_MB.")
