"""Errors over HTTP: one envelope, real statuses while no byte was sent, in-band after that."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.lib import errors
from app.lib.errors import ProxyError
from app.lib.events import Tick, TurnFailed
from app.settings import Settings
from tests.contract.conftest import BODY, Post
from tests.support.scripted_backend import ScriptedBackend, say
from tests.support.sse import DONE, read_deltas

INVALID, SERVER = "invalid_request_error", "server_error"
BUG = "The gateway failed; its log has the details."
ROLE = (0, {"role": "assistant", "content": ""}, None)


def envelope(message: str, type_: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


def a_failure(error: Exception, expected: tuple[Any, ...], id_: str) -> Any:
    """Expected: status, type, code, Retry-After, x-should-retry."""
    return pytest.param(error, *expected, id=id_)


FAILURES = [
    a_failure(errors.InvalidRequest("No."), (400, INVALID, None, None, None), "bad-request"),
    a_failure(
        errors.ContextTooLong("No."), (400, INVALID, "context_length_exceeded", None, None), "too-long"
    ),
    a_failure(errors.UnknownModel("No."), (404, INVALID, "model_not_found", None, None), "model"),
    a_failure(
        errors.RateLimited("No."), (429, "rate_limit_error", "rate_limit_exceeded", "10", None), "throttled"
    ),
    a_failure(
        errors.QuotaExceeded("No."),
        (429, "insufficient_quota", "insufficient_quota", "300", "false"),
        "quota",
    ),
    a_failure(
        errors.QuotaExceeded("No.", retry_at_s=5),
        (429, "insufficient_quota", "insufficient_quota", "1", "false"),
        "quota-that-should-be-back",
    ),
    a_failure(errors.GatewayBusy("No."), (429, "rate_limit_error", "gateway_busy", "2", None), "busy"),
    a_failure(errors.ClientGone("No."), (499, SERVER, "client_closed_request", None, None), "gone"),
    a_failure(errors.BackendRefused("No."), (502, SERVER, "backend_refused", None, "false"), "refused"),
    a_failure(
        errors.UpstreamUnauthorized("No."), (502, SERVER, "upstream_unauthorized", None, "false"), "login"
    ),
    a_failure(
        errors.BackendUnavailable("No."), (503, SERVER, "backend_unavailable", "2", None), "unavailable"
    ),
    a_failure(errors.GatewayStopping("No."), (503, SERVER, "gateway_stopping", "2", None), "stopping"),
    a_failure(errors.BackendTimeout("No."), (504, SERVER, "backend_timeout", None, None), "timeout"),
]


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
@pytest.mark.parametrize("told", [pytest.param(False, id="raised"), pytest.param(True, id="told")])
@pytest.mark.parametrize(("error", "status", "type_", "code", "retry_after", "should_retry"), FAILURES)
def test_a_failure_before_the_first_model_event(
    post: Post,
    backend: ScriptedBackend,
    error: ProxyError,
    status: int,
    type_: str,
    code: str | None,
    retry_after: str | None,
    should_retry: str | None,
    told: bool,
    stream: bool,
) -> None:
    """Also with `stream: true`: no byte was sent, so the status can still tell."""
    backend.script = [[Tick(0)], [TurnFailed(error)] if told else error]
    response = post(stream=stream)
    headers = response.headers
    assert (
        response.status_code,
        response.content_type,
        response.get_json(),
        headers.get("retry-after"),
        headers.get("x-should-retry"),
    ) == (status, "application/json", envelope("No.", type_, code), retry_after, should_retry)


@pytest.mark.parametrize(("error", "status", "type_", "code", "retry_after", "should_retry"), FAILURES)
def test_a_failure_after_the_first_model_event(
    post: Post,
    backend: ScriptedBackend,
    error: ProxyError,
    status: int,
    type_: str,
    code: str | None,
    retry_after: str | None,
    should_retry: str | None,
) -> None:
    backend.script = [say("Hi"), [TurnFailed(error)]]
    response = post(stream=True)
    assert (response.status_code, read_deltas(response.data)) == (
        200,
        [ROLE, (0, {"content": "Hi"}, None), envelope("No.", type_, code), DONE],
    )


def test_a_failure_after_part_of_a_body_is_a_failure(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), errors.BackendUnavailable("Gone.")]
    response = post()
    assert (response.status_code, response.get_json()) == (
        503,
        envelope("Gone.", SERVER, "backend_unavailable"),
    )


def test_a_turn_that_just_stops_is_a_failure(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [[Tick(0)]]
    response = post(stream=True)
    assert (response.status_code, response.get_json()) == (
        503,
        envelope("Codex ended the turn without an answer.", SERVER, "backend_unavailable"),
    )


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
def test_a_fault_of_ours_tells_the_log_and_not_the_client(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord], stream: bool
) -> None:
    backend.script = [ZeroDivisionError("secret detail")]
    response = post(stream=stream)
    faults = [record for record in logged if record.levelno == logging.ERROR]
    assert (response.status_code, response.get_json()) == (500, envelope(BUG, SERVER, "internal_error"))
    assert [record.exc_info[0] for record in faults if record.exc_info] == [ZeroDivisionError]


def test_a_fault_of_ours_after_the_first_byte_ends_the_stream_properly(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    backend.script = [say("Hi"), ZeroDivisionError("secret detail")]
    response = post(stream=True)
    faults = [record.getMessage() for record in logged if record.levelno == logging.ERROR]
    assert (read_deltas(response.data)[2:], faults) == (
        [envelope(BUG, SERVER, "internal_error"), DONE],
        ["a turn broke"],
    )


JSON = {"content-type": "application/json"}
NO_BODY = "The request has no body."
TYPE = "Send the body as `Content-Type: application/json`."


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status", "expected"),
    [
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"json": BODY | {"n": 0}},
            400,
            envelope(
                "n: Must be greater than or equal to 1 and less than or equal to 5.", INVALID, None, "n"
            ),
            id="a-bad-field",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"data": b"{", "headers": JSON},
            400,
            envelope(
                "The body is not valid JSON: unexpected end of data: line 1 column 2 (char 1)", INVALID, None
            ),
            id="not-json",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"headers": JSON},
            400,
            envelope(NO_BODY, INVALID, None),
            id="no-body",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"json": [BODY]},
            400,
            envelope("The body must be a JSON object.", INVALID, None),
            id="a-list",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"data": b"{}", "headers": {"content-type": "text/plain"}},
            415,
            envelope(TYPE, INVALID, "unsupported_media_type"),
            id="text",
        ),
        pytest.param(
            "POST",
            "/v1/chat/completions",
            {"data": b"{}"},
            415,
            envelope(TYPE, INVALID, "unsupported_media_type"),
            id="no-type",
        ),
        pytest.param(
            "GET",
            "/v1/nothing",
            {},
            404,
            envelope("No such route: GET /v1/nothing", INVALID, "not_found"),
            id="no-such-route",
        ),
        pytest.param(
            "DELETE",
            "/v1/chat/completions",
            {},
            405,
            envelope("No such method here: DELETE /v1/chat/completions", INVALID, "method_not_allowed"),
            id="no-such-method",
        ),
        pytest.param(
            "GET",
            "/v1/models/nothing",
            {},
            404,
            envelope("The model `nothing` does not exist.", INVALID, "model_not_found", "model"),
            id="no-such-model",
        ),
        pytest.param(
            "GET",
            "/v1//models",
            {},
            404,
            envelope("No such route: GET /v1//models", INVALID, "not_found"),
            id="doubled-slashes",
        ),
    ],
)
def test_requests_that_cannot_be_served(
    client: FlaskClient, method: str, path: str, kwargs: dict[str, Any], status: int, expected: dict[str, Any]
) -> None:
    response = client.open(path, method=method, buffered=True, **kwargs)
    assert (response.status_code, response.content_type, response.get_json()) == (
        status,
        "application/json",
        expected,
    )


def test_405_says_what_is_allowed(client: FlaskClient) -> None:
    allowed = client.delete("/v1/chat/completions", buffered=True).headers["allow"]
    assert set(allowed.split(", ")) == {"OPTIONS", "POST"}


def test_a_charset_is_no_other_type(client: FlaskClient, backend: ScriptedBackend) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    response = client.post("/v1/chat/completions", data=b"[]", headers=headers, buffered=True)
    assert response.status_code == 400


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(max_body_bytes=100), id="100-bytes")])
@pytest.mark.parametrize(
    ("size", "status"), [pytest.param(100, 400, id="at-the-bound"), pytest.param(101, 413, id="past-it")]
)
def test_the_largest_body(client: FlaskClient, size: int, status: int) -> None:
    response = client.post("/v1/chat/completions", data=b"[" * size, headers=JSON, buffered=True)
    code = None if status == 400 else "request_too_large"
    assert (response.status_code, response.get_json()["error"]["code"]) == (status, code)
