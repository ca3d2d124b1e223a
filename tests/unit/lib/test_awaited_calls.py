"""Which calls a turn may wait for, and what becomes of a turn that may not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.lib.answer_rules import PLAIN, AnswerRules, ChatReading, ResponsesReading
from app.lib.events import BackendEvent, CallComing, CallRejected, ResponseDone, TextDelta, ToolSignal
from app.lib.orders import AwaitResults, Order, StopChoice
from app.lib.output_mode import OutputMode
from app.lib.request import TurnRequest
from app.lib.stop_policy import StopPolicy
from app.lib.tool_calls import ToolCallFunction, ToolCallRecord
from app.lib.tool_registry import ToolRegistry, ToolSpec
from app.lib.turn import TurnCore
from app.lib.usage import Usage

TOOLS = ToolRegistry([ToolSpec("f")])
WAITING = dataclasses.replace(PLAIN, registry=TOOLS, awaits_results=True)
DONE = ResponseDone(0, Usage())


def call(call_id: str | None, arguments: str = "{}") -> ToolSignal:
    item: dict[str, Any] = {"type": "function_call", "name": "f", "arguments": arguments}
    return ToolSignal(0, item | ({"call_id": call_id} if call_id else {}))


def record(number: int, call_id: str) -> ToolCallRecord:
    return ToolCallRecord(f"tool_0_{number}_s", ToolCallFunction("f"), "{}", call_id)


def run(rules: AnswerRules, *events: BackendEvent) -> list[Order]:
    core = TurnCore(1, None, rules, "s")
    core.feed_all(events)
    return core.take_orders()


@pytest.mark.parametrize(
    ("changes", "events", "expected"),
    [
        pytest.param({}, [call("x"), DONE], [AwaitResults(0, (record(0, "x"),))], id="one"),
        pytest.param(
            {},
            [call("x"), call("y", "{}"), DONE],
            [AwaitResults(0, (record(0, "x"), record(1, "y")))],
            id="several",
        ),
        pytest.param(
            {},
            [call("x"), CallRejected(0), DONE],
            [AwaitResults(0, (record(0, "x"),))],
            id="beside-one-that-codex-answers",
        ),
        pytest.param({"awaits_results": False}, [call("x"), DONE], [StopChoice(0)], id="nobody-comes-back"),
        pytest.param(
            {"parallel": False}, [call("x"), DONE], [AwaitResults(0, (record(0, "x"),))], id="alone"
        ),
        pytest.param({"parallel": False}, [call("x"), call("y"), DONE], [StopChoice(0)], id="one-is-hidden"),
        pytest.param({}, [call(None), DONE], [StopChoice(0)], id="one-that-has-no-id"),
        pytest.param({}, [call("x"), call(None), DONE], [StopChoice(0)], id="one-of-them-has-none"),
        pytest.param(
            {"stop": ("STOP",)},
            [CallComing(0), TextDelta(0, "m", "a STOP b"), call("x"), DONE],
            [StopChoice(0)],
            id="behind-words-that-were-cut",
        ),
        pytest.param({}, [DONE], [], id="no-calls"),
    ],
)
def test_calls_that_are_waited_for(
    changes: dict[str, Any], events: list[BackendEvent], expected: list[Order]
) -> None:
    assert run(dataclasses.replace(WAITING, **changes), *events) == expected


@pytest.mark.parametrize(
    ("mode", "choices", "expected"),
    [
        pytest.param(OutputMode.OPENAI_JSON, 1, True, id="json"),
        pytest.param(OutputMode.OBSIDIAN_XML, 1, False, id="a-client-that-answers-in-text"),
        pytest.param(OutputMode.OPENAI_JSON, 2, False, id="several-choices"),
    ],
)
def test_who_comes_back_with_results(mode: OutputMode, choices: int, expected: bool) -> None:
    request = TurnRequest("m", (), choices=choices, tools=TOOLS)
    assert ChatReading(StopPolicy()).suit(request, mode, True).awaits_results is expected


def test_who_comes_back_in_responses() -> None:
    assert ResponsesReading(StopPolicy()).suit(TurnRequest("m", (), tools=TOOLS)).awaits_results
