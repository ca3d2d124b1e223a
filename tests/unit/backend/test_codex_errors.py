"""What codex says of a failed turn, as the errors clients get."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.codex_errors import LOGIN_ADVICE, build_error, strip_url
from app.lib.errors import (
    BackendRefused,
    BackendUnavailable,
    ContextTooLong,
    InvalidRequest,
    PolicyViolation,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
    UpstreamUnauthorized,
)
from tests.support.plain import PlainError, to_plain_error

UNAUTHORIZED = PlainError(UpstreamUnauthorized, LOGIN_ADVICE)


@pytest.mark.parametrize(
    ("message", "info", "expected"),
    [
        pytest.param("m", "usageLimitExceeded", PlainError(QuotaExceeded, "m"), id="usage-limit"),
        pytest.param("m", "rateLimitExceeded", PlainError(RateLimited, "m"), id="rate-limit"),
        pytest.param("m", "contextWindowExceeded", PlainError(ContextTooLong, "m"), id="context"),
        pytest.param("m", "modelNotFound", PlainError(UnknownModel, "m"), id="model"),
        pytest.param("m", "unauthorized", UNAUTHORIZED, id="unauthorized"),
        pytest.param("m", "badRequest", PlainError(InvalidRequest, "m"), id="bad-request"),
        pytest.param("m", "serverOverloaded", PlainError(BackendUnavailable, "m"), id="overloaded"),
        pytest.param("m", "internalServerError", PlainError(BackendUnavailable, "m"), id="internal"),
        pytest.param("m", "cyberPolicy", PlainError(PolicyViolation, "m"), id="cyber"),
        pytest.param("m", "misalignmentPolicyViolation", PlainError(PolicyViolation, "m"), id="misalignment"),
        *(
            pytest.param(
                "m", {"httpConnectionFailed": {"httpStatusCode": status}}, expected, id=f"http-{status}"
            )
            for status, expected in {
                400: PlainError(InvalidRequest, "m"),
                401: UNAUTHORIZED,
                403: UNAUTHORIZED,
                404: PlainError(UnknownModel, "m"),
                413: PlainError(ContextTooLong, "m"),
                429: PlainError(RateLimited, "m"),
                500: PlainError(BackendUnavailable, "m"),
                502: PlainError(BackendUnavailable, "m"),
                None: PlainError(BackendUnavailable, "m"),
            }.items()
        ),
        pytest.param(
            "m",
            {"responseTooManyFailedAttempts": {"httpStatusCode": 429}},
            PlainError(RateLimited, "m"),
            id="too-many-attempts",
        ),
        pytest.param(
            "m", {"responseStreamDisconnected": None}, PlainError(BackendUnavailable, "m"), id="no-details"
        ),
        pytest.param(
            "stream closed before response.completed",
            "other",
            PlainError(BackendUnavailable, "stream closed before response.completed"),
            id="broken-stream",
        ),
        pytest.param("Odd.", "other", PlainError(BackendRefused, "Odd."), id="other"),
        pytest.param("Odd.", None, PlainError(BackendRefused, "Odd."), id="no-info"),
        pytest.param("Odd.", "someFutureKind", PlainError(BackendRefused, "Odd."), id="unknown-kind"),
        pytest.param("Odd.", {"a": {}, "b": {}}, PlainError(BackendRefused, "Odd."), id="two-kinds"),
        pytest.param("[1]", "other", PlainError(BackendRefused, "[1]"), id="json-but-no-object"),
        pytest.param(
            '{"error":{"message":"Bad image.","param":"input","code":"invalid_image"}}',
            "other",
            PlainError(InvalidRequest, "Bad image.", "input", "invalid_image"),
            id="upstream-400",
        ),
        pytest.param(
            '{"error":{"message":"Too long.","param":"input","code":"context_length_exceeded"}}',
            "other",
            PlainError(ContextTooLong, "Too long.", "input"),
            id="upstream-context",
        ),
        pytest.param(
            '{"detail":"This model is not supported with this account."}',
            "other",
            PlainError(InvalidRequest, "This model is not supported with this account."),
            id="upstream-400-with-detail",
        ),
        pytest.param(
            "unexpected status 503: busy, url: http://10.0.0.1:8000/v1/responses",
            {"responseStreamFailed": {"httpStatusCode": 503}},
            PlainError(BackendUnavailable, "unexpected status 503: busy"),
            id="the-url-is-stripped",
        ),
    ],
)
def test_build_error(message: str, info: Any, expected: PlainError) -> None:
    assert to_plain_error(build_error(message, info)) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("busy, url: https://a.b/c?d=e", "busy", id="at-the-end"),
        pytest.param("busy, url: https://a.b/c, request id: 1", "busy request id: 1", id="in-the-middle"),
        pytest.param("see https://a.b/c", "see https://a.b/c", id="an-address-that-is-no-call"),
        pytest.param("busy", "busy", id="none"),
    ],
)
def test_strip_url(message: str, expected: str) -> None:
    assert strip_url(message) == expected
