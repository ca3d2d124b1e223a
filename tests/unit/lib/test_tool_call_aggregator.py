"""The aggregator: payloads of every shape in, deltas and records out. Criteria are story 2.8's."""

from __future__ import annotations

import copy
import dataclasses
import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from app.lib.tool_call_aggregator import REMEMBERED, ToolCallAggregator, create_tool_call_aggregator
from app.lib.tool_calls import IngestResult, TextCall
from tests.support.at_tool import AT_TOOL, UNHELD_AT_TOOL
from tests.support.growth import unobserved
from tests.support.transcripts import Transcript

Payload = Any
Told = tuple[str, str]


def chat(*calls: dict[str, Any]) -> Payload:
    return {"tool_calls": list(calls)}


def call(index: int | None = None, id_: str | None = None, **function: Any) -> dict[str, Any]:
    keys = {"index": index, "id": id_, "function": function or None}
    return {key: value for key, value in keys.items() if value is not None}


def added(name: str, item_id: str = "fc_1", call_id: str = "call_1", output_index: int = 0) -> Payload:
    item = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": ""}
    return {"type": "response.output_item.added", "output_index": output_index, "item": item}


def fragment(delta: str, sequence: int | None = None, item_id: str = "fc_1") -> Payload:
    event = {"type": "response.function_call_arguments.delta", "item_id": item_id, "delta": delta}
    return event if sequence is None else event | {"sequence_number": sequence}


def done(arguments: str, item_id: str = "fc_1") -> Payload:
    return {"type": "response.function_call_arguments.done", "item_id": item_id, "arguments": arguments}


def raw_item(name: str, arguments: str, call_id: str = "call_1") -> Payload:
    item = {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "name": name,
        "arguments": arguments,
        "call_id": call_id,
    }
    params = {"threadId": "t", "turnId": "u", "item": item}
    return {"method": "rawResponseItem/completed", "params": params}


def dynamic_item(name: str, arguments: Any, call_id: str = "call_1", method: str = "item/started") -> Payload:
    item = {"type": "dynamicToolCall", "id": call_id, "tool": name, "arguments": arguments}
    return {"method": method, "params": {"threadId": "t", "turnId": "u", "item": item}}


def tool_request(name: str, arguments: Any, call_id: str = "call_1") -> Payload:
    params = {"threadId": "t", "turnId": "u", "callId": call_id, "tool": name, "arguments": arguments}
    return {"method": "item/tool/call", "id": 0, "params": params}


def tell(aggregator: ToolCallAggregator, payloads: Sequence[Payload]) -> list[list[Told]]:
    """What each payload changed: the ids with their arguments so far."""
    results = [aggregator.ingest_delta(payload) for payload in payloads]
    return [[(delta.id, delta.arguments) for delta in result.deltas] for result in results]


def records(aggregator: ToolCallAggregator, choice: int = 0) -> list[tuple[str, str, str]]:
    return [(each.id, each.function.name, each.arguments) for each in aggregator.snapshot(choice)]


FIRST, SECOND = "tool_0_0", "tool_0_1"


@pytest.mark.parametrize(
    ("payloads", "told", "snapshot"),
    [
        pytest.param(
            [
                chat(call(0, "call_1", name="f")),
                chat(call(0, arguments='{"a"')),
                chat(call(0, arguments=":1}")),
            ],
            [[(FIRST, "")], [(FIRST, '{"a"')], [(FIRST, '{"a":1}')]],
            [(FIRST, "f", '{"a":1}')],
            id="chat-name-first-then-cumulative-fragments",
        ),
        pytest.param(
            [added("f"), fragment("["), fragment("1,"), fragment("1,"), fragment("1]"), done("[1,1,1]")],
            [[(FIRST, "")], [(FIRST, "[")], [(FIRST, "[1,")], [(FIRST, "[1,1,")], [(FIRST, "[1,1,1]")], []],
            [(FIRST, "f", "[1,1,1]")],
            id="responses-equal-fragments-are-all-kept-and-done-repeats-nothing",
        ),
        pytest.param(
            [raw_item("f", '{"a": 1}'), dynamic_item("f", {"a": 1}), tool_request("f", {"a": 1})],
            [[(FIRST, '{"a": 1}')], [], []],
            [(FIRST, "f", '{"a": 1}')],
            id="codex-the-verbatim-text-comes-first",
        ),
        pytest.param(
            [tool_request("f", {"a": 1}), raw_item("f", '{"a": 1}')],
            [[(FIRST, '{"a":1}')], [(FIRST, '{"a": 1}')]],
            [(FIRST, "f", '{"a": 1}')],
            id="codex-the-verbatim-text-takes-the-place-of-a-value",
        ),
        pytest.param(
            [dynamic_item("f", {}), fragment("{", item_id="call_1"), fragment("}", item_id="call_1")],
            [[(FIRST, "{}")], [(FIRST, "{")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="a-value-stands-in-only-until-fragments-come",
        ),
        pytest.param(
            [dynamic_item("f", {"a": 1}), dynamic_item("f", {"a": 2}, method="item/completed")],
            [[(FIRST, '{"a":1}')], [(FIRST, '{"a":2}')]],
            [(FIRST, "f", '{"a":2}')],
            id="a-later-value-takes-the-place-of-an-earlier-one",
        ),
        pytest.param(
            [
                dynamic_item("f", {"a": 1}),
                chat({"id": "call_1", "arguments": "{"}),
                fragment("x", 1, "call_1"),
            ],
            [[(FIRST, '{"a":1}')], [(FIRST, "{")], [(FIRST, "{x")]],
            [(FIRST, "f", "{x")],
            id="a-text-so-far-takes-the-place-of-a-value-too",
        ),
        pytest.param(
            [{"function_call": {"name": "f"}}, {"function_call": {"arguments": "{}"}}],
            [[(FIRST, "")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="legacy-single-call",
        ),
        pytest.param(
            [
                {"choices": [{"index": 0, "delta": {"tool_calls": [call(0, "a", name="f", arguments="{")]}}]},
                {"choices": [{"index": 0, "delta": {"tool_calls": [call(1, "b", name="g", arguments="[")]}}]},
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"tool_calls": [call(0, arguments="}"), call(1, arguments="]")]},
                        }
                    ]
                },
            ],
            [[(FIRST, "{")], [(SECOND, "[")], [(FIRST, "{}"), (SECOND, "[]")]],
            [(FIRST, "f", "{}"), (SECOND, "g", "[]")],
            id="interleaved-calls-never-mix",
        ),
        pytest.param(
            [chat(call(0, arguments='{"a":')), chat(call(0, arguments="1}")), chat(call(0, "x", name="f"))],
            [[], [], [(FIRST, '{"a":1}')]],
            [(FIRST, "f", '{"a":1}')],
            id="a-late-name-brings-what-came-before-it",
        ),
        pytest.param(
            [
                chat(call(0, name="f")),
                chat(call(0, "late", arguments="{")),
                chat(call(None, "late", arguments="}")),
            ],
            [[(FIRST, "")], [(FIRST, "{")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="a-late-id",
        ),
        pytest.param(
            [chat(call(0, arguments="lost?")), added("g"), fragment("{}")],
            [[], [(FIRST, "")], [(FIRST, "{}")]],
            [(FIRST, "g", "{}")],
            id="a-call-that-never-gets-a-name-is-not-shown-and-takes-no-number",
        ),
        pytest.param(
            [chat(call(0, "a", name="f", arguments="{}")), chat(call(0, "b", name="f", arguments="[]"))],
            [[(FIRST, "{}")], [(SECOND, "[]")]],
            [(FIRST, "f", "{}"), (SECOND, "f", "[]")],
            id="another-id-at-the-same-index-is-another-call",
        ),
        pytest.param(
            [chat(call(0, name="f", arguments="{}")), chat(call(0, name="g")), chat(call(0, arguments="[]"))],
            [[(FIRST, "{}")], [(SECOND, "")], [(SECOND, "[]")]],
            [(FIRST, "f", "{}"), (SECOND, "g", "[]")],
            id="another-name-at-the-same-index-is-another-call",
        ),
        pytest.param(
            [
                chat(call(name="f", arguments="{}")),
                chat(call(name="f", arguments="[]")),
                chat(call(arguments="x")),
            ],
            [[(FIRST, "{}")], [(SECOND, "[]")], [(SECOND, "[]x")]],
            [(FIRST, "f", "{}"), (SECOND, "f", "[]x")],
            id="without-id-and-index-a-name-begins-a-call-and-the-rest-goes-on",
        ),
        pytest.param(
            [chat(call(arguments="{")), chat(call(name="f", arguments="}"))],
            [[], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="without-id-and-index-a-name-may-come-late",
        ),
        pytest.param(
            [added("f"), added("f"), fragment("{", 3), fragment("{", 3), fragment("{", 2), fragment("}", 4)],
            [[(FIRST, "")], [], [(FIRST, "{")], [], [], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="a-repeated-creation-and-repeated-numbers-say-nothing-new",
        ),
        pytest.param(
            [added("f"), fragment("{}"), done("{}"), fragment(" late")],
            [[(FIRST, "")], [(FIRST, "{}")], [], []],
            [(FIRST, "f", "{}")],
            id="a-fragment-behind-the-whole-is-late",
        ),
        pytest.param(
            [added("f"), fragment("{"), done('{"a":1}')],
            [[(FIRST, "")], [(FIRST, "{")], [(FIRST, '{"a":1}')]],
            [(FIRST, "f", '{"a":1}')],
            id="done-brings-what-was-missed",
        ),
        pytest.param(
            [added("f"), fragment("{wrong"), done("{}"), done("")],
            [[(FIRST, "")], [(FIRST, "{wrong")], [(FIRST, "{}")], []],
            [(FIRST, "f", "{}")],
            id="done-has-the-last-word-unless-it-says-nothing",
        ),
        pytest.param(
            [
                {"id": "a", "type": "function", "function": {"name": "f"}, "arguments": "{"},
                {"id": "a", "type": "function", "function": {"name": "f"}, "arguments": "{}"},
                {"id": "a", "type": "function", "function": {"name": "f"}, "arguments": "{"},
            ],
            [[(FIRST, "{")], [(FIRST, "{}")], []],
            [(FIRST, "f", "{}")],
            id="the-contracts-own-cumulative-shape",
        ),
        pytest.param(
            [added("f"), done("{}"), chat({"id": "call_1", "arguments": "{} and more"})],
            [[(FIRST, "")], [(FIRST, "{}")], []],
            [(FIRST, "f", "{}")],
            id="a-text-so-far-behind-the-whole-is-late",
        ),
        pytest.param(
            [{"function_call": {"name": "f", "arguments": "1"}, "tool_calls": [call(0, "a", name="g")]}],
            [[(FIRST, "")]],
            [(FIRST, "g", "")],
            id="tool-calls-before-function-call",
        ),
        pytest.param(
            [
                raw_item("f", "{}", "call_1"),
                {"choices": [{"message": {"tool_calls": [call(id_="call_1", name="f", arguments="{}")]}}]},
                {"type": "response.output_item.done", "item": added("f")["item"] | {"arguments": "{}"}},
                raw_item("f", "[]", "call_2"),
            ],
            [[(FIRST, "{}")], [], [], [(SECOND, "[]")]],
            [(FIRST, "f", "{}"), (SECOND, "f", "[]")],
            id="codex-chat-and-responses-shapes-mixed",
        ),
        pytest.param(
            [{"function_call": {"name": "f"}}, {"message": chat(call(id_="a", name="f", arguments="{}"))}],
            [[(FIRST, "")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="a-legacy-stream-and-its-final-message",
        ),
        pytest.param(
            [
                {
                    "type": "response.completed",
                    "response": {"output": [{"type": "message"}, added("f")["item"]]},
                },
                {"output": [{"type": "message"}, added("f")["item"] | {"arguments": "{}"}]},
            ],
            [[(FIRST, "")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="responses-bodies",
        ),
        pytest.param(
            [added("f")["item"] | {"status": "in_progress"}, fragment("{}")],
            [[(FIRST, "")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="an-item-under-way-by-itself",
        ),
        pytest.param(
            [added("f"), chat(call(0, arguments='{"a":')), {"function_call": {"arguments": "1}"}}],
            [[(FIRST, "")], [(FIRST, '{"a":')], [(FIRST, '{"a":1}')]],
            [(FIRST, "f", '{"a":1}')],
            id="fragments-in-another-shape-than-their-call-by-number",
        ),
        pytest.param(
            [{"function_call": {"name": "f"}}, fragment("{"), fragment("}")],
            [[(FIRST, "")], [(FIRST, "{")], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="fragments-in-another-shape-than-their-call-by-order",
        ),
        pytest.param(
            [raw_item("f", "{}"), chat(call(0, arguments="[")), chat(call(0, name="g", arguments="]"))],
            [[(FIRST, "{}")], [], [(SECOND, "[]")]],
            [(FIRST, "f", "{}"), (SECOND, "g", "[]")],
            id="but-never-to-a-call-that-is-whole",
        ),
        pytest.param(
            [chat(call(0, "call_1", name="f")), fragment('{"a":'), added("f"), fragment("1}")],
            [[(FIRST, "")], [], [(FIRST, '{"a":')], [(FIRST, '{"a":1}')]],
            [(FIRST, "f", '{"a":1}')],
            id="two-ids-that-turn-out-to-be-one-call",
        ),
        pytest.param(
            [raw_item("f", "{}"), fragment("x"), added("f")],
            [[(FIRST, "{}")], [], []],
            [(FIRST, "f", "{}")],
            id="two-ids-and-one-of-them-was-whole",
        ),
        pytest.param(
            [
                chat(call(None, "a", name="f", arguments="1"), call(None, "b", name="g", arguments="2")),
                chat(call(arguments="3"), call(arguments="4")),
            ],
            [[(FIRST, "1"), (SECOND, "2")], [(FIRST, "13"), (SECOND, "24")]],
            [(FIRST, "f", "13"), (SECOND, "g", "24")],
            id="entries-without-index-by-their-position",
        ),
        pytest.param(
            [chat(call(name="f", arguments="{}")), {"message": chat(call(name="f", arguments="{}"))}],
            [[(FIRST, "{}")], []],
            [(FIRST, "f", "{}")],
            id="a-stream-without-index-and-its-final-message",
        ),
        pytest.param(
            [chat(call(0, "x", name="f", arguments="1"), call(1, "x", name="g", arguments="2"))],
            [[(FIRST, "1"), (SECOND, "2")]],
            [(FIRST, "f", "1"), (SECOND, "g", "2")],
            id="two-calls-under-one-id",
        ),
        pytest.param(
            [{"tool_calls": [None], "function_call": {"name": "f", "arguments": "{}"}}],
            [[(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="no-tool-calls-but-a-function-call",
        ),
        pytest.param(
            [fragment("{}"), added("f", output_index=1)],
            [[], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="responses-fragments-before-their-item",
        ),
        pytest.param(
            [
                {"type": "function_call_arguments.delta", "output_index": 2, "delta": "{"},
                {"type": "function_call_arguments.done", "output_index": 2, "name": "f", "arguments": "{}"},
            ],
            [[], [(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="responses-by-place-alone",
        ),
        pytest.param(
            [{"msg": {"type": "agent_message_delta", "delta": chat(call(0, name="f", arguments="{}"))}}],
            [[(FIRST, "{}")]],
            [(FIRST, "f", "{}")],
            id="older-codex-events",
        ),
        pytest.param(
            [raw_item("f", "{}") | {"params": raw_item("f", "{}")["params"] | {"turnId": "auto-compact-0"}}],
            [[]],
            [],
            id="the-echo-of-injected-history-is-no-call",
        ),
        pytest.param(
            [
                chat(call(0, "a", name="f", arguments='{"x": unfinished')),
                chat(call(0, arguments="\\ud83d 日本🚀")),
            ],
            [[(FIRST, '{"x": unfinished')], [(FIRST, '{"x": unfinished\\ud83d 日本🚀')]],
            [(FIRST, "f", '{"x": unfinished\\ud83d 日本🚀')],
            id="malformed-arguments-stay-verbatim",
        ),
        pytest.param(
            [chat(call(0, "a", name="f", arguments={"n": 10**30, "t": "日本"}))],
            [[(FIRST, '{"n":1000000000000000000000000000000,"t":"日本"}')]],
            [(FIRST, "f", '{"n":1000000000000000000000000000000,"t":"日本"}')],
            id="arguments-given-as-a-value-are-written-as-json",
        ),
    ],
)
def test_calls_from_payloads(
    payloads: list[Payload], told: list[list[Told]], snapshot: list[tuple[str, str, str]]
) -> None:
    """AC 1, 2, 3, 4, 9, 12, 13, 14, 15, 16, 17, 18."""
    aggregator = ToolCallAggregator()
    assert (tell(aggregator, payloads), records(aggregator)) == (told, snapshot)


NESTED: dict[str, Any] = {}
for _ in range(2000):
    NESTED = {"delta": NESTED}


@pytest.mark.parametrize(
    "payload",
    [
        *(
            pytest.param(value, id=repr(value))
            for value in (None, 7, "text", [], [None], b"{}", {}, {"type": []})
        ),
        pytest.param({"tool_calls": None, "function_call": "f"}, id="neither-call-is-one"),
        pytest.param({"tool_calls": [None, "x", {}]}, id="entries-that-are-none"),
        pytest.param({"tool_calls": {"function": {"name": "f"}}}, id="no-list"),
        pytest.param({"choices": [None, {"delta": None}, {}]}, id="empty-choices"),
        pytest.param(chat(call(0, "a", name=7)), id="a-name-that-is-none"),
        pytest.param(chat(call(0, "a", name="")), id="an-empty-name"),
        pytest.param({"item": {"type": "agentMessage", "text": "f"}}, id="another-item"),
        pytest.param({"item": "x"}, id="no-item"),
        pytest.param({"params": {"item": {"type": ["function_call"]}}}, id="a-type-that-is-none"),
        pytest.param({"output": [{"type": {}}]}, id="an-output-of-such-types"),
        pytest.param({"output": "x"}, id="no-output"),
        pytest.param({"type": "response.output_item.done", "item": {"type": "message"}}, id="a-message-item"),
        pytest.param({"method": "item/tool/call", "params": {"tool": "f"}}, id="a-request-without-call-id"),
        pytest.param({"method": "item/agentMessage/delta", "params": {"delta": "f"}}, id="text"),
        pytest.param(NESTED, id="wrapped-two-thousand-times"),
    ],
)
def test_what_is_not_about_calls_is_ignored(payload: Payload) -> None:
    """AC 7, 16."""
    aggregator = ToolCallAggregator()
    aggregator.ingest_message(payload)
    assert (aggregator.ingest_delta(payload), aggregator.has_calls()) == (IngestResult(), False)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({1, 2}, id="a-set"),
        pytest.param(NESTED, id="nested-too-deep"),
        pytest.param(None, id="none"),
    ],
)
def test_arguments_that_cannot_be_written_are_left_out(arguments: Any) -> None:
    aggregator = ToolCallAggregator()
    assert tell(aggregator, [dynamic_item("f", arguments)]) == [[(FIRST, "")]]


def test_arguments_that_refer_to_themselves_are_left_out() -> None:
    loop: list[Any] = []
    loop.append(loop)
    aggregator = ToolCallAggregator()
    assert tell(aggregator, [dynamic_item("f", loop)]) == [[(FIRST, "")]]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(chat(call(0, "a", name="f", arguments="{")), id="chat"),
        pytest.param(chat(call(0, arguments="1,")), id="a-bare-fragment"),
        pytest.param({"function_call": {"name": "f", "arguments": "1"}}, id="legacy"),
        pytest.param(raw_item("f", "{}"), id="codex"),
        pytest.param(fragment("1,", 5), id="responses"),
    ],
)
def test_the_very_same_payload_says_nothing_new(payload: Payload) -> None:
    """AC 11."""
    aggregator = ToolCallAggregator()
    aggregator.ingest_delta(chat(call(0, "fc_1", name="f")))
    first = aggregator.ingest_delta(payload)
    before = aggregator.snapshot()
    aggregator.ingest_delta(chat(call(1, "other", name="g")))
    again = aggregator.ingest_delta(payload)
    assert (first.updated, again, aggregator.snapshot()[: len(before)]) == (True, IngestResult(), before)


def test_what_we_gave_out_may_come_back() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_delta(raw_item("f", "{}"))
    aggregator.ingest_call(TextCall("g", "[]"))
    before = aggregator.snapshot()
    aggregator.ingest_message({"tool_calls": [record.to_dict() for record in before]})
    assert aggregator.snapshot() == before


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"item": {"type": "agentMessage", "text": "x" * 100_000}}, id="not-about-calls"),
        pytest.param(raw_item("f", "x" * 100_000), id="whole-texts"),
        pytest.param(
            chat({"id": "a", "function": {"name": "f"}, "arguments": "x" * 100_000}), id="cumulative"
        ),
    ],
)
def test_memory_is_bounded_by_the_arguments(payload: Payload) -> None:
    """AC 7: what says nothing new again need not be remembered."""
    aggregator = ToolCallAggregator()
    payloads = (json.loads(json.dumps(payload)) for _ in range(100))
    tracemalloc.start()
    for each in payloads:
        aggregator.ingest_delta(each)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 500_000


def test_arguments_that_wait_for_a_name_take_little_more_than_their_text() -> None:
    aggregator = ToolCallAggregator()
    with unobserved():
        tracemalloc.start()
        for place in range(100_000):
            aggregator.ingest_delta(fragment(chr(0x4E00 + place % 20_000)))
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert used < 2_000_000


def test_payloads_are_not_remembered_for_ever() -> None:
    """What is remembered holds memory; a turn may have millions of payloads."""
    aggregator = ToolCallAggregator()
    first = chat(call(0, name="f", arguments="a"))
    for payload in [first, *(chat(call(0, arguments="b")) for _ in range(REMEMBERED))]:
        aggregator.ingest_delta(payload)
    assert aggregator.ingest_delta(first).updated


def test_what_a_delta_adds() -> None:
    aggregator = ToolCallAggregator()
    payloads = [added("f"), fragment("{"), fragment("a"), done("{a}"), done("[]"), done("[]!")]
    deltas = [delta for payload in payloads for delta in aggregator.ingest_delta(payload).deltas]
    assert [delta.added for delta in deltas] == ["", "{", "a", "}", None, "!"]


def test_a_payload_that_changes_a_call_twice_tells_it_once() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_delta(chat(call(0, "a", name="f", arguments="wrong")))
    twice = chat({"id": "a", "arguments": "longer {"}, call(0, arguments="}"))
    [delta] = aggregator.ingest_delta(twice).deltas
    assert (delta.added, delta.arguments) == (None, "longer {}")


def test_what_a_late_name_adds_is_everything() -> None:
    aggregator = ToolCallAggregator()
    payloads = [
        dynamic_item("", {"a": 1}),
        fragment("{", 1, "call_1"),
        fragment("}", 2, "call_1"),
        added("f"),
    ]
    deltas = [delta for payload in payloads for delta in aggregator.ingest_delta(payload).deltas]
    assert [delta.added for delta in deltas] == ["{}"]


def test_the_contracts_shapes() -> None:
    """AC 2, 12: deltas leave out arguments that did not come yet."""
    aggregator = create_tool_call_aggregator()
    first = aggregator.ingest_delta(added("f"))
    second = aggregator.ingest_delta(fragment("{}"))
    base = {"id": FIRST, "type": "function", "function": {"name": "f"}}
    assert first.to_dict() == {"updated": True, "deltas": [base]}
    assert second.to_dict() == {"updated": True, "deltas": [base | {"arguments": "{}"}]}
    assert [record.to_dict() for record in aggregator.snapshot()] == [base | {"arguments": "{}"}]
    assert [record.call_id for record in aggregator.snapshot()] == ["call_1"]


def test_outputs_are_fixed_when_they_are_made() -> None:
    """AC 19."""
    aggregator = ToolCallAggregator()
    payload = chat(call(0, "a", name="f", arguments="{"))
    delta = aggregator.ingest_delta(payload).deltas[0]
    record = aggregator.snapshot()[0]
    aggregator.ingest_delta(chat(call(0, arguments="}")))
    aggregator.ingest_delta({"message": chat(call(id_="a", name="f", arguments="[]"))})
    payload["tool_calls"][0]["function"]["arguments"] = "mutated"
    assert (delta.arguments, record.arguments, aggregator.snapshot()[0].arguments) == ("{", "{", "[]")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delta.id = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.function.name = "other"  # type: ignore[misc]


def test_deltas_compare_by_what_they_say() -> None:
    one, two = ToolCallAggregator(), ToolCallAggregator()
    deltas = [each.ingest_delta(chat(call(0, "a", name="f", arguments="{"))).deltas[0] for each in (one, two)]
    two.ingest_delta(chat(call(0, arguments="}")))
    assert (deltas[0] == deltas[1], hash(deltas[0].view) == hash(deltas[1].view)) == (True, True)
    assert (repr(deltas[0].view), deltas[0].view == "{") == ("'{'", False)


def test_choices_are_kept_apart() -> None:
    """AC 5, 9; story 2.9 AC 16: a payload that names no choice is the first one's."""
    aggregator = ToolCallAggregator("ab12")
    payload = chat(call(0, "same", name="f", arguments="{"))
    aggregator.ingest_delta(payload)
    aggregator.ingest_delta(payload, 1)
    aggregator.ingest_delta({"choices": [{"index": 1, "delta": chat(call(0, arguments="}"))}]})
    aggregator.ingest_delta({"choice_index": 2, "delta": chat(call(0, "x", name="g"))})
    aggregator.ingest_delta({"choices": [{"index": 0, "delta": chat(call(0, arguments="!"))}]}, 2)
    assert [records(aggregator, choice) for choice in range(4)] == [
        [("tool_0_0_ab12", "f", "{")],
        [("tool_1_0_ab12", "f", "{}")],
        [("tool_2_0_ab12", "g", "!")],
        [],
    ]
    assert [aggregator.has_calls(choice) for choice in range(4)] == [True, True, True, False]


def test_a_chunk_of_several_choices_is_sorted_by_itself() -> None:
    aggregator = ToolCallAggregator()
    for text in ("{", "}"):
        choices = [
            {"index": index, "delta": chat(call(0, name=name, arguments=text))}
            for index, name in enumerate(("f", "g"))
        ]
        aggregator.ingest_delta({"choices": choices}, 2)
    assert [records(aggregator, choice) for choice in range(3)] == [
        [("tool_0_0", "f", "{}")],
        [("tool_1_0", "g", "{}")],
        [],
    ]


def test_a_choice_of_five_thousand_digits_is_none() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_delta({"choice_index": 10**5000} | chat(call(0, name="f")))
    assert records(aggregator) == [(FIRST, "f", "")]


def test_a_pattern_that_cannot_be_told_from_another_is_refused() -> None:
    aggregator = ToolCallAggregator()
    with pytest.raises(ValueError, match="cannot be told apart"):
        aggregator.register_text_pattern("mine", AT_TOOL.matcher, opener="<use_tool", closer=">")
    assert aggregator.extract_use_tool_blocks("<use_tool><name>f</name></use_tool>") != ()


def test_reset_turn_forgets_calls_and_keeps_patterns() -> None:
    """AC 5, 20."""
    aggregator = ToolCallAggregator()
    aggregator.register_text_pattern("at_tool", AT_TOOL.matcher)
    payload = chat(call(0, "a", name="f", arguments="{}"))
    aggregator.ingest_delta(payload)
    aggregator.ingest_delta(payload, 1)
    aggregator.reset_turn()
    assert [aggregator.snapshot(choice) for choice in (0, 1)] == [(), ()]
    assert tell(aggregator, [payload]) == [[(FIRST, "{}")]]
    assert [block.name for block in aggregator.extract_use_tool_blocks('@tool("x")')] == ["x"]


def test_instances_share_nothing() -> None:
    """AC 20."""
    one, two = ToolCallAggregator(), ToolCallAggregator()
    one.register_text_pattern("at_tool", AT_TOOL.matcher)
    one.ingest_delta(chat(call(0, "a", name="f")))
    assert (two.has_calls(), two.extract_use_tool_blocks('@tool("x")')) == (False, ())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(chat(call(id_="a", name="f", arguments="{}")), [(FIRST, "f", "{}")], id="one"),
        pytest.param(
            chat(call(id_="a", name="f", arguments="{"), call(id_="b", name="f", arguments="{")),
            [(FIRST, "f", "{"), (SECOND, "f", "{")],
            id="several-and-malformed",
        ),
        pytest.param(
            chat(call(name="f", arguments="1"), call(name="f", arguments="2")),
            [(FIRST, "f", "1"), (SECOND, "f", "2")],
            id="several-without-ids",
        ),
        pytest.param(chat(call(id_="a", name="f")), [(FIRST, "f", "")], id="missing-arguments"),
        pytest.param({"function_call": {"name": "f", "arguments": "{}"}}, [(FIRST, "f", "{}")], id="legacy"),
        pytest.param(
            {"choices": [{"index": 0, "message": {"role": "assistant"} | chat(call(id_="a", name="f"))}]},
            [(FIRST, "f", "")],
            id="a-completion",
        ),
        pytest.param([added("f")["item"] | {"arguments": "{}"}], [(FIRST, "f", "{}")], id="a-list-of-items"),
        pytest.param(raw_item("f", "{}"), [(FIRST, "f", "{}")], id="codex"),
        pytest.param(
            {"content": "Hello <use_tool><name>f</name></use_tool>"}, [], id="text-is-not-looked-at"
        ),
    ],
)
def test_final_messages(message: Payload, expected: list[tuple[str, str, str]]) -> None:
    """AC 2, 3; R-101 a and b."""
    aggregator = ToolCallAggregator()
    aggregator.ingest_message(message)
    aggregator.ingest_message(copy.deepcopy(message))
    assert records(aggregator) == expected


def test_a_second_message_without_ids_is_a_second_call() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_message({"function_call": {"name": "f", "arguments": "1"}})
    aggregator.ingest_message({"function_call": {"name": "f", "arguments": "2"}})
    assert tell(aggregator, [chat(call(0, name="f")), chat(call(0, arguments="3"))]) == [
        [("tool_0_2", "")],
        [("tool_0_2", "3")],
    ]
    assert records(aggregator) == [(FIRST, "f", "1"), (SECOND, "f", "2"), ("tool_0_2", "f", "3")]


TEXT = 'Now <use_tool><name>webSearch</name><args>{"q":1}</args></use_tool> and @tool("x", {"a": ")"}) tail'


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        pytest.param(TEXT, 0, id="bare-text"),
        pytest.param({"role": "assistant", "content": TEXT}, 0, id="content"),
        pytest.param(
            {"message": {"content": [{"type": "text", "text": TEXT}, {"type": "image"}]}}, 0, id="parts"
        ),
        pytest.param(
            {"choices": [{"index": 1, "message": {"content": TEXT}}]}, 1, id="a-completions-second-choice"
        ),
        pytest.param({"item": {"type": "agentMessage", "text": TEXT}}, 0, id="a-codex-item"),
        pytest.param(
            [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}], 0, id="items"
        ),
    ],
)
@pytest.mark.parametrize("pattern", [AT_TOOL, UNHELD_AT_TOOL], ids=["with-opener", "without"])
def test_text_stands_in_for_missing_calls(pattern: Any, message: Payload, choice: int) -> None:
    """AC 6: only `emit_if_missing` makes calls of text."""
    aggregator = ToolCallAggregator()
    aggregator.register_text_pattern(pattern.name, pattern.matcher, pattern.opener, pattern.closer)
    aggregator.ingest_message(message, emit_if_missing=True)
    aggregator.ingest_message(message, emit_if_missing=True)
    assert records(aggregator, choice) == [
        (f"tool_{choice}_0", "webSearch", '{"q":1}'),
        (f"tool_{choice}_1", "x", '{"a": ")"}'),
    ]


def test_only_the_assistants_words_are_calls() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_message({"role": "user", "content": TEXT}, emit_if_missing=True)
    assert not aggregator.has_calls()


def test_text_is_left_alone_where_there_are_calls() -> None:
    aggregator = ToolCallAggregator()
    message = {"content": TEXT} | chat(call(id_="a", name="f", arguments="{}"))
    aggregator.ingest_message(message, emit_if_missing=True)
    assert records(aggregator) == [(FIRST, "f", "{}")]


def test_calls_read_from_text_are_each_their_own() -> None:
    """A structured call that comes later is another one, whatever they have in common."""
    aggregator = ToolCallAggregator()
    deltas = [aggregator.ingest_call(TextCall("f", "{}")) for _ in range(2)]
    aggregator.ingest_delta(chat(call(0, name="f", arguments="[]")))
    assert [(delta.id, delta.index, delta.added, delta.arguments) for delta in deltas] == [
        (FIRST, 0, "{}", "{}"),
        (SECOND, 1, "{}", "{}"),
    ]
    assert records(aggregator) == [(FIRST, "f", "{}"), (SECOND, "f", "{}"), ("tool_0_2", "f", "[]")]


def test_a_call_of_text_without_arguments_takes_nobody_elses() -> None:
    aggregator = ToolCallAggregator()
    aggregator.ingest_call(TextCall("f", ""))
    aggregator.ingest_delta({"function_call": {"arguments": "{"}})
    aggregator.ingest_message({"function_call": {"name": "f", "arguments": "{}"}})
    assert records(aggregator) == [(FIRST, "f", ""), (SECOND, "f", "{}")]


def test_the_first_call_as_obsidian_xml() -> None:
    """AC 21."""
    aggregator = ToolCallAggregator()
    assert aggregator.to_obsidian_xml() is None
    aggregator.ingest_delta(chat(call(0, "a", name="webSearch", arguments='{"query":"a<b"}')))
    aggregator.ingest_delta(chat(call(1, "b", name="getFileTree")))
    assert aggregator.to_obsidian_xml() == (
        "<use_tool>\n<name>webSearch</name>\n<query>a&lt;b</query>\n</use_tool>"
    )


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        pytest.param("tool-call-answered", 1, id="one-call"),
        pytest.param("parked-then-answered", 2, id="two-calls"),
        pytest.param("malformed-tool-args", 1, id="malformed-arguments"),
        pytest.param("unknown-tool-call", 1, id="an-unknown-tool"),
    ],
)
def test_recorded_turns(recording: str, expected: int) -> None:
    """The real binary's notifications, whole, with everything else they come among."""
    aggregator = ToolCallAggregator()
    lines = Transcript(f"tool-calls/{recording}").received()
    raw = [
        line["params"]["item"]
        for line in lines
        if line.get("method") == "rawResponseItem/completed"
        and line["params"]["item"]["type"] == "function_call"
    ]
    for line in lines:
        aggregator.ingest_delta(line)
    found = aggregator.snapshot()
    assert [(record.call_id, record.function.name, record.arguments) for record in found] == [
        (item["call_id"], item["name"], item["arguments"]) for item in raw
    ]
    assert len(found) == expected
