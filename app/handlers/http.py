"""What every reply shares: JSON bodies in and out, errors in one envelope."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, cast

import flask
import orjson
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import HTTPException

from app.handlers.logs import begin_exchange, log_body
from app.lib.errors import (
    FAULT,
    BodyTimeout,
    BodyTooLarge,
    ClientGone,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    NotJson,
    ProxyError,
)
from app.lib.json_depth import is_deeper
from app.lib.redaction import Redactor

log = logging.getLogger(__name__)

LONGEST_RETRY_S = 31 * 24 * 3600
#: A list takes a hundred bytes of memory for two of a body, and time. No model reads a text with so many.
MOST_BRACKETS = 1_000_000
LEFT = "The client left in the middle of its body."


class Reply(flask.Response):
    """What every reply is; those that have `standing` headers send all as they are."""

    default_mimetype = None
    #: The same for all of its kind: werkzeug would check and copy each twice for every reply.
    standing: Mapping[str, str] | None = None

    def get_wsgi_response(self, environ: dict[str, Any]) -> Any:
        if self.standing is None:
            return super().get_wsgi_response(environ)
        return self.get_app_iter(environ), self.status, [*self.standing.items(), *self.headers]


def register(app: flask.Flask) -> None:
    app.register_error_handler(ProxyError, render_error)
    app.register_error_handler(HTTPException, render_http_exception)
    app.register_error_handler(Exception, render_bug)


def find_request() -> flask.Request:
    """The request itself: behind the proxy every look at it costs a microsecond."""
    return cast(flask.Request, cast(Any, flask.request)._get_current_object())


def read_json() -> Any:
    """The request's body; what is no JSON is refused before anything else looks at it."""
    request = find_request()
    if request.mimetype != "application/json":
        raise NotJson("Send the body as `Content-Type: application/json`.")
    data = read_body(request)
    flask.g.access.note(**begin_exchange(data))
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
    most = flask.current_app.config["MAX_JSON_DEPTH"]
    # Most bodies have fewer brackets than they may have levels.
    if brackets > most and is_deeper(value, most):
        raise InvalidRequest(f"The body is nested deeper than {most} levels.")
    return value


def read_body(request: flask.Request) -> bytes:
    """The whole body; one that is too large, too slow or cut is an error, never a shorter body."""
    limit, length = request.max_content_length or 0, request.content_length
    if length is not None and length > limit:
        raise too_large()
    data = receive(request.environ["wsgi.input"], limit + 1 if length is None else length)
    if len(data) > limit:
        raise too_large()
    if length is not None and len(data) < length:
        raise ClientGone(LEFT)
    return data


def receive(stream: Any, length: int) -> bytes:
    """So many bytes, or fewer where they end before; a client that is late is refused."""
    client = flask.g.access.client
    data = b""
    fault: Exception | None = None
    try:
        with flask.current_app.extensions["slow_bodies"].watch(client, length):
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


def too_large() -> BodyTooLarge:
    return BodyTooLarge("The body is larger than PROXY_MAX_BODY_MB.")


def json_response(payload: Any, status: int = 200) -> flask.Response:
    return send_json(orjson.dumps(payload), status)


def send_json(data: bytes, status: int) -> flask.Response:
    log_body("reply", data)
    return flask.Response(data, status, headers={"cache-control": "no-store"}, mimetype="application/json")


def render_error(error: ProxyError) -> flask.Response:
    flask.g.access.note(error=error.code)
    # It may repeat the client's words, and one of them be a key.
    redactor: Redactor = flask.current_app.extensions["redactor"]
    text = redactor.redact(orjson.dumps(error.to_dict()).decode())
    response = send_json(text.encode(), error.status)
    retry_after_s = find_retry_after(error, time.time())
    if retry_after_s is not None:
        response.headers["retry-after"] = str(retry_after_s)
    if not error.may_retry:
        response.headers["x-should-retry"] = "false"
    return response


def find_retry_after(error: ProxyError, now_s: float) -> int | None:
    if error.retry_at_s is not None:
        return min(max(1, math.ceil(error.retry_at_s - now_s)), LONGEST_RETRY_S)
    return error.retry_after_s


HTTP_ERRORS: dict[int, tuple[type[ProxyError], str]] = {
    404: (NotFound, "No such route"),
    405: (MethodNotAllowed, "No such method here"),
}


def render_http_exception(error: HTTPException) -> flask.Response:
    kind, text = HTTP_ERRORS.get(error.code or 500, (InvalidRequest, "Not understood"))
    response = render_error(kind(f"{text}: {flask.request.method} {flask.request.path}"))
    if error.code == 405 and getattr(error, "valid_methods", None):
        response.headers["allow"] = ", ".join(error.valid_methods)  # type: ignore[attr-defined]
    return response


def render_bug(error: Exception) -> flask.Response:
    log.error("unhandled error", exc_info=error, extra={"fields": {"request_id": flask.g.access.request_id}})
    return render_error(InternalError(FAULT))
