"""What every reply shares: JSON bodies, errors in one envelope."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, cast

import flask
import orjson
from werkzeug.exceptions import HTTPException

from app.handlers.logs import log_body
from app.lib.errors import (
    FAULT,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    ProxyError,
)
from app.lib.redaction import Redactor

log = logging.getLogger(__name__)

LONGEST_RETRY_S = 31 * 24 * 3600


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
