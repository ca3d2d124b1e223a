"""The error tree: what can go wrong, as the status, type and code a client sees.

ProxyError
├── InvalidRequest 400            the body cannot be served as it is
│   ├── ContextTooLong            more history than the model holds
│   ├── UnknownPrevious           `previous_response_id` names nothing to go on from
│   └── PolicyViolation           refused upstream
├── InvalidKey 401
├── Forbidden 403                 not with this key, from this page, or by this name
├── NotFound 404                  no such route
│   ├── UnknownModel
│   └── UnknownResponse           or one of its items: never stored, deleted, expired, another's
├── MethodNotAllowed 405
├── BodyTimeout 408               the client did not send what it announced
├── BodyTooLarge 413
├── NotJson 415
├── RateLimited 429               upstream is throttling
│   ├── KeyLimited                the key's own limits are used up
│   ├── QuotaExceeded             the account's allowance is used up
│   └── GatewayBusy               every codex process is taken
├── ClientGone 499                nobody is left to answer
├── InternalError 500             a fault of our own
├── BackendRefused 502            codex turned a request down for good
│   ├── UpstreamUnauthorized      the gateway's own Codex login is missing or bad
│   └── InvalidToolCall           the model called a strict tool wrongly
├── StoreUnavailable 503          what was stored cannot be read or written now
├── BackendUnavailable 503        codex or its upstream broke; trying again may help
│   ├── ProcessFailed             a codex process died, or broke the protocol
│   ├── AnswerInterrupted         it broke after part of the answer was shown
│   └── GatewayStopping           this worker is shutting down
└── BackendTimeout 504
"""

from __future__ import annotations

from typing import Any, ClassVar

from app.lib.redaction import redact


class ProxyError(Exception):
    """A failure with its HTTP face; raised before the first byte, sent as `Failed` after it."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    retry_after_s: ClassVar[int | None] = None
    # Sent as `x-should-retry: false`: SDKs retry 408, 409, 429 and 5xx unasked.
    may_retry: ClassVar[bool] = True

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_at_s: float | None = None,
    ) -> None:
        # Whosever words it repeats, a client's or upstream's: no key is passed on.
        self.message = redact(message)
        super().__init__(self.message)
        self.param = param
        self.code = code or self.default_code
        #: When the cause ends, in seconds since the epoch, if upstream told.
        self.retry_at_s = retry_at_s

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(ProxyError):
    status = 400
    type = "invalid_request_error"


class ContextTooLong(InvalidRequest):
    default_code = "context_length_exceeded"


class UnknownPrevious(InvalidRequest):
    default_code = "previous_response_not_found"


class PolicyViolation(InvalidRequest):
    default_code = "content_policy_violation"


class InvalidKey(ProxyError):
    status = 401
    type = "authentication_error"
    default_code = "invalid_api_key"


class Forbidden(ProxyError):
    status = 403
    type = "invalid_request_error"
    default_code = "forbidden"
    may_retry = False


class NotFound(ProxyError):
    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class UnknownModel(NotFound):
    default_code = "model_not_found"


class UnknownResponse(NotFound):
    default_code = "response_not_found"


class MethodNotAllowed(ProxyError):
    status = 405
    type = "invalid_request_error"
    default_code = "method_not_allowed"


class BodyTimeout(ProxyError):
    status = 408
    type = "invalid_request_error"
    default_code = "request_timeout"
    may_retry = False


class BodyTooLarge(ProxyError):
    status = 413
    type = "invalid_request_error"
    default_code = "request_too_large"


class NotJson(ProxyError):
    status = 415
    type = "invalid_request_error"
    default_code = "unsupported_media_type"


class RateLimited(ProxyError):
    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"
    retry_after_s = 10


class KeyLimited(RateLimited):
    """Says when to come back."""


class QuotaExceeded(RateLimited):
    type = "insufficient_quota"
    default_code = "insufficient_quota"
    # Only the account's reset time helps; a retry in seconds would just be refused again.
    may_retry = False
    retry_after_s = 300


class GatewayBusy(RateLimited):
    default_code = "gateway_busy"
    retry_after_s = 2


class ClientGone(ProxyError):
    status = 499
    default_code = "client_closed_request"


#: All that a client is told of a fault of our own.
FAULT = "The gateway failed; its log has the details."


class InternalError(ProxyError):
    default_code = "internal_error"


class BackendRefused(ProxyError):
    status = 502
    default_code = "backend_refused"
    may_retry = False


class UpstreamUnauthorized(BackendRefused):
    default_code = "upstream_unauthorized"


class InvalidToolCall(BackendRefused):
    default_code = "invalid_tool_call"


class StoreUnavailable(ProxyError):
    status = 503
    default_code = "store_unavailable"
    retry_after_s = 2


class BackendUnavailable(ProxyError):
    status = 503
    default_code = "backend_unavailable"
    retry_after_s = 2


class ProcessFailed(BackendUnavailable):
    """Another process may do better."""


class AnswerInterrupted(BackendUnavailable):
    default_code = "answer_interrupted"


class GatewayStopping(BackendUnavailable):
    default_code = "gateway_stopping"


class BackendTimeout(ProxyError):
    status = 504
    default_code = "backend_timeout"


#: What another codex process may do better.
PROCESS_FAULTS = (ProcessFailed, BackendTimeout)
