"""Responses on the wire: every event in its order, and a response that says what they said."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.dialects.response_body import ResponseIdentity
from app.lib.dialects.response_items import build_action
from app.lib.dialects.responses import ResponsesStream
from app.lib.errors import BackendUnavailable, ClientGone, ContextTooLong, RateLimited
from app.lib.events import (
    Began,
    Completed,
    Failed,
    Finished,
    FinishReason,
    Note,
    NoteKind,
    Reasoning,
    ReasoningEnded,
    SearchAction,
    Searched,
    SearchKind,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
    Waiting,
)
from app.lib.sse import DONE
from app.lib.tool_call_aggregator import ToolCallAggregator, name_response_call
from app.lib.usage import Usage
from tests.support.cuts import every_cut
from tests.support.sse import read_events

USAGE = Usage(input_tokens=12, cached_tokens=10, output_tokens=5, reasoning_tokens=2)
STOP, LENGTH, FILTER = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER
IDENTITY = ResponseIdentity("x", 1700000000, "gpt-5.5", {"store": True, "background": False})
USED = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 17,
}

Told = tuple[str, Any]


def end(reason: FinishReason = STOP) -> list[TurnEvent]:
    return [Finished(0, reason), Completed(USAGE)]


def call(*payloads: dict[str, Any]) -> list[TurnEvent]:
    aggregator = ToolCallAggregator("x", name_response_call)
    deltas = [delta for payload in payloads for delta in aggregator.ingest_delta(payload).deltas]
    return [ToolCalled(0, delta) for delta in deltas]


def whole(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def part(index: int, **function: str) -> dict[str, Any]:
    """A chat delta of the call at a place; the first of each names it."""
    named = {"id": f"c{index}", "type": "function"} if "name" in function else {}
    calls = [{"index": index, **named, "function": function}]
    return {"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}


def play(events: list[TurnEvent], identity: ResponseIdentity = IDENTITY) -> list[dict[str, Any]]:
    """The events of a stream, whose numbers and last frame are as they must be."""
    stream = ResponsesStream(identity)
    chunks = [stream.open()] + [stream.feed([event]) for event in events]
    assert stream.final is not None
    chunks.append(stream.close(stream.final))
    data = b"".join(chunks)
    assert data.endswith(DONE)
    told = read_events(data)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    return told


def tell(told: list[dict[str, Any]]) -> list[Told]:
    """Each event by its name, place and gist, without the response that the outer ones hold."""
    return [(event["type"].removeprefix("response."), find_gist(event)) for event in told[2:-1]]


def find_gist(event: dict[str, Any]) -> Any:
    if "item" in event:
        return find_item_gist(event["item"])
    part_text = event.get("part", {}).get("text")
    words = [event[key] for key in ("delta", "text", "arguments", "message") if key in event]
    return words[0] if words else part_text


def find_item_gist(item: dict[str, Any]) -> Any:
    match item:
        case {"type": "message", "content": content}:
            return item["id"], item["status"], "".join(each["text"] for each in content)
        case {"type": "function_call"}:
            return item["id"], item["status"], item["call_id"], item["name"], item["arguments"]
        case {"type": "reasoning", "summary": summary}:
            return item["id"], tuple(each["text"] for each in summary), item.get("encrypted_content")
        case _:
            return item["id"], item["status"], item["action"]


def say(item: str, *texts: str, status: str = "completed") -> list[Told]:
    """What a message of these texts is told by."""
    text = "".join(texts)
    return [
        ("output_item.added", (item, "in_progress", "")),
        ("content_part.added", ""),
        *(("output_text.delta", each) for each in texts),
        ("output_text.done", text),
        ("content_part.done", text),
        ("output_item.done", (item, status, text)),
    ]


CASES = [
    pytest.param(
        [
            Waiting(),
            Began(0),
            Text(0, "m", "Hel"),
            Note(0, NoteKind.BUFFER_STARTED, "x"),
            Text(0, "m", "lo, you", ("lo", ", ", "you")),
            *end(),
        ],
        say("msg_001_x", "Hel", "lo", ", ", "you"),
        "completed",
        id="text",
    ),
    pytest.param(end(), [], "completed", id="nothing"),
    pytest.param(
        [Text(0, "m", "a"), Text(0, "n", "b"), *end()],
        [*say("msg_001_x", "a"), *say("msg_002_x", "b")],
        "completed",
        id="two-messages",
    ),
    pytest.param(
        [Text(0, "m", "Hel"), *end(LENGTH)],
        say("msg_001_x", "Hel", status="incomplete"),
        "incomplete",
        id="cut-short",
    ),
    pytest.param([*end(FILTER)], [], "incomplete", id="filtered"),
    pytest.param(
        [
            Reasoning(0, "r", 0, "Hm"),
            Reasoning(0, "r", 0, "m"),
            Reasoning(0, "r", 2, "So"),
            ReasoningEnded(0, "r", "gAAA"),
            Text(0, "m", "a"),
            ReasoningEnded(0, "r", "late"),
            *end(),
        ],
        [
            ("output_item.added", ("rs_001_x", (), None)),
            ("reasoning_summary_part.added", ""),
            ("reasoning_summary_text.delta", "Hm"),
            ("reasoning_summary_text.delta", "m"),
            ("reasoning_summary_text.done", "Hmm"),
            ("reasoning_summary_part.done", "Hmm"),
            ("reasoning_summary_part.added", ""),
            ("reasoning_summary_text.delta", "So"),
            ("reasoning_summary_text.done", "So"),
            ("reasoning_summary_part.done", "So"),
            ("output_item.done", ("rs_001_x", ("Hmm", "So"), None)),
            *say("msg_002_x", "a"),
        ],
        "completed",
        id="reasoning-in-parts-then-text",
    ),
    pytest.param(
        [ReasoningEnded(0, "r", "gAAA"), *end()],
        [("output_item.added", ("rs_001_x", (), None)), ("output_item.done", ("rs_001_x", (), None))],
        "completed",
        id="reasoning-without-a-summary",
    ),
    pytest.param(
        [Text(0, "m", "Look. "), *call(whole("f", '{"a":1}')), Text(0, "m", "So."), *end()],
        [
            *say("msg_001_x", "Look. "),
            ("output_item.added", ("fc_001_x", "in_progress", "fc_001_x", "f", "")),
            ("function_call_arguments.delta", '{"a":1}'),
            ("function_call_arguments.done", '{"a":1}'),
            ("output_item.done", ("fc_001_x", "completed", "fc_001_x", "f", '{"a":1}')),
            *say("msg_003_x", "So."),
        ],
        "completed",
        id="a-call-between-text",
    ),
    pytest.param(
        [*call(whole("f", "")), ToolBlock(0, "m", "<tool_call>…"), *end(LENGTH)],
        [
            ("output_item.added", ("fc_001_x", "in_progress", "fc_001_x", "f", "")),
            ("function_call_arguments.delta", "{}"),
            ("function_call_arguments.done", "{}"),
            ("output_item.done", ("fc_001_x", "completed", "fc_001_x", "f", "{}")),
        ],
        "incomplete",
        id="no-arguments-are-an-empty-object",
    ),
    pytest.param(
        [
            *call(
                part(0, name="f", arguments='{"a"'),
                part(1, name="g", arguments="{"),
                part(0, arguments=":1}"),
                part(1, arguments="}"),
            ),
            *end(),
        ],
        [
            ("output_item.added", ("fc_001_x", "in_progress", "fc_001_x", "f", "")),
            ("function_call_arguments.delta", '{"a"'),
            ("output_item.added", ("fc_002_x", "in_progress", "fc_002_x", "g", "")),
            ("function_call_arguments.delta", "{"),
            ("function_call_arguments.delta", ":1}"),
            ("function_call_arguments.delta", "}"),
            ("function_call_arguments.done", '{"a":1}'),
            ("output_item.done", ("fc_001_x", "completed", "fc_001_x", "f", '{"a":1}')),
            ("function_call_arguments.done", "{}"),
            ("output_item.done", ("fc_002_x", "completed", "fc_002_x", "g", "{}")),
        ],
        "completed",
        id="calls-side-by-side",
    ),
    pytest.param(
        [
            *(opened := call(part(0, name="f", arguments="{"), part(0, arguments="}")))[:1],
            Text(0, "m", "a"),
            *opened[1:],
            *end(),
        ],
        [
            ("output_item.added", ("fc_001_x", "in_progress", "fc_001_x", "f", "")),
            ("function_call_arguments.delta", "{"),
            ("function_call_arguments.done", "{"),
            ("output_item.done", ("fc_001_x", "completed", "fc_001_x", "f", "{")),
            *say("msg_002_x", "a"),
        ],
        "completed",
        id="nothing-is-added-to-a-call-that-is-done",
    ),
    pytest.param(
        [Searched(0, "ws", SearchAction(SearchKind.FIND_IN_PAGE, url="u", pattern="p")), *end()],
        [
            (
                "output_item.added",
                ("ws_001_x", "in_progress", {"type": "find_in_page", "url": "u", "pattern": "p"}),
            ),
            ("web_search_call.in_progress", None),
            ("web_search_call.searching", None),
            ("web_search_call.completed", None),
            (
                "output_item.done",
                ("ws_001_x", "completed", {"type": "find_in_page", "url": "u", "pattern": "p"}),
            ),
        ],
        "completed",
        id="a-web-search",
    ),
    pytest.param(
        [Text(0, "m", "Hel"), Failed(ClientGone("It left."))],
        say("msg_001_x", "Hel", status="incomplete"),
        "failed",
        id="a-client-that-left",
    ),
    pytest.param(
        [Text(0, "m", "Hel"), Failed(BackendUnavailable("It broke."))],
        [*say("msg_001_x", "Hel", status="incomplete"), ("error", "It broke.")],
        "failed",
        id="a-failure",
    ),
]


@pytest.mark.parametrize(("events", "expected", "status"), CASES)
def test_events_in_order(events: list[TurnEvent], expected: list[Told], status: str) -> None:
    """D1, D2, tasks 2 and 3: the events of each item, one number over all, and an end that repeats them."""
    told = play(events)
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    assert tell(told) == expected
    last = told[-1]
    assert last["type"] == f"response.{status}"
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert last["response"]["output"] == sorted(done, key=lambda item: where(told, item))


def where(told: list[dict[str, Any]], item: dict[str, Any]) -> int:
    return next(event["output_index"] for event in told if event.get("item") == item)


@pytest.mark.parametrize(("events", "expected", "status"), CASES)
def test_the_cut_into_batches_does_not_matter(
    events: list[TurnEvent], expected: list[Told], status: str
) -> None:
    whole_stream = ResponsesStream(IDENTITY)
    data = whole_stream.feed(events)
    for batches in every_cut(events):
        stream = ResponsesStream(IDENTITY)
        assert (b"".join(map(stream.feed, batches)), stream.final) == (data, whole_stream.final)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(end(), {"status": "completed", "usage": USED}, id="completed"),
        pytest.param(
            end(LENGTH),
            {"status": "incomplete", "usage": USED, "incomplete_details": {"reason": "max_output_tokens"}},
            id="length",
        ),
        pytest.param(
            end(FILTER),
            {"status": "incomplete", "usage": USED, "incomplete_details": {"reason": "content_filter"}},
            id="filter",
        ),
        pytest.param(
            [Failed(BackendUnavailable("Broke."))],
            {"status": "failed", "error": {"code": "server_error", "message": "Broke."}},
            id="failed",
        ),
        pytest.param(
            [Failed(RateLimited("Slow."))],
            {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow."}},
            id="throttled",
        ),
        pytest.param(
            [Failed(ContextTooLong("Long."))],
            {"status": "failed", "error": {"code": "invalid_prompt", "message": "Long."}},
            id="refused",
        ),
    ],
)
def test_response(events: list[TurnEvent], expected: dict[str, Any]) -> None:
    assert play(events)[-1]["response"] == {
        "id": "resp_x",
        "object": "response",
        "created_at": 1700000000,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.5",
        "output": [],
        "usage": None,
        "store": True,
        "background": False,
        **expected,
    }


def test_an_error_has_both_shapes() -> None:
    error = RateLimited("Slow.", param="model")
    assert play([Failed(error)])[2] == {
        "type": "error",
        "code": "rate_limit_exceeded",
        "message": "Slow.",
        "param": "model",
        "error": {
            "code": "rate_limit_exceeded",
            "message": "Slow.",
            "param": "model",
            "type": "rate_limit_error",
        },
        "sequence_number": 2,
    }


@pytest.mark.parametrize("shows", [True, False])
def test_encrypted_reasoning_is_shown_to_those_who_ask_and_kept_for_all(shows: bool) -> None:
    identity = ResponseIdentity("x", 0, "m", shows_encrypted=shows)
    told = play([ReasoningEnded(0, "r", "gAAA"), *end()], identity)
    stream = ResponsesStream(identity)
    stream.feed([ReasoningEnded(0, "r", "gAAA"), *end()])
    assert stream.final is not None
    expected = "gAAA" if shows else None
    assert [
        told[-2]["item"].get("encrypted_content"),
        told[-1]["response"]["output"][0].get("encrypted_content"),
        stream.final["output"][0].get("encrypted_content"),
    ] == [expected, expected, "gAAA"]


def test_a_queued_response_says_so_first() -> None:
    told = play(end(), ResponseIdentity("x", 0, "m", is_queued=True))
    assert [(event["type"], event["response"]["status"]) for event in told[:3]] == [
        ("response.created", "queued"),
        ("response.queued", "queued"),
        ("response.in_progress", "in_progress"),
    ]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        pytest.param(
            SearchAction(SearchKind.SEARCH, "sky", ("sky", "blue")),
            {"type": "search", "query": "sky", "queries": ["sky", "blue"]},
            id="queries",
        ),
        pytest.param(
            SearchAction(SearchKind.SEARCH, "sky"),
            {"type": "search", "query": "sky", "queries": ["sky"]},
            id="a-query",
        ),
        pytest.param(
            SearchAction(SearchKind.OPEN_PAGE, url="u"), {"type": "open_page", "url": "u"}, id="a-page"
        ),
    ],
)
def test_what_a_search_did(action: SearchAction, expected: dict[str, Any]) -> None:
    assert build_action(action) == expected
