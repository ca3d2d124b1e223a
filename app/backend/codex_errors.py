"""What codex says of a failed turn, as the errors clients get."""

from __future__ import annotations

import re
from typing import Any

import orjson

from app.backend.login import LOG_IN
from app.lib.errors import (
    BackendRefused,
    BackendUnavailable,
    ContextTooLong,
    InvalidRequest,
    PolicyViolation,
    ProxyError,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
    UpstreamUnauthorized,
)

LOGIN_ADVICE = (
    "The gateway's own Codex login is missing or no longer valid (this is not about your API key). "
    f"On the gateway's machine run {LOG_IN}."
)
ERRORS_BY_INFO: dict[str, type[ProxyError]] = {
    "usageLimitExceeded": QuotaExceeded,
    "rateLimitExceeded": RateLimited,
    "contextWindowExceeded": ContextTooLong,
    "modelNotFound": UnknownModel,
    "unauthorized": UpstreamUnauthorized,
    "badRequest": InvalidRequest,
    "serverOverloaded": BackendUnavailable,
    "internalServerError": BackendUnavailable,
    "cyberPolicy": PolicyViolation,
    "misalignmentPolicyViolation": PolicyViolation,
}
ERRORS_BY_STATUS: dict[int, type[ProxyError]] = {
    400: InvalidRequest,
    401: UpstreamUnauthorized,
    403: UpstreamUnauthorized,
    404: UnknownModel,
    413: ContextTooLong,
    429: RateLimited,
}


def build_error(message: str, info: Any, resets_at_s: float | None = None) -> ProxyError:
    """The error a client gets for codex's `codexErrorInfo`, a name or `{name: {httpStatusCode}}`."""
    kind = _find_kind(info)
    if kind is UpstreamUnauthorized:
        return UpstreamUnauthorized(LOGIN_ADVICE)
    if kind is None:
        return _build_unnamed(message)
    retry_at_s = resets_at_s if kind is QuotaExceeded else None
    return kind(strip_url(message), retry_at_s=retry_at_s)


def _find_kind(info: Any) -> type[ProxyError] | None:
    match info:
        case str(name):
            return ERRORS_BY_INFO.get(name)
        case dict() if len(info) == 1:
            [(_, details)] = info.items()
            status = details.get("httpStatusCode") if isinstance(details, dict) else None
            return ERRORS_BY_STATUS.get(status or 0, BackendUnavailable)
        case _:
            return None


def _build_unnamed(message: str) -> ProxyError:
    """`other`: an upstream 400 carries its body as the message; the rest is a broken stream or unknown."""
    match _parse_object(message):
        case {"error": {"message": str(text)} as error}:
            kind = ContextTooLong if error.get("code") == "context_length_exceeded" else InvalidRequest
            return kind(text, param=_to_text(error.get("param")), code=_to_text(error.get("code")))
        case {"detail": str(text)}:  # how ChatGPT's own backend words a 400
            return InvalidRequest(text)
        case _ if message.startswith("stream "):
            return BackendUnavailable(strip_url(message))
        case _:
            return BackendRefused(strip_url(message))


def _to_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def strip_url(message: str) -> str:
    """Codex appends the address it called; that is the operator's business."""
    return re.sub(r",? ?url: \S+", "", message)
