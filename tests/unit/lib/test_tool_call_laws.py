"""Laws of the aggregator, whatever is fed to it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import IngestResult
from tests.support.growth import grows_linearly

#: Equal pieces are common here, and none of them is JSON by itself.
PIECES = st.sampled_from(['{"', "1,", "1,", "}", "\\ud83d", "é", "e\u0301", "日本", "🙂", " ", "</use_tool>"])


def chat_events(number: int, name: str, pieces: list[str]) -> list[Any]:
    first = {"index": number, "id": f"call_{number}", "function": {"name": name}}
    return [{"tool_calls": [first]}] + [
        {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}}
            ]
        }
        for piece in pieces
    ]


def responses_events(number: int, name: str, pieces: list[str]) -> list[Any]:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    added = {"type": "response.output_item.added", "output_index": number, "item": item}
    return [added] + [
        {
            "type": "response.function_call_arguments.delta",
            "item_id": f"fc_{number}",
            "output_index": number,
            "delta": piece,
            "sequence_number": place,
        }
        for place, piece in enumerate(pieces)
    ]


def codex_events(number: int, name: str, pieces: list[str]) -> list[Any]:
    """Codex tells a call's arguments at once, verbatim and then parsed."""
    arguments = "".join(pieces)
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    params = {"threadId": "t", "item": item | {"arguments": arguments}}
    request = {"callId": f"call_{number}", "tool": name, "arguments": {"parsed": True}}
    raw = {"method": "rawResponseItem/completed", "params": params}
    return [raw, {"method": "item/tool/call", "id": number, "params": request}]


SHAPES = st.sampled_from([chat_events, responses_events, codex_events])


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Any], dict[str, str]]:
    """Payloads of several calls in any shapes, interleaved; and what each call's arguments are."""
    streams, expected = [], {}
    for number in range(draw(st.integers(1, 4))):
        pieces = draw(st.lists(PIECES, min_size=1, max_size=6))
        streams.append(draw(SHAPES)(number, f"tool{number}", pieces))
        expected[f"tool{number}"] = "".join(pieces)
    payloads = []
    while streams:
        stream = draw(st.sampled_from(streams))
        payloads.append(stream.pop(0))
        streams = [each for each in streams if each]
    return payloads, expected


@given(turns())
def test_law_interleaved_calls_never_mix(turn: tuple[list[Any], dict[str, str]]) -> None:
    """AC 13, 14, 17, 18: also where shapes are mixed in one turn."""
    payloads, expected = turn
    aggregator = ToolCallAggregator()
    deltas = [delta for payload in payloads for delta in aggregator.ingest_delta(payload).deltas]
    snapshot = aggregator.snapshot()
    assert {record.function.name: record.arguments for record in snapshot} == expected
    told = {delta.id: delta.arguments for delta in deltas}
    assert told == {record.id: record.arguments for record in snapshot}
    added: dict[str, str] = {}
    for delta in deltas:
        added[delta.id] = added.get(delta.id, "") + (delta.added or "")
    assert added == told


@given(turns(), st.randoms(use_true_random=False))
def test_law_a_repeated_payload_says_nothing_new(turn: tuple[list[Any], dict[str, str]], random: Any) -> None:
    """AC 11, 16: at any later time."""
    payloads, expected = turn
    aggregator = ToolCallAggregator()
    for count, payload in enumerate(payloads, 1):
        aggregator.ingest_delta(payload)
        assert aggregator.ingest_delta(random.choice(payloads[:count])) == IngestResult()
    assert {record.function.name: record.arguments for record in aggregator.snapshot()} == expected


KEYS = st.sampled_from(
    [
        *("type", "id", "call_id", "callId", "name", "tool", "arguments", "function", "tool_calls", "index"),
        *(
            "function_call",
            "delta",
            "message",
            "choices",
            "params",
            "msg",
            "item",
            "item_id",
            "output",
            "response",
        ),
        *("output_index", "sequence_number", "choice_index", "content", "text", "turnId", "status"),
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["", "f", "function_call", "function", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.lists(JSON, max_size=5))
def test_law_no_payload_raises_or_is_changed(payloads: list[Any]) -> None:
    """AC 7, 16, 19."""
    aggregator = ToolCallAggregator()
    before = copy.deepcopy(payloads)
    for payload in payloads:
        aggregator.ingest_delta(payload)
        aggregator.ingest_message(payload, emit_if_missing=True)
    assert payloads == before
    assert [record.id for record in aggregator.snapshot()] == [
        f"tool_0_{number}" for number in range(len(aggregator.snapshot()))
    ]


def feed_characters(text: str) -> None:
    aggregator = ToolCallAggregator()
    for payload in responses_events(0, "f", list(text)):
        aggregator.ingest_delta(payload)
    assert aggregator.snapshot()[0].arguments == text


def feed_calls(text: str) -> None:
    aggregator = ToolCallAggregator()
    for number in range(len(text)):
        for payload in chat_events(number, "f", ["{}"]):
            aggregator.ingest_delta(payload)
    assert len(aggregator.snapshot()) == len(text)


def feed_alternately(text: str) -> None:
    """A fragment, and a repeat of the item that began the call, again and again."""
    aggregator = ToolCallAggregator()
    added, *fragments = responses_events(0, "f", list(text))
    for fragment in fragments:
        aggregator.ingest_delta(copy.copy(added))
        aggregator.ingest_delta(fragment)


def test_single_characters_cost_time_in_proportion() -> None:
    assert grows_linearly(feed_characters, "x", 40_000)


def test_ten_thousand_calls_cost_time_in_proportion() -> None:
    assert grows_linearly(feed_calls, "x", 5_000)


def test_repeated_beginnings_cost_time_in_proportion() -> None:
    assert grows_linearly(feed_alternately, "x", 20_000)
