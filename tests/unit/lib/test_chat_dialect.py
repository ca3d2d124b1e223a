"""Chat chunks and envelopes, as exact JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.dialects.chat import ChatIdentity, ChatStream, ChatStyle, build_completion
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
)
from app.lib.output_mode import OutputMode
from app.lib.result import ChoiceResult, TurnResult, collect
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import TextCall
from app.lib.usage import Usage
from tests.support.cuts import every_cut
from tests.support.growth import grows_linearly
from tests.support.sse import DONE, read_frames

IDENTITY = ChatIdentity("chatcmpl-1", 1700000000, "gpt-5.5")
STOP, LENGTH, CALLS = FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS
XML, JSON = ChatStyle(), ChatStyle(OutputMode.OPENAI_JSON)
CUMULATIVE = ChatStyle(OutputMode.OPENAI_JSON, cumulative=True)
LEGACY_XML, LEGACY_JSON = ChatStyle(legacy=True), ChatStyle(OutputMode.OPENAI_JSON, legacy=True)
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


def more(index: int, text: str, so_far: str | None = None) -> dict[str, Any]:
    """More of a call's arguments; where the style repeats them, with all of them so far."""
    repeated = {} if so_far is None else {"arguments": so_far}
    return {"tool_calls": [{"index": index, "function": {"arguments": text}, **repeated}]}


def start(index: int, id_: str, name: str, so_far: str | None = None) -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    repeated = {} if so_far is None else {"arguments": so_far}
    return {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function, **repeated}]}


def legacy(**function: str) -> dict[str, Any]:
    return {"function_call": function}


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
#: Two calls whose arguments are first told as a value, and then anew in pieces.
ANEW_AGGREGATOR = ToolCallAggregator()
ANEW = [
    ToolCalled(0, delta)
    for place, function in (
        (0, {"name": "f", "arguments": [1]}),
        (1, {"name": "g", "arguments": [1]}),
        (0, {"arguments": "[1]"}),
        (1, {"arguments": "[2]"}),
        (0, {"arguments": ",[2]"}),
    )
    for delta in ANEW_AGGREGATOR.ingest_delta({"tool_calls": [{"index": place, "function": function}]}).deltas
]
#: What every style is shown: text, two calls with their blocks, and a call in pieces in another choice.
CALLING: list[TurnEvent] = [
    Note(0, NoteKind.BUFFER_STARTED, "use_tool"),
    Text(0, "m", "Look: "),
    *(FULL, ToolBlock(0, "m", "<use_tool>1</use_tool>")),
    *(PIECES[0], BARE, PIECES[1], PIECES[2]),
    ToolBlock(0, "m", "<use_tool>2</use_tool>"),
    *(Finished(0, CALLS), Finished(1, CALLS), Completed(USAGE)),
]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        pytest.param(
            XML,
            [
                choice(0, {"content": "Look: "}),
                choice(0, start(0, "tool_0_0_r", "f", "")),
                choice(0, more(0, '{"a":1}', '{"a":1}')),
                choice(0, {"content": "<use_tool>1</use_tool>"}),
                choice(1, start(0, "tool_1_0_r", "h", "")),
                choice(0, start(1, "tool_0_1_r", "g", "")),
                choice(1, more(0, "[1,", "[1,")),
                choice(1, more(0, "1]", "[1,1]")),
                choice(0, more(1, "{}", "{}")),
                choice(0, {"content": "<use_tool>2</use_tool>"}),
                choice(0, {}, "tool_calls"),
                choice(1, {}, "tool_calls"),
            ],
            id="obsidian-xml-calls-go-out-before-their-blocks-and-never-twice",
        ),
        pytest.param(
            JSON,
            [
                choice(0, {"content": "Look: "}),
                choice(0, start(0, "tool_0_0_r", "f")),
                choice(0, more(0, '{"a":1}')),
                choice(1, start(0, "tool_1_0_r", "h")),
                choice(0, start(1, "tool_0_1_r", "g")),
                choice(1, more(0, "[1,")),
                choice(1, more(0, "1]")),
                choice(0, more(1, "{}")),
                choice(0, {}, "tool_calls"),
                choice(1, {}, "tool_calls"),
            ],
            id="openai-json-has-no-blocks",
        ),
        pytest.param(
            CUMULATIVE,
            [
                choice(0, {"content": "Look: "}),
                choice(0, start(0, "tool_0_0_r", "f", "")),
                choice(0, more(0, '{"a":1}', '{"a":1}')),
                choice(1, start(0, "tool_1_0_r", "h", "")),
                choice(0, start(1, "tool_0_1_r", "g", "")),
                choice(1, more(0, "[1,", "[1,")),
                choice(1, more(0, "1]", "[1,1]")),
                choice(0, more(1, "{}", "{}")),
                choice(0, {}, "tool_calls"),
                choice(1, {}, "tool_calls"),
            ],
            id="openai-json-with-all-arguments-so-far",
        ),
        pytest.param(
            LEGACY_XML,
            [
                choice(0, {"content": "Look: "}),
                choice(0, legacy(name="f", arguments="")),
                choice(0, legacy(arguments='{"a":1}')),
                choice(0, {"content": "<use_tool>1</use_tool>"}),
                choice(1, legacy(name="h", arguments="")),
                choice(1, legacy(arguments="[1,")),
                choice(1, legacy(arguments="1]")),
                choice(0, {"content": "<use_tool>2</use_tool>"}),
                choice(0, {}, "function_call"),
                choice(1, {}, "function_call"),
            ],
            id="functions-in-obsidian-xml",
        ),
        pytest.param(
            LEGACY_JSON,
            [
                choice(0, {"content": "Look: "}),
                choice(0, legacy(name="f", arguments="")),
                choice(0, legacy(arguments='{"a":1}')),
                choice(1, legacy(name="h", arguments="")),
                choice(1, legacy(arguments="[1,")),
                choice(1, legacy(arguments="1]")),
                choice(0, {}, "function_call"),
                choice(1, {}, "function_call"),
            ],
            id="functions-in-openai-json",
        ),
    ],
)
def test_calls_in_a_stream(style: ChatStyle, expected: list[dict[str, Any]]) -> None:
    got = []
    for cut in every_cut(CALLING):
        stream = ChatStream(IDENTITY, 2, False, style)
        got.append(read_frames(stream.open() + b"".join(map(stream.feed, cut))))
    assert got == [[*map(chunk, [role(0), role(1), *expected]), DONE]] * len(got)


@pytest.mark.parametrize(
    ("choices", "include_usage", "events", "expected"),
    [
        pytest.param(
            1,
            False,
            [
                Began(0),
                Reasoning(0, "r", 0, "Hm."),
                Text(0, "m", "Hel"),
                Text(0, "m", "lo, you", ("lo", ", ", "you")),
                Finished(0, STOP),
                Completed(USAGE),
            ],
            [
                chunk(role(0)),
                chunk(choice(0, {"reasoning_content": "Hm."})),
                chunk(choice(0, {"content": "Hel"})),
                chunk(choice(0, {"content": "lo"})),
                chunk(choice(0, {"content": ", "})),
                chunk(choice(0, {"content": "you"})),
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
        pytest.param(
            1,
            False,
            [*ANEW, Finished(0, CALLS), Completed(USAGE)],
            [
                chunk(role(0)),
                chunk(choice(0, start(0, "tool_0_0", "f", ""))),
                chunk(choice(0, more(0, "[1]", "[1]"))),
                chunk(choice(0, start(1, "tool_0_1", "g", ""))),
                chunk(choice(0, more(1, "[1]", "[1]"))),
                chunk(choice(0, more(0, ",[2]", "[1],[2]"))),
                chunk(choice(0, {}, "tool_calls")),
                DONE,
            ],
            id="arguments-told-anew-are-sent-as-far-as-they-go-on",
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
    ],
)
def test_envelope(result: TurnResult, expected: list[dict[str, Any]]) -> None:
    for style in (XML, JSON, CUMULATIVE, LEGACY_XML, LEGACY_JSON):
        assert build_completion(IDENTITY, result, style) == {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": "gpt-5.5",
            "choices": expected,
            "usage": WIRE_USAGE,
        }


RECORDS = (FULL.delta.to_record(), BARE.delta.to_record())
BLOCK = "<use_tool>…</use_tool>"
TOOL_CALLS = {
    "tool_calls": [
        {"id": "tool_0_0_r", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "tool_0_1_r", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
}
FUNCTION_CALL = {"function_call": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(
    ("style", "text", "blocks", "content", "calls", "finish"),
    [
        pytest.param(XML, "Look: ", ((6, BLOCK),), f"Look: {BLOCK}", TOOL_CALLS, "tool_calls", id="xml"),
        pytest.param(XML, "", ((0, BLOCK),), BLOCK, TOOL_CALLS, "tool_calls", id="xml-only-a-block"),
        pytest.param(XML, "", (), "", TOOL_CALLS, "tool_calls", id="xml-no-block-either"),
        pytest.param(JSON, "Look: ", ((6, BLOCK),), "Look: ", TOOL_CALLS, "tool_calls", id="json"),
        pytest.param(JSON, "\n", ((1, BLOCK),), "\n", TOOL_CALLS, "tool_calls", id="json-white-space"),
        pytest.param(JSON, "", ((0, BLOCK),), None, TOOL_CALLS, "tool_calls", id="json-only-calls"),
        pytest.param(CUMULATIVE, "", (), None, TOOL_CALLS, "tool_calls", id="cumulative"),
        pytest.param(
            LEGACY_XML, "", ((0, BLOCK),), BLOCK, FUNCTION_CALL, "function_call", id="functions-in-xml"
        ),
        pytest.param(LEGACY_JSON, "", (), None, FUNCTION_CALL, "function_call", id="functions-in-json"),
    ],
)
def test_calls_in_an_envelope(
    style: ChatStyle,
    text: str,
    blocks: tuple[tuple[int, str], ...],
    content: str | None,
    calls: dict[str, Any],
    finish: str,
) -> None:
    result = TurnResult((ChoiceResult(text, (), CALLS, RECORDS, blocks),), USAGE)
    assert build_completion(IDENTITY, result, style)["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": None, **calls},
            "logprobs": None,
            "finish_reason": finish,
        }
    ]


choices = st.integers(0, 1)
shown = st.one_of(
    st.builds(Began, choices),
    st.builds(Text, choices, st.just("m"), st.text(max_size=8)),
    st.builds(Reasoning, choices, st.just("r"), st.integers(0, 2), st.text(max_size=8)),
)
#: More of a call: which choice's, in which place, and its text.
piece = st.tuples(choices, st.integers(0, 2), st.text(min_size=1, max_size=4))
#: A call that a block spells: its choice, what arguments it has, and the block, if that is shown.
spelt = st.tuples(choices, st.text(max_size=4), st.just("") | st.just("<b>"))
styles = st.builds(ChatStyle, st.sampled_from(OutputMode), st.booleans(), st.booleans())


def build_turn(steps: list[Any]) -> list[TurnEvent]:
    aggregator, events = ToolCallAggregator(), []
    for step in steps:
        match step:
            case (index, int(place), text):
                call = {"index": place, "function": {"name": f"f{place}", "arguments": text}}
                deltas = aggregator.ingest_delta({"tool_calls": [call]}, index).deltas
                events += [ToolCalled(index, delta) for delta in deltas]
            case (index, text, block):
                events.append(ToolCalled(index, aggregator.ingest_call(TextCall("g", text), index)))
                events += [ToolBlock(index, "m", block)] if block else []
            case event:
                events.append(event)
    ends = [Finished(index, CALLS if aggregator.has_calls(index) else LENGTH) for index in range(2)]
    return [*events, *ends, Completed(USAGE)]


def add_up(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """What every client does with a delta: text behind text, calls by their index."""
    for key, value in delta.items():
        match value:
            case str():
                whole[key] = whole.get(key, "") + value
            case dict():
                add_up(whole.setdefault(key, {}), value)
            case [{"index": index, **call}]:
                add_up(whole.setdefault(key, {}).setdefault(index, {}), call)


DELTAS: list[set[str]] = [
    {"role", "content"},
    *({key} for key in ("content", "reasoning_content", "tool_calls", "function_call")),
    set(),
]


@given(st.lists(shown | piece | spelt, max_size=20), st.booleans(), styles)
def test_no_frame_mixes_and_the_folded_stream_is_the_body(
    steps: list[Any], include_usage: bool, style: ChatStyle
) -> None:
    """Parity at its smallest: deltas added up, as every client does it, give the envelope's messages.

    Only that no content is `""` in a stream, whose first frame says so before anything is known.
    """
    turn = build_turn(steps)
    stream = ChatStream(IDENTITY, 2, include_usage, style)
    *chunks, done = read_frames(stream.open() + stream.feed(turn))
    assert done == DONE
    folded: list[dict[str, Any]] = [{}, {}]
    for part in (part for each in chunks for part in each["choices"]):
        assert set(part["delta"]) in DELTAS
        add_up(folded[part["index"]], part["delta"] | {"finish": part["finish_reason"] or ""})
    body = build_completion(IDENTITY, collect([turn], 2), style)
    assert [to_message(each) for each in folded] == [
        {**part["message"], "content": part["message"]["content"] or "", "finish": part["finish_reason"]}
        for part in body["choices"]
    ]


def to_message(folded: dict[str, Any]) -> dict[str, Any]:
    """A folded stream as its body has it: calls in a list, without what some styles repeat."""
    calls = folded.get("tool_calls", {}).values()
    listed = [{key: call[key] for key in ("id", "type", "function")} for call in calls]
    return folded | {"refusal": None} | ({"tool_calls": listed} if listed else {})


def test_a_call_costs_the_same_however_many_came_before_it() -> None:
    def run(text: str) -> None:
        aggregator, stream = ToolCallAggregator(), ChatStream(IDENTITY)
        for name in text:
            called = ToolCalled(0, aggregator.ingest_call(TextCall(name, "{}")))
            stream.feed([called, ToolBlock(0, "m", "<b>")])

    assert grows_linearly(run, "f", 2000)
