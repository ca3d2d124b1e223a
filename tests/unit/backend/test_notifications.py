"""Codex's notifications, recorded and made up, as backend events."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.jsonrpc import Notification
from app.backend.notifications import LOGIN_ADVICE, READERS, NotificationReader, build_error, strip_url
from app.lib.errors import (
    AnswerInterrupted,
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
from app.lib.events import (
    Began,
    Completed,
    Finished,
    FinishReason,
    MessageDone,
    ModelActive,
    Reasoning,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    Text,
    TextDelta,
    TurnEnded,
    TurnEvent,
    Usage,
    UsageReported,
)
from app.lib.turn import TurnCore
from tests.support.plain import PlainError, to_plain, to_plain_error
from tests.support.transcripts import NAMES, Transcript

STOP, LENGTH, FILTER = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER
USAGE = Usage(120, 100, 20, 5)
UNAUTHORIZED = PlainError(UpstreamUnauthorized, LOGIN_ADVICE)
#: What the reader keeps for itself, besides the table.
READ_ELSEWHERE = ("account/rateLimits/updated", "thread/tokenUsage/updated", "turn/completed")


def replay(name: str) -> list[TurnEvent | PlainError]:
    transcript = Transcript(name)
    reader = NotificationReader()
    for choice, thread_id in enumerate(transcript.thread_ids()):
        reader.add_thread(thread_id, choice)
    core = TurnCore(len(transcript.thread_ids()))
    out = [event for each in transcript.notifications() for event in core.feed_all(reader.read(each))]
    return to_plain(out + core.finish())


REPLAYS = {
    "text": [
        Began(0),
        Text(0, "msg_0", "echo: "),
        Text(0, "msg_0", "Say hi"),
        Finished(0, STOP),
        Completed(USAGE),
    ],
    "reasoning-text": [
        Began(0),
        Reasoning(0, "rs_0", 0, "Consider"),
        Reasoning(0, "rs_0", 0, "ing the "),
        Reasoning(0, "rs_0", 0, "question."),
        Text(0, "msg_1", "The "),
        Text(0, "msg_1", "answer "),
        Text(0, "msg_1", "is 4"),
        Text(0, "msg_1", "2."),
        Finished(0, STOP),
        Completed(USAGE),
    ],
    "history-injected-empty-turn": [
        Began(0),
        Text(0, "msg_0", "Tool said: "),
        Text(0, "msg_0", "3 notes found"),
        Finished(0, STOP),
        Completed(USAGE),
    ],
    "inject-rich-history": [
        Began(0),
        Reasoning(0, "rs_9", 0, "Wrap "),
        Reasoning(0, "rs_9", 0, "up."),
        Text(0, "msg_9", "It was "),
        Text(0, "msg_9", "sunny."),
        Finished(0, STOP),
        Completed(Usage(400, 320, 25, 9)),
    ],
    "two-choices": [
        Began(1),
        Began(0),
        Text(1, "msg_0", "two "),
        Text(0, "msg_0", "one "),
        Text(1, "msg_0", "b"),
        Text(0, "msg_0", "a"),
        Finished(1, STOP),
        Finished(0, STOP),
        Completed(Usage(240, 200, 40, 10)),
    ],
    "interrupt-mid-text": [
        Began(0),
        *(Text(0, "msg_0", f"w{index} ") for index in range(11)),
        PlainError(BackendUnavailable, "The turn was interrupted."),
    ],
    "retry-repeats-text": [
        Began(0),
        Text(0, "msg_1", "Hel"),
        Text(0, "msg_1", "lo "),
        PlainError(AnswerInterrupted, "The connection to the model broke in the middle of the answer."),
    ],
    "reset-mid-stream": [
        Began(0),
        Text(0, "m1", "part "),
        Text(0, "m1", "ial "),
        PlainError(
            BackendUnavailable,
            "stream disconnected before completion: "
            "Transport error: network error: error decoding response body",
        ),
    ],
    "connection-refused": [PlainError(BackendUnavailable, "Connection failed: error sending request")],
    "error-context-window": [
        PlainError(
            ContextTooLong,
            "Codex ran out of room in the model's context window. "
            "Start a new thread or clear earlier history before retrying.",
        )
    ],
    "error-http-400": [PlainError(InvalidRequest, "Unsupported parameter", code="unsupported")],
    "error-http-401": [UNAUTHORIZED],
    "error-http-404": [PlainError(UnknownModel, "unexpected status 404 Not Found: model not found")],
    "error-http-429": [PlainError(RateLimited, "exceeded retry limit, last status: 429 Too Many Requests")],
    "error-http-500": [
        PlainError(
            BackendUnavailable,
            "We’re currently experiencing high demand, which may cause temporary errors.",  # noqa: RUF001
        )
    ],
    "error-http-503": [PlainError(BackendUnavailable, "unexpected status 503 Service Unavailable: busy")],
    "error-incomplete-max-output": [
        Began(0),
        Text(0, "msg_0", "partial answ"),
        Finished(0, LENGTH),
        Completed(Usage()),
    ],
    "error-rate-limit-in-stream": [
        Began(0),
        Text(0, "msg_0", "part"),
        PlainError(RateLimited, "rate limit exceeded: Rate limit reached. Please try again in 11.054s."),
    ],
    "error-stream-dropped": [
        Began(0),
        Text(0, "msg_0", "partial"),
        PlainError(
            BackendUnavailable,
            "stream disconnected before completion: stream closed before response.completed",
        ),
    ],
    "error-usage-limit": [
        PlainError(
            QuotaExceeded,
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), "  # noqa: RUF001
            "visit https://chatgpt.com/settings/usage to purchase more credits or try again later.",
        )
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_turns(name: str) -> None:
    """A recording without a row here fails: what it should mean must be written down."""
    assert replay(name) == REPLAYS[name]


def test_every_notification_we_read_was_recorded() -> None:
    recorded = {each.method for name in NAMES for each in Transcript(name).notifications()}
    assert {*READERS, *READ_ELSEWHERE} - recorded == set()


def read(*notifications: tuple[str, dict[str, Any]]) -> list[Any]:
    reader = NotificationReader()
    reader.add_thread("t0", 0)
    reader.add_thread("t1", 1)
    events = [
        event
        for method, params in notifications
        for event in reader.read(Notification(method, {"threadId": "t1", **params}))
    ]
    return to_plain(events)


def raw(item: dict[str, Any], turn_id: str = "turn_1") -> tuple[str, dict[str, Any]]:
    return "rawResponseItem/completed", {"turnId": turn_id, "item": item}


def completed(status: str, error: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    return "turn/completed", {"turn": {"id": "turn_1", "status": status, "error": error}}


ANSWER = {
    "type": "message",
    "role": "assistant",
    "id": "m",
    "content": [{"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo"}],
}
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]}


@pytest.mark.parametrize(
    ("notification", "expected"),
    [
        pytest.param(("item/started", {"item": {"type": "reasoning"}}), [ModelActive(1)], id="item-started"),
        pytest.param(("item/started", {"item": {"type": "userMessage"}}), [], id="the-user's-own-message"),
        pytest.param(
            ("item/agentMessage/delta", {"itemId": "m", "delta": "x"}), [TextDelta(1, "m", "x")], id="delta"
        ),
        pytest.param(
            ("item/reasoning/summaryTextDelta", {"itemId": "r", "summaryIndex": 2, "delta": "x"}),
            [ReasoningDelta(1, "r", 2, "x")],
            id="summary-delta",
        ),
        pytest.param(
            ("item/reasoning/summaryTextDelta", {"itemId": "r", "delta": "x"}),
            [ReasoningDelta(1, "r", 0, "x")],
            id="summary-delta-without-index",
        ),
        pytest.param(raw(ANSWER), [MessageDone(1, "m", "Hello")], id="whole-message"),
        pytest.param(raw(THOUGHT), [ReasoningDone(1, "r", ("Hm.",))], id="whole-reasoning"),
        pytest.param(raw(ANSWER, "auto-compact-0"), [], id="injected-message-echoed"),
        pytest.param(raw(THOUGHT, "auto-compact-0"), [], id="injected-reasoning-echoed"),
        pytest.param(raw(ANSWER | {"role": "user"}), [], id="user-message-echoed"),
        pytest.param(raw({"type": "function_call", "id": "f"}), [], id="another-item"),
        pytest.param(("rawResponseItem/completed", {}), [], id="no-item"),
        pytest.param(
            (
                "rawResponse/completed",
                {
                    "usage": {
                        "inputTokens": 4,
                        "cachedInputTokens": 3,
                        "outputTokens": 2,
                        "reasoningOutputTokens": 1,
                        "totalTokens": 6,
                    }
                },
            ),
            [UsageReported(1, Usage(4, 3, 2, 1))],
            id="usage",
        ),
        pytest.param(("rawResponse/completed", {"usage": None}), [UsageReported(1, Usage())], id="no-usage"),
        pytest.param(
            ("error", {"error": {"message": "Reconnecting... 1/5"}, "willRetry": True}),
            [Retrying(1, "Reconnecting... 1/5")],
            id="will-retry",
        ),
        pytest.param(
            ("error", {"error": {"message": "no"}, "willRetry": False}), [], id="a-final-error-is-told-later"
        ),
        pytest.param(completed("completed"), [TurnEnded(1, STOP)], id="completed"),
        pytest.param(
            completed("interrupted"),
            [PlainError(BackendUnavailable, "The turn was interrupted.")],
            id="interrupted",
        ),
        pytest.param(
            completed("failed"),
            [PlainError(BackendRefused, "Codex failed without saying why.")],
            id="failed-without-error",
        ),
        pytest.param(
            completed("failed", {"message": "Incomplete response returned, reason: content_filter"}),
            [TurnEnded(1, FILTER)],
            id="content-filter",
        ),
        pytest.param(
            completed("failed", {"message": "Incomplete response returned, reason: max_output_tokens"}),
            [TurnEnded(1, LENGTH)],
            id="max-output",
        ),
        pytest.param(
            completed(
                "failed",
                {
                    "message": "stream disconnected before completion: "
                    "Incomplete response returned, reason: max_output_tokens"
                },
            ),
            [TurnEnded(1, LENGTH)],
            id="max-output-in-a-longer-message",
        ),
        pytest.param(("thread/tokenUsage/updated", {"tokenUsage": {}}), [], id="a-total-is-only-noted"),
        pytest.param(("some/future/thing", {}), [], id="unknown"),
    ],
)
def test_one_notification(notification: tuple[str, dict[str, Any]], expected: list[Any]) -> None:
    assert read(notification) == expected


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"threadId": "t9"}, id="another-thread"),
        pytest.param({}, id="no-thread"),
        pytest.param({"threadId": None}, id="null-thread"),
    ],
)
def test_what_belongs_to_others_is_dropped(params: dict[str, Any]) -> None:
    """After an interrupt dozens of events of the old thread still arrive."""
    reader = NotificationReader()
    reader.add_thread("t0", 0)
    told = {"itemId": "m", "delta": "x", "item": ANSWER, "turn": {"status": "completed"}, **params}
    methods = [*READERS, *READ_ELSEWHERE]
    assert [event for method in methods for event in reader.read(Notification(method, told))] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param("item/agentMessage/delta", {"itemId": "m"}, id="no-delta"),
        pytest.param("item/started", {"item": None}, id="no-item"),
        pytest.param("turn/completed", {"turn": "completed"}, id="a-turn-that-is-text"),
        pytest.param("thread/tokenUsage/updated", {"tokenUsage": None}, id="no-tokens"),
        pytest.param("error", {"error": None, "willRetry": True}, id="no-error"),
        pytest.param("item/started", {"threadId": ["t1"]}, id="a-thread-that-is-a-list"),
    ],
)
def test_an_unknown_shape_is_no_answer_with_holes(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(BackendRefused, match=f"^Codex sent {method} in an unknown shape\\.$"):
        read((method, params))


def response_usage(input_tokens: int, output_tokens: int) -> tuple[str, dict[str, Any]]:
    return "rawResponse/completed", {"usage": {"inputTokens": input_tokens, "outputTokens": output_tokens}}


def thread_usage(input_tokens: int, output_tokens: int) -> tuple[str, dict[str, Any]]:
    total = {"inputTokens": input_tokens, "outputTokens": output_tokens}
    return "thread/tokenUsage/updated", {"tokenUsage": {"last": {}, "total": total}}


CUT_SHORT = completed("failed", {"message": "Incomplete response returned, reason: max_output_tokens"})


@pytest.mark.parametrize(
    ("notifications", "expected"),
    [
        pytest.param([CUT_SHORT], Usage(), id="never-told"),
        pytest.param([thread_usage(100, 7), CUT_SHORT], Usage(100, 0, 7), id="only-in-the-total"),
        pytest.param(
            [response_usage(50, 5), thread_usage(50, 5), thread_usage(150, 12), CUT_SHORT],
            Usage(150, 0, 12),
            id="a-whole-response-before-the-cut-one",
        ),
        pytest.param(
            [response_usage(50, 5), thread_usage(50, 5), completed("completed")],
            Usage(50, 0, 5),
            id="a-whole-turn-is-counted-once",
        ),
        pytest.param(
            [response_usage(50, 5), CUT_SHORT],
            Usage(50, 0, 5),
            id="what-was-told-is-never-taken-back",
        ),
    ],
)
def test_usage_of_a_turn(notifications: list[tuple[str, dict[str, Any]]], expected: Usage) -> None:
    reports = [event.usage for event in read(*notifications) if isinstance(event, UsageReported)]
    assert sum(reports, Usage()) == expected


USED_UP = completed("failed", {"message": "Used up.", "codexErrorInfo": "usageLimitExceeded"})
SLOW = completed("failed", {"message": "Slow down.", "codexErrorInfo": "rateLimitExceeded"})


def limits(primary: Any) -> tuple[str, dict[str, Any]]:
    return "account/rateLimits/updated", {"rateLimits": {"primary": primary}}


@pytest.mark.parametrize(
    ("notifications", "expected"),
    [
        pytest.param([USED_UP], PlainError(QuotaExceeded, "Used up."), id="never-told"),
        pytest.param(
            [limits({"usedPercent": 100, "resetsAt": 1800000000}), USED_UP],
            PlainError(QuotaExceeded, "Used up.", retry_at_s=1800000000.0),
            id="told",
        ),
        pytest.param(
            [limits({"resetsAt": 1800000000}), limits({"resetsAt": 1800000060.5}), limits(None), USED_UP],
            PlainError(QuotaExceeded, "Used up.", retry_at_s=1800000060.5),
            id="the-last-number-counts",
        ),
        pytest.param([limits({"resetsAt": None}), USED_UP], PlainError(QuotaExceeded, "Used up."), id="null"),
        pytest.param(
            [limits({"resetsAt": 1800000000}), SLOW],
            PlainError(RateLimited, "Slow down."),
            id="only-for-quota",
        ),
    ],
)
def test_when_an_allowance_comes_back(
    notifications: list[tuple[str, dict[str, Any]]], expected: PlainError
) -> None:
    assert read(*notifications) == [expected]


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
