"""Codex's notifications, recorded and made up, as backend events."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.codex_errors import LOGIN_ADVICE
from app.backend.jsonrpc import Notification
from app.backend.notifications import LIMITS, READERS, NotificationReader
from app.backend.tool_names import ToolNames
from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import (
    AnswerInterrupted,
    BackendRefused,
    BackendUnavailable,
    ContextTooLong,
    InvalidRequest,
    QuotaExceeded,
    RateLimited,
    UnknownModel,
    UpstreamUnauthorized,
)
from app.lib.events import (
    BackendEvent,
    Began,
    CallComing,
    CallRejected,
    Completed,
    Finished,
    FinishReason,
    LimitsTold,
    MessageDone,
    ModelActive,
    Reasoning,
    ReasoningDelta,
    ReasoningDone,
    ReasoningEnded,
    ResponseDone,
    Retrying,
    SearchAction,
    SearchDone,
    Searched,
    SearchKind,
    Text,
    TextDelta,
    ToolSignal,
    TurnEnded,
    TurnEvent,
    TurnFailed,
)
from app.lib.tool_registry import ToolSpec
from app.lib.turn import TurnCore
from app.lib.usage import Usage
from tests.support.plain import PlainError, to_plain
from tests.support.transcripts import NAMES, Transcript

STOP, LENGTH, FILTER = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER
USAGE = Usage(120, 100, 20, 5)
UNAUTHORIZED = PlainError(UpstreamUnauthorized, LOGIN_ADVICE)


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
        ReasoningEnded(0, "rs_0", "ZW5jcnlwdGVk"),
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
        ReasoningEnded(0, "rs_9", "ENC"),
        Text(0, "msg_9", "It was "),
        Text(0, "msg_9", "sunny."),
        Finished(0, STOP),
        Completed(Usage(400, 320, 25, 9)),
    ],
    "web-search": [
        Began(0),
        Searched(0, "ws_1", SearchAction(SearchKind.SEARCH, "weather paris", ("weather paris",))),
        Searched(0, "ws_2", SearchAction(SearchKind.OPEN_PAGE, url="https://example.com/a")),
        Searched(0, "ws_3", SearchAction(SearchKind.FIND_IN_PAGE, url="https://example.com/a", pattern="x")),
        Text(0, "msg_1", "Sunny"),
        Finished(0, STOP),
        Completed(Usage(100, 0, 20, 5)),
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
    assert {*READERS, LIMITS} - recorded == set()


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
        pytest.param(
            raw(THOUGHT | {"encrypted_content": "gAAA"}),
            [ReasoningDone(1, "r", ("Hm.",), "gAAA")],
            id="encrypted-reasoning",
        ),
        pytest.param(
            raw({"type": "web_search_call", "id": "ws", "action": {"type": "open_page", "url": "u"}}),
            [SearchDone(1, "ws", SearchAction(SearchKind.OPEN_PAGE, url="u"))],
            id="a-web-search",
        ),
        pytest.param(
            raw({"type": "web_search_call", "id": "ws", "action": {"type": "screenshot", "query": None}}),
            [SearchDone(1, "ws", SearchAction(SearchKind.SEARCH))],
            id="another-thing-done-on-the-web",
        ),
        pytest.param(raw({"type": "web_search_call", "id": "ws"}), [], id="a-web-search-of-nothing"),
        pytest.param(raw(ANSWER, "auto-compact-0"), [], id="injected-message-echoed"),
        pytest.param(raw(THOUGHT, "auto-compact-0"), [], id="injected-reasoning-echoed"),
        pytest.param(raw(ANSWER | {"role": "user"}), [], id="user-message-echoed"),
        pytest.param(raw({"type": "web_search_call", "id": "w"}), [], id="another-item"),
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
            [ResponseDone(1, Usage(4, 3, 2, 1))],
            id="usage",
        ),
        pytest.param(("rawResponse/completed", {"usage": None}), [ResponseDone(1, Usage())], id="no-usage"),
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


def delta(thread_id: Any, item_id: Any, text: Any) -> dict[str, Any]:
    return {"threadId": thread_id, "itemId": item_id, "delta": text}


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([delta("t0", "m", "a")], [TextDelta(0, "m", "a", ("a",))], id="one"),
        pytest.param(
            [delta("t0", "m", "a"), delta("t0", "m", ""), delta("t0", "m", "b")],
            [TextDelta(0, "m", "ab", ("a", "b"))],
            id="an-item's",
        ),
        pytest.param(
            [delta("t0", "m", "a"), delta("t0", "n", "b"), delta("t1", "n", "c"), delta("t0", "n", "d")],
            [
                TextDelta(0, "m", "a", ("a",)),
                TextDelta(0, "n", "b", ("b",)),
                TextDelta(1, "n", "c", ("c",)),
                TextDelta(0, "n", "d", ("d",)),
            ],
            id="by-turns",
        ),
        pytest.param(
            [delta("t9", None, None), delta("t0", "m", "a")],
            [TextDelta(0, "m", "a", ("a",))],
            id="another-thread's",
        ),
        pytest.param(
            [{}, delta("t0", "m", "a")], [TextDelta(0, "m", "a")], id="one-without-a-thread-among-them"
        ),
    ],
)
def test_deltas_that_came_at_once(deltas: list[dict[str, Any]], expected: list[Any]) -> None:
    reader = NotificationReader()
    reader.add_thread("t0", 0)
    reader.add_thread("t1", 1)
    assert reader.read_text(deltas) == expected


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(delta("t0", 1, "a"), id="item"),
        pytest.param(delta("t0", "m", None), id="text"),
        pytest.param({"threadId": "t0", "itemId": "m"}, id="no-text"),
    ],
)
def test_an_odd_delta_among_others_is_no_answer_with_holes(odd: dict[str, Any]) -> None:
    reader = NotificationReader()
    reader.add_thread("t0", 0)
    with pytest.raises(BackendRefused):
        reader.read_text([delta("t0", "m", "a"), odd])


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
    methods = [*READERS, LIMITS]
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
        pytest.param(*raw({"type": "function_call", "name": "f"}), id="a-call-without-arguments"),
        pytest.param(
            *raw({"type": "function_call", "name": "f", "call_id": "c", "arguments": {}}),
            id="a-call-whose-arguments-are-no-text",
        ),
        pytest.param(
            "thread/tokenUsage/updated",
            {"tokenUsage": {"total": {"inputTokens": []}}},
            id="tokens-that-are-no-number",
        ),
        pytest.param("rawResponse/completed", {"usage": {"outputTokens": 1.5}}, id="half-a-token"),
        pytest.param(
            "item/reasoning/summaryTextDelta",
            {"itemId": "r", "delta": "x", "summaryIndex": []},
            id="a-part-without-a-number",
        ),
        pytest.param(
            *raw({"type": "reasoning", "id": "r", "summary": [{"text": ["x"]}]}),
            id="a-summary-that-is-no-text",
        ),
        pytest.param(
            *raw({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": {}}),
            id="a-secret-that-is-no-text",
        ),
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
    reports = [event.usage for event in read(*notifications) if isinstance(event, ResponseDone)]
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
        pytest.param(
            [
                (
                    "account/rateLimits/updated",
                    {
                        "rateLimits": {
                            "primary": {"usedPercent": 20, "resetsAt": 1800000000},
                            "secondary": {"usedPercent": 100, "resetsAt": 1800600000},
                        }
                    },
                ),
                USED_UP,
            ],
            PlainError(QuotaExceeded, "Used up.", retry_at_s=1800600000),
            id="of-the-window-that-is-full",
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
    assert [event for event in read(*notifications) if not isinstance(event, LimitsTold)] == [expected]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([{"primary": None, "secondary": None, "planType": None}], [], id="nothing"),
        pytest.param([{}], [], id="not-even-that"),
        pytest.param(
            [
                {
                    "primary": {"usedPercent": 42, "windowDurationMins": 300, "resetsAt": 1800000000},
                    "secondary": {"usedPercent": 7, "windowDurationMins": 10080, "resetsAt": 1800600000},
                    "planType": "plus",
                }
            ],
            [
                LimitsTold(
                    AccountLimits("plus", LimitWindow(42, 300, 1800000000), LimitWindow(7, 10080, 1800600000))
                )
            ],
            id="all-of-it",
        ),
        pytest.param(
            [{"primary": {"usedPercent": 1}, "planType": "pro"}, {"secondary": {"usedPercent": 2}}],
            [
                LimitsTold(AccountLimits("pro", LimitWindow(1))),
                LimitsTold(AccountLimits("pro", LimitWindow(1), LimitWindow(2))),
            ],
            id="what-was-told-stays",
        ),
        *(
            pytest.param(
                [{"primary": {"usedPercent": 1, key: odd}, "planType": ["pro"]}], [], id=f"odd-{key}-{odd}"
            )
            for key in ("usedPercent", "windowDurationMins", "resetsAt")
            for odd in ("1", [], True, float("inf"))
        ),
    ],
)
def test_account_limits(told: list[dict[str, Any]], expected: list[LimitsTold]) -> None:
    assert read(*(("account/rateLimits/updated", {"rateLimits": each}) for each in told)) == expected


def signal(name: str, arguments: str, call_id: str = "c1", choice: int = 1) -> ToolSignal:
    payload = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return ToolSignal(choice, payload)


def called(name: str, arguments: str, call_id: str = "c1", **more: Any) -> tuple[str, dict[str, Any]]:
    item = {"type": "function_call", "id": "fc_1", "name": name, "arguments": arguments, "call_id": call_id}
    return raw(item | more)


SPECS = [ToolSpec("f"), ToolSpec("my.tool"), ToolSpec("exec_command")]
DONE = ("rawResponse/completed", {"usage": {"inputTokens": 4}})
RETRYING = ("error", {"error": {"message": "Reconnecting... 1/5"}, "willRetry": True})
CALL_CASES = [
    pytest.param([called("f", '{"a": 1}')], [], id="nothing-before-the-response-is-complete"),
    pytest.param(
        [called("f", '{"a": 1}'), DONE],
        [signal("f", '{"a": 1}'), ResponseDone(1, Usage(4))],
        id="then-the-call-as-it-was-written",
    ),
    pytest.param(
        [called("f", "{}", "c1"), called("f", "[]", "c2"), called("f", "{}", "c3"), DONE],
        [
            signal("f", "{}", "c1"),
            signal("f", "[]", "c2"),
            signal("f", "{}", "c3"),
            ResponseDone(1, Usage(4)),
        ],
        id="a-batch-in-its-order",
    ),
    pytest.param(
        [called("f", "{}"), DONE, DONE],
        [signal("f", "{}"), ResponseDone(1, Usage(4)), ResponseDone(1, Usage(4))],
        id="told-once",
    ),
    pytest.param(
        [called(ToolNames(SPECS).to_codex("my.tool"), "{}"), DONE],
        [signal("my.tool", "{}"), ResponseDone(1, Usage(4))],
        id="the-client's-own-name",
    ),
    pytest.param(
        [called("nope", "{}", "c1"), called("f", "{}", "c2"), DONE],
        [CallRejected(1), signal("f", "{}", "c2"), ResponseDone(1, Usage(4))],
        id="no-such-tool",
    ),
    pytest.param(
        [called("exec_command", "{}"), DONE],
        [CallRejected(1), ResponseDone(1, Usage(4))],
        id="a-name-codex-knows-under-another",
    ),
    pytest.param(
        [called("f", "{}", namespace="n"), DONE],
        [CallRejected(1), ResponseDone(1, Usage(4))],
        id="a-tool-of-another-namespace",
    ),
    pytest.param(
        [called("f", "{}", namespace=None), DONE],
        [signal("f", "{}"), ResponseDone(1, Usage(4))],
        id="of-no-namespace",
    ),
    pytest.param(
        [called("f", '{"a":'), DONE], [CallRejected(1), ResponseDone(1, Usage(4))], id="unreadable-arguments"
    ),
    pytest.param(
        [called("f", "{}"), RETRYING, DONE],
        [Retrying(1, "Reconnecting... 1/5"), ResponseDone(1, Usage(4))],
        id="a-broken-response-made-no-calls",
    ),
    pytest.param(
        [called("f", "{}"), completed("completed"), DONE],
        [TurnEnded(1, STOP), ResponseDone(1, Usage(4))],
        id="nor-did-one-whose-turn-ended",
    ),
    pytest.param(
        [
            raw({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}, "auto-compact-0"),
            DONE,
        ],
        [ResponseDone(1, Usage(4))],
        id="an-injected-call-echoed",
    ),
]


def read_calls(notifications: list[tuple[str, dict[str, Any]]], names: ToolNames | None) -> list[Any]:
    reader = NotificationReader(names)
    reader.add_thread("t1", 1)
    told = [Notification(method, {"threadId": "t1", **params}) for method, params in notifications]
    events = [event for each in told for event in reader.read(each)]
    return to_plain(event for event in events if not isinstance(event, CallComing))


def test_a_call_is_announced_as_it_comes() -> None:
    """Its response must not be cut now; what it is, is told with the response's end."""
    reader = NotificationReader(ToolNames(SPECS))
    reader.add_thread("t1", 1)
    method, params = called("no-such-tool", "{}")
    assert reader.read(Notification(method, {"threadId": "t1", **params})) == [CallComing(1)]


def test_two_calls_of_one_id_are_two() -> None:
    again = ToolSignal(1, {"type": "function_call", "name": "f", "arguments": "[]"})
    told = [called("f", "{}"), called("f", "[]"), DONE, called("f", "{}"), DONE]
    done = ResponseDone(1, Usage(4))
    assert read_calls(told, ToolNames(SPECS)) == [signal("f", "{}"), again, done, signal("f", "{}"), done]


@pytest.mark.parametrize(("notifications", "expected"), CALL_CASES)
def test_calls(notifications: list[tuple[str, dict[str, Any]]], expected: list[BackendEvent]) -> None:
    assert read_calls(notifications, ToolNames(SPECS)) == expected


def test_without_tools_every_call_is_rejected() -> None:
    expected = [CallRejected(1), ResponseDone(1, Usage(4))]
    assert read_calls([called("f", "{}"), DONE], None) == expected


@pytest.mark.parametrize(
    ("recording", "tool", "expected"),
    [
        pytest.param(
            "parked-then-answered",
            "get_weather",
            [
                signal("get_weather", '{"city": "Paris"}', "call_A", 0),
                signal("get_weather", '{"city":"日本 🚀"}', "call_B", 0),
                ResponseDone(0, Usage(120, 100, 40, 12)),
                ResponseDone(0, Usage(200, 150, 10, 2)),
                TurnEnded(0, STOP),
            ],
            id="two-calls",
        ),
        pytest.param(
            "malformed-tool-args",
            "localSearch",
            [
                CallRejected(0),
                ResponseDone(0, USAGE),
                PlainError(BackendUnavailable, "The turn was interrupted."),
            ],
            id="malformed-arguments",
        ),
        pytest.param(
            "unknown-tool-call",
            "localSearch",
            [CallRejected(0), ResponseDone(0, USAGE), ResponseDone(0, USAGE), TurnEnded(0, STOP)],
            id="an-unknown-tool",
        ),
        pytest.param(
            "stream-broken-after-call",
            "get_weather",
            [
                PlainError(
                    BackendUnavailable,
                    "stream disconnected before completion: stream closed before response.completed",
                )
            ],
            id="broken-behind-a-call",
        ),
        pytest.param(
            "two-tool-calls-interrupted",
            "localSearch",
            [
                signal("localSearch", '{"query":"quarterly plan","salientTerms":["plan","q3"]}', "call_0", 0),
                signal("localSearch", '{"query":"日本語 🚀"}', "call_1", 0),
                ResponseDone(0, USAGE),
                PlainError(BackendUnavailable, "The turn was interrupted."),
            ],
            id="interrupted-while-they-wait",
        ),
    ],
)
def test_recorded_calls(recording: str, tool: str, expected: list[Any]) -> None:
    transcript = Transcript(f"tool-calls/{recording}")
    reader = NotificationReader(ToolNames([ToolSpec(tool)]))
    reader.add_thread(transcript.thread_ids()[0], 0)
    events = [event for each in transcript.notifications() for event in reader.read(each)]
    about_calls = (ToolSignal, CallRejected, ResponseDone, TurnEnded, TurnFailed)
    assert to_plain(event for event in events if isinstance(event, about_calls)) == expected


def test_a_dropped_thread_is_of_no_interest() -> None:
    reader = NotificationReader(ToolNames(SPECS))
    reader.add_thread("t1", 1)
    told = [
        Notification(method, {"threadId": "t1", **params}) for method, params in [called("f", "{}"), DONE]
    ]
    assert (reader.read(told[0]), reader.holds_calls("t1")) == ([CallComing(1)], True)
    reader.drop_thread("t1")
    end = Notification("turn/completed", {"threadId": "t1", "turn": {"status": "interrupted"}})
    assert (reader.read(told[1]), reader.read(end), reader.holds_calls("t1")) == ([], [], False)
