"""Chat chunks and envelopes, as exact JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.dialects.chat import ChatIdentity, ChatStream, build_completion
from app.lib.errors import RateLimited
from app.lib.events import (
    Began,
    Completed,
    Failed,
    Finished,
    FinishReason,
    Note,
    NoteKind,
    Reasoning,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
    Usage,
)
from app.lib.result import ChoiceResult, TurnResult, collect
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import TextCall
from tests.support.cuts import every_cut
from tests.support.sse import DONE, read_frames

IDENTITY = ChatIdentity("chatcmpl-1", 1700000000, "gpt-5.5")
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
USAGE = Usage(120, 100, 20, 5)
WIRE_USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 20,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 100},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "gpt-5.5",
        "choices": list(choices),
        **more,
    }


def choice(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def role(index: int) -> dict[str, Any]:
    return choice(index, {"role": "assistant", "content": ""})


def call(index: int, text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


def call_start(index: int, id_: str, name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]}


AGGREGATOR = ToolCallAggregator("r")
#: Two calls of the first choice, one without arguments, and one of the second that comes in pieces.
FULL, BARE = (
    ToolCalled(0, AGGREGATOR.ingest_call(TextCall(*each))) for each in (("f", '{"a":1}'), ("g", ""))
)
PIECES = [
    ToolCalled(1, delta)
    for function in ({"name": "h"}, {"arguments": "[1,"}, {"arguments": "1]"})
    for delta in AGGREGATOR.ingest_delta({"tool_calls": [{"index": 0, "function": function}]}, 1).deltas
]
CALLS = FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("choices", "include_usage", "events", "expected"),
    [
        pytest.param(
            2,
            False,
            [
                Note(0, NoteKind.BUFFER_STARTED, "use_tool"),
                Text(0, "m", "Look: "),
                *(FULL, ToolBlock(0, "m", "<use_tool>1</use_tool>")),
                *(PIECES[0], BARE, PIECES[1], PIECES[2]),
                ToolBlock(0, "m", "<use_tool>2</use_tool>"),
                *(Finished(0, CALLS), Finished(1, CALLS), Completed(USAGE)),
            ],
            [
                *(chunk(role(0)), chunk(role(1))),
                chunk(choice(0, {"content": "Look: "})),
                chunk(choice(0, call_start(0, "tool_0_0_r", "f"))),
                chunk(choice(0, call(0, '{"a":1}'))),
                chunk(choice(0, {"content": "<use_tool>1</use_tool>"})),
                chunk(choice(1, call_start(0, "tool_1_0_r", "h"))),
                chunk(choice(0, call_start(1, "tool_0_1_r", "g"))),
                chunk(choice(1, call(0, "[1,"))),
                chunk(choice(1, call(0, "1]"))),
                chunk(choice(0, call(1, "{}"))),
                chunk(choice(0, {"content": "<use_tool>2</use_tool>"})),
                chunk(choice(0, {}, "tool_calls")),
                chunk(choice(1, {}, "tool_calls")),
                DONE,
            ],
            id="calls-go-out-before-their-blocks-and-never-twice",
        ),
        pytest.param(
            1,
            False,
            [
                Began(0),
                Reasoning(0, "r", 0, "Hm."),
                Text(0, "m", "Hel"),
                Text(0, "m", "lo"),
                Finished(0, STOP),
                Completed(USAGE),
            ],
            [
                chunk(role(0)),
                chunk(choice(0, {"reasoning_content": "Hm."})),
                chunk(choice(0, {"content": "Hel"})),
                chunk(choice(0, {"content": "lo"})),
                chunk(choice(0, {}, "stop")),
                DONE,
            ],
            id="one-answer",
        ),
        pytest.param(
            1,
            True,
            [Text(0, "m", "Hi"), Finished(0, LENGTH), Completed(USAGE)],
            [
                chunk(role(0), usage=None),
                chunk(choice(0, {"content": "Hi"}), usage=None),
                chunk(choice(0, {}, "length"), usage=None),
                chunk(usage=WIRE_USAGE),
                DONE,
            ],
            id="usage-was-asked-for",
        ),
        pytest.param(
            1,
            True,
            [Finished(0, STOP), Completed(Usage())],
            [
                chunk(role(0), usage=None),
                chunk(choice(0, {}, "stop"), usage=None),
                chunk(
                    usage={
                        "prompt_tokens": 0,
                        "completion_tokens": 0,
                        "total_tokens": 0,
                        "prompt_tokens_details": {"cached_tokens": 0},
                        "completion_tokens_details": {"reasoning_tokens": 0},
                    }
                ),
                DONE,
            ],
            id="usage-of-nothing-is-still-usage",
        ),
        pytest.param(
            2,
            False,
            [
                Text(1, "m", "b"),
                Text(0, "m", "a"),
                Finished(0, FinishReason.CONTENT_FILTER),
                Finished(1, STOP),
                Completed(USAGE),
            ],
            [
                chunk(role(0)),
                chunk(role(1)),
                chunk(choice(1, {"content": "b"})),
                chunk(choice(0, {"content": "a"})),
                chunk(choice(0, {}, "content_filter")),
                chunk(choice(1, {}, "stop")),
                DONE,
            ],
            id="two-choices",
        ),
        pytest.param(
            1,
            True,
            [Text(0, "m", "Hi"), Failed(RateLimited("Slow down."))],
            [
                chunk(role(0), usage=None),
                chunk(choice(0, {"content": "Hi"}), usage=None),
                {
                    "error": {
                        "message": "Slow down.",
                        "type": "rate_limit_error",
                        "param": None,
                        "code": "rate_limit_exceeded",
                    }
                },
                DONE,
            ],
            id="a-failure-on-the-way",
        ),
        pytest.param(1, False, [], [chunk(role(0))], id="nothing-yet"),
    ],
)
def test_stream(choices: int, include_usage: bool, events: list[TurnEvent], expected: list[Any]) -> None:
    got = []
    for cut in every_cut(events):
        stream = ChatStream(IDENTITY, choices, include_usage)
        got.append(read_frames(stream.open() + b"".join(map(stream.feed, cut))))
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(
            TurnResult((ChoiceResult("Hello", ("Hm.", "So."), STOP),), USAGE),
            [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Hello",
                        "refusal": None,
                        "reasoning_content": "Hm.\n\nSo.",
                    },
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            id="with-reasoning",
        ),
        pytest.param(
            TurnResult((ChoiceResult("a", (), STOP), ChoiceResult("", (), LENGTH)), USAGE),
            [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "a", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                },
                {
                    "index": 1,
                    "message": {"role": "assistant", "content": "", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "length",
                },
            ],
            id="two-choices",
        ),
        pytest.param(
            TurnResult(
                (
                    ChoiceResult(
                        "Look: ",
                        (),
                        CALLS,
                        (FULL.delta.to_record(), BARE.delta.to_record()),
                        ((6, "<use_tool>…</use_tool>"),),
                    ),
                ),
                USAGE,
            ),
            [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Look: <use_tool>…</use_tool>",
                        "refusal": None,
                        "tool_calls": [
                            {
                                "id": "tool_0_0_r",
                                "type": "function",
                                "function": {"name": "f", "arguments": '{"a":1}'},
                            },
                            {
                                "id": "tool_0_1_r",
                                "type": "function",
                                "function": {"name": "g", "arguments": "{}"},
                            },
                        ],
                    },
                    "logprobs": None,
                    "finish_reason": "tool_calls",
                },
            ],
            id="calls",
        ),
    ],
)
def test_envelope(result: TurnResult, expected: list[dict[str, Any]]) -> None:
    assert build_completion(IDENTITY, result) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-5.5",
        "choices": expected,
        "usage": WIRE_USAGE,
    }


shown = st.one_of(
    st.builds(Began, st.integers(0, 1)),
    st.builds(Text, st.integers(0, 1), st.just("m"), st.text(max_size=8)),
    st.builds(Reasoning, st.integers(0, 1), st.just("r"), st.integers(0, 2), st.text(max_size=8)),
)


@given(st.lists(shown, max_size=20), st.booleans())
def test_no_frame_mixes_and_the_folded_stream_is_the_body(
    events: list[TurnEvent], include_usage: bool
) -> None:
    """Parity at its smallest: concatenating deltas, as every client does, gives the envelope's messages."""
    turn = [*events, Finished(0, STOP), Finished(1, LENGTH), Completed(USAGE)]
    stream = ChatStream(IDENTITY, 2, include_usage)
    *chunks, done = read_frames(stream.open() + stream.feed(turn))
    assert done == DONE
    folded = [{"content": "", "reasoning_content": "", "finish_reason": ""} for _ in range(2)]
    for part in (part for each in chunks for part in each["choices"]):
        assert set(part["delta"]) in ({"role", "content"}, {"content"}, {"reasoning_content"}, set())
        mine = folded[part["index"]]
        for key in set(part["delta"]) - {"role"}:
            mine[key] += part["delta"][key]
        mine["finish_reason"] += part["finish_reason"] or ""
    body = build_completion(IDENTITY, collect([turn], 2))
    assert folded == [
        {
            "content": part["message"]["content"],
            "reasoning_content": part["message"].get("reasoning_content", ""),
            "finish_reason": part["finish_reason"],
        }
        for part in body["choices"]
    ]
