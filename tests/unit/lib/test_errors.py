"""The error tree: each class's face, and its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from app.lib import errors
from app.lib.errors import ProxyError

INVALID, SERVER = "invalid_request_error", "server_error"
# name: status, type, code, Retry-After, whether SDKs may retry
TREE = {
    "ProxyError": (500, SERVER, None, None, True),
    "InvalidRequest": (400, INVALID, None, None, True),
    "ContextTooLong": (400, INVALID, "context_length_exceeded", None, True),
    "UnknownPrevious": (400, INVALID, "previous_response_not_found", None, True),
    "PolicyViolation": (400, INVALID, "content_policy_violation", None, True),
    "InvalidKey": (401, "authentication_error", "invalid_api_key", None, True),
    "Forbidden": (403, "invalid_request_error", "forbidden", None, False),
    "NotFound": (404, INVALID, "not_found", None, True),
    "UnknownModel": (404, INVALID, "model_not_found", None, True),
    "UnknownResponse": (404, INVALID, "response_not_found", None, True),
    "MethodNotAllowed": (405, INVALID, "method_not_allowed", None, True),
    "BodyTimeout": (408, INVALID, "request_timeout", None, False),
    "BodyTooLarge": (413, INVALID, "request_too_large", None, True),
    "NotJson": (415, INVALID, "unsupported_media_type", None, True),
    "RateLimited": (429, "rate_limit_error", "rate_limit_exceeded", 10, True),
    "KeyLimited": (429, "rate_limit_error", "rate_limit_exceeded", 10, True),
    "QuotaExceeded": (429, "insufficient_quota", "insufficient_quota", 300, False),
    "GatewayBusy": (429, "rate_limit_error", "gateway_busy", 2, True),
    "ClientGone": (499, SERVER, "client_closed_request", None, True),
    "InternalError": (500, SERVER, "internal_error", None, True),
    "BackendRefused": (502, SERVER, "backend_refused", None, False),
    "UpstreamUnauthorized": (502, SERVER, "upstream_unauthorized", None, False),
    "InvalidToolCall": (502, SERVER, "invalid_tool_call", None, False),
    "StoreUnavailable": (503, SERVER, "store_unavailable", 2, True),
    "BackendUnavailable": (503, SERVER, "backend_unavailable", 2, True),
    "ProcessFailed": (503, SERVER, "backend_unavailable", 2, True),
    "AnswerInterrupted": (503, SERVER, "answer_interrupted", 2, True),
    "GatewayStopping": (503, SERVER, "gateway_stopping", 2, True),
    "BackendTimeout": (504, SERVER, "backend_timeout", None, True),
}


def walk(kind: type[ProxyError]) -> Iterator[type[ProxyError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from walk(child)


def test_every_class_has_its_face() -> None:
    faces = {
        kind.__name__: (kind.status, kind.type, kind.default_code, kind.retry_after_s, kind.may_retry)
        for kind in walk(ProxyError)
    }
    assert faces == TREE


def test_the_drawing_is_the_tree() -> None:
    """Each line's name, its parent by indentation, and the status where the branch's begins."""
    drawn: list[tuple[str, str | None, int]] = []
    above: list[tuple[str, int]] = []
    for line in (errors.__doc__ or "").splitlines()[2:]:
        match = re.match(r"(?P<lead>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: (?P<status>\d+))?", line)
        assert match, line
        depth = len(match["lead"]) // 4
        parent, inherited = above[depth - 1] if depth else (None, 500)
        status = int(match["status"] or inherited)
        above[depth:] = [(match["name"], status)]
        drawn.append((match["name"], parent, status))
    real = [
        (kind.__name__, kind.__base__.__name__ if kind is not ProxyError else None, kind.status)
        for kind in walk(ProxyError)
    ]
    assert drawn == real


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            errors.InvalidRequest("n: too many.", param="n"),
            {"message": "n: too many.", "type": INVALID, "param": "n", "code": None},
            id="param",
        ),
        pytest.param(
            errors.UnknownModel("No such model."),
            {"message": "No such model.", "type": INVALID, "param": None, "code": "model_not_found"},
            id="the-class-has-a-code",
        ),
        pytest.param(
            errors.InvalidRequest("Bad.", code="unsupported"),
            {"message": "Bad.", "type": INVALID, "param": None, "code": "unsupported"},
            id="upstream-has-a-code",
        ),
    ],
)
def test_to_dict(error: ProxyError, expected: dict[str, str | None]) -> None:
    assert (error.to_dict(), str(error)) == ({"error": expected}, expected["message"])
