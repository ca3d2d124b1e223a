"""Codex's notifications as backend events; the only place that knows their spelling."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from app.backend.jsonrpc import Notification
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
from app.lib.events import (
    BackendEvent,
    FinishReason,
    MessageDone,
    ModelActive,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    TextDelta,
    TurnEnded,
    TurnFailed,
    Usage,
    UsageReported,
)
from app.lib.tool_call_shapes import is_echo

Params = dict[str, Any]

LOGIN_ADVICE = (
    "The gateway's own Codex login is missing or no longer valid (this is not about your API key). "
    "On the gateway's machine run `make login`."
)
# Part of a longer message, at times: "stream disconnected before completion: Incomplete response …".
INCOMPLETE = {
    "Incomplete response returned, reason: max_output_tokens": FinishReason.LENGTH,
    "Incomplete response returned, reason: content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _Thread:
    """One choice's thread, and its tokens: as told response by response, and as a whole."""

    choice: int
    reported: Usage = field(default_factory=Usage)
    total: Usage = field(default_factory=Usage)


class NotificationReader:
    """Reads the notifications of one request's threads; what belongs to other threads is dropped."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._resets_at_s: float | None = None

    def add_thread(self, thread_id: str, choice: int) -> None:
        self._threads[thread_id] = _Thread(choice)

    def read(self, notification: Notification) -> list[BackendEvent]:
        try:
            return self._read(notification)
        except (AttributeError, KeyError, TypeError) as error:
            # Another release of codex: better an error that says so than an answer with holes.
            raise BackendRefused(f"Codex sent {notification.method} in an unknown shape.") from error

    def _read(self, notification: Notification) -> list[BackendEvent]:
        if notification.method == "account/rateLimits/updated":
            self._note_limits(notification.params)
            return []
        thread = self._threads.get(notification.params.get("threadId", ""))
        if thread is None:
            return []
        match notification.method:
            case "thread/tokenUsage/updated":
                thread.total = build_usage(notification.params.get("tokenUsage", {}).get("total"))
                return []
            case "turn/completed":
                return self._end_turn(thread, notification.params)
            case method:
                return self._read_event(thread, method, notification.params)

    def _read_event(self, thread: _Thread, method: str, params: Params) -> list[BackendEvent]:
        read = READERS.get(method)
        event = read(thread.choice, params) if read else None
        if isinstance(event, UsageReported):
            thread.reported += event.usage
        return [event] if event else []

    def _end_turn(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        end = read_turn_completed(thread.choice, params, self._resets_at_s)
        if isinstance(end, TurnEnded) and end.reason is not FinishReason.STOP:
            # A response that was cut short is counted in the thread's total only, if at all.
            untold = thread.total - thread.reported
            return [UsageReported(thread.choice, untold), end] if untold.input_tokens > 0 else [end]
        return [end]

    def _note_limits(self, params: Params) -> None:
        """The only place where codex tells when a used-up allowance comes back."""
        match params:
            case {"rateLimits": {"primary": {"resetsAt": int() | float() as at}}}:
                self._resets_at_s = float(at)


def find_ended_thread(notification: Notification) -> str | None:
    """The thread whose turn this notification ends."""
    if notification.method != "turn/completed":
        return None
    thread_id = notification.params.get("threadId")
    return thread_id if isinstance(thread_id, str) else None


def read_item_started(choice: int, params: Params) -> BackendEvent | None:
    # The user's own message is echoed as an item too; it says nothing about the model.
    return None if params.get("item", {}).get("type") == "userMessage" else ModelActive(choice)


def read_text_delta(choice: int, params: Params) -> BackendEvent:
    return TextDelta(choice, *read_delta(params))


def read_summary_delta(choice: int, params: Params) -> BackendEvent:
    item_id, text = read_delta(params)
    return ReasoningDelta(choice, item_id, params.get("summaryIndex", 0), text)


def read_delta(params: Params) -> tuple[str, str]:
    """The item a delta belongs to, and its text."""
    item_id, text = params["itemId"], params["delta"]
    if not (isinstance(item_id, str) and isinstance(text, str)):
        raise TypeError(params)
    return item_id, text


def read_raw_item(choice: int, params: Params) -> BackendEvent | None:
    match params.get("item"):
        case _ if is_echo(params):
            return None
        case {"type": "message", "role": "assistant", "id": str(id_), "content": list(parts)}:
            return MessageDone(choice, id_, "".join(part.get("text", "") for part in parts))
        case {"type": "reasoning", "id": str(id_), "summary": list(parts)}:
            return ReasoningDone(choice, id_, tuple(part.get("text", "") for part in parts))
        case _:
            return None


def read_usage(choice: int, params: Params) -> BackendEvent:
    return UsageReported(choice, build_usage(params.get("usage")))


def build_usage(raw: Params | None) -> Usage:
    raw = raw or {}
    return Usage(
        raw.get("inputTokens", 0),
        raw.get("cachedInputTokens", 0),
        raw.get("outputTokens", 0),
        raw.get("reasoningOutputTokens", 0),
    )


def read_error(choice: int, params: Params) -> BackendEvent | None:
    # A final error is told again, with its turn, by `turn/completed`.
    if not params.get("willRetry"):
        return None
    return Retrying(choice, params.get("error", {}).get("message", ""))


def read_turn_completed(choice: int, params: Params, resets_at_s: float | None = None) -> BackendEvent:
    turn = params.get("turn", {})
    if turn.get("status") == "completed":
        return TurnEnded(choice, FinishReason.STOP)
    if turn.get("status") == "interrupted":
        return TurnFailed(BackendUnavailable("The turn was interrupted."))
    error = turn.get("error") or {}
    message = error.get("message") or "Codex failed without saying why."
    for marker, reason in INCOMPLETE.items():
        if marker in message:
            return TurnEnded(choice, reason)
    return TurnFailed(build_error(message, error.get("codexErrorInfo"), resets_at_s))


READERS: dict[str, Callable[[int, Params], BackendEvent | None]] = {
    "item/started": read_item_started,
    "item/agentMessage/delta": read_text_delta,
    "item/reasoning/summaryTextDelta": read_summary_delta,
    "rawResponseItem/completed": read_raw_item,
    "rawResponse/completed": read_usage,
    "error": read_error,
}

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
