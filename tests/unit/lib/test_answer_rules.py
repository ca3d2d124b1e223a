"""Which tags are live in a chat answer, and what follows a block: a row of the contract each."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.answer_rules import AnswerRules, ChatReading
from app.lib.events import BackendEvent, FinishReason, TextDelta, Tick, ToolBlock, ToolCalled, TurnEnded
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport, TurnRequest
from app.lib.schema_check.budget import CheckBudget
from app.lib.stop_policy import StopMode, StopPolicy
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.lib.turn import TurnCore
from tests.support.at_tool import AT_TOOL
from tests.support.events import show

JSON, XML = OutputMode.OPENAI_JSON, OutputMode.OBSIDIAN_XML
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SPECS = (ToolSpec("declared"), ToolSpec("other"))
STRICT = ToolSpec("declared", None, NUMBER, strict=True)


def use(name: str, arguments: str = '{"n":1}') -> str:
    return f"<use_tool><name>{name}</name><args>{arguments}</args></use_tool>"


def block(name: str) -> str:
    return f'<tool_call>{{"name":"{name}","arguments":"{{}}"}}</tool_call>'


def suit(registry: ToolRegistry, mode: OutputMode, **more: Any) -> AnswerRules:
    request = TurnRequest("m", (), tools=registry, **more)
    return ChatReading(StopPolicy(), [AT_TOOL]).suit(request, mode, expects_blocks=True)


def read_calls(rules: AnswerRules, text: str) -> list[str]:
    """The tools that an answer calls; a failed turn has none."""
    events: list[BackendEvent] = [TextDelta(0, "m", text), TurnEnded(0, FinishReason.STOP)]
    out = TurnCore(rules=rules).feed_all(events)
    return [event.delta.function.name for event in out if isinstance(event, ToolCalled)]


NONE, REQUIRED = ToolChoice(ChoiceMode.NONE), ToolChoice(ChoiceMode.REQUIRED)
ALLOWED = ToolChoice(allowed=frozenset(["declared"]))


@pytest.mark.parametrize(
    ("registry", "mode", "text", "is_call"),
    [
        pytest.param(ToolRegistry(), XML, use("any"), True, id="xml-without-tools"),
        pytest.param(ToolRegistry(), JSON, use("any"), True, id="json-without-tools"),
        pytest.param(ToolRegistry(), JSON, '@tool("any", {})', True, id="a-pattern"),
        pytest.param(ToolRegistry(), JSON, block("declared"), False, id="a-sentinel-without-tools"),
        pytest.param(ToolRegistry((), NONE), XML, use("any"), False, id="none-without-tools"),
        pytest.param(ToolRegistry((), NONE), XML, '@tool("any", {})', False, id="none-and-a-pattern"),
        pytest.param(ToolRegistry(SPECS), XML, use("any"), True, id="xml-any-tool"),
        pytest.param(ToolRegistry(SPECS), JSON, use("any"), False, id="json-undeclared"),
        pytest.param(ToolRegistry(SPECS), JSON, use("declared"), True, id="json-declared"),
        pytest.param(ToolRegistry(SPECS), JSON, '@tool("any", {})', True, id="a-pattern-beside-tools"),
        pytest.param(ToolRegistry(SPECS), JSON, block("declared"), True, id="json-sentinel"),
        pytest.param(ToolRegistry(SPECS), XML, block("declared"), True, id="xml-sentinel"),
        pytest.param(ToolRegistry(SPECS), XML, block("any"), False, id="sentinel-undeclared"),
        pytest.param(ToolRegistry(SPECS, NONE), JSON, use("declared"), False, id="none"),
        pytest.param(ToolRegistry(SPECS, NONE), XML, block("declared"), False, id="none-sentinel"),
        pytest.param(ToolRegistry(SPECS, ALLOWED), JSON, use("declared"), True, id="allowed"),
        pytest.param(ToolRegistry(SPECS, ALLOWED), JSON, use("other"), False, id="not-allowed"),
        pytest.param(ToolRegistry(SPECS, ALLOWED), XML, use("other"), False, id="xml-not-allowed"),
        pytest.param(ToolRegistry(SPECS, ALLOWED), JSON, block("other"), False, id="sentinel-not-allowed"),
        pytest.param(ToolRegistry(SPECS, REQUIRED), JSON, use("declared"), False, id="forced-is-not-read-so"),
        pytest.param(ToolRegistry([STRICT]), JSON, use("declared"), True, id="strict-and-right"),
        pytest.param(
            ToolRegistry([STRICT]), JSON, use("declared", '{"n":"x"}'), False, id="strict-and-wrong"
        ),
        pytest.param(ToolRegistry([STRICT]), XML, use("any", "{}"), True, id="strict-is-another"),
    ],
)
def test_which_tags_are_live(registry: ToolRegistry, mode: OutputMode, text: str, is_call: bool) -> None:
    """Contract §1, "which tags are live"."""
    assert bool(read_calls(suit(registry, mode), text)) == is_call


@pytest.mark.parametrize(
    ("text", "parallel", "count"),
    [
        pytest.param(use("declared") * 2, True, 1, id="use-tool-ends-the-answer"),
        pytest.param(block("declared") * 2, True, 2, id="sentinels-are-one-batch"),
        pytest.param(block("declared") * 2, False, 1, id="one-call-at-most"),
    ],
)
def test_how_many_blocks_are_calls(text: str, parallel: bool, count: int) -> None:
    """Story 2.9 AC 11, and "same wire" for both transports."""
    assert len(read_calls(suit(ToolRegistry(SPECS), JSON, parallel=parallel), text)) == count


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(StopPolicy(mode=StopMode.ALL), id="all"),
        pytest.param(StopPolicy().run_on(), id="running-on"),
    ],
)
def test_one_call_at_most_whatever_the_policy(policy: StopPolicy) -> None:
    request = TurnRequest("m", (), tools=ToolRegistry(SPECS), parallel=False)
    rules = ChatReading(policy).suit(request, JSON, expects_blocks=True)
    assert len(read_calls(rules, use("declared") * 2)) == 1


def test_a_sentinel_is_shown_as_the_clients_block() -> None:
    """Mode `first`: one block, while every call of the batch is listed."""
    rules = suit(ToolRegistry(SPECS), XML)
    out = TurnCore(rules=rules).feed_all(
        [TextDelta(0, "m", f"{block('declared')}\n{block('other')}"), TurnEnded(0, FinishReason.STOP)]
    )
    shown = [event.text for event in out if isinstance(event, ToolBlock)]
    assert shown == ["<use_tool>\n<name>declared</name>\n</use_tool>"]
    assert [line for line in show(out) if "tool_0_" in line] == [
        "0:tool_0_0 declared({})",
        "0:tool_0_1 other({})",
    ]


def test_what_else_a_request_brings() -> None:
    request = TurnRequest("m", (), stop=("x",), max_tokens=3)
    reading = ChatReading(StopPolicy(), escape=EscapePolicy.COPILOT)
    xml, json = (reading.suit(request, mode, expects_blocks=False) for mode in (XML, JSON))
    assert (xml.stop, xml.max_bytes, xml.policy) == (("x",), 12, StopPolicy().run_on())
    assert (xml.escape, json.escape) == (EscapePolicy.COPILOT, None)


def test_a_batch_of_sentinels_does_not_wait_by_the_clock() -> None:
    """The grace is of mode `all`; a batch ends with other text, or with the answer."""
    core = TurnCore(rules=suit(ToolRegistry(SPECS), JSON))
    out = core.feed_all([TextDelta(0, "m", block("declared")), Tick(0), Tick(10)])
    out += core.feed_all([TextDelta(0, "m", block("other")), TurnEnded(0, FinishReason.STOP)])
    assert [event.delta.function.name for event in out if isinstance(event, ToolCalled)] == [
        "declared",
        "other",
    ]


@pytest.mark.parametrize(
    ("transport", "finish"),
    [
        pytest.param(ToolTransport.NATIVE, "finish stop", id="nobody-asked-for-blocks"),
        pytest.param(ToolTransport.SENTINEL, "InvalidToolCall", id="our-manifest-did"),
    ],
)
def test_an_unreadable_sentinel_beside_a_strict_tool(transport: ToolTransport, finish: str) -> None:
    request = TurnRequest("m", (), tools=ToolRegistry([STRICT]))
    rules = ChatReading(StopPolicy(), transport=transport).suit(request, JSON, expects_blocks=True)
    events: list[BackendEvent] = [
        TextDelta(0, "m", "<tool_call>{no</tool_call>"),
        TurnEnded(0, FinishReason.STOP),
    ]
    shown = show(TurnCore(rules=rules).feed_all(events))
    assert any(line.startswith(finish) for line in shown)


def test_every_request_has_a_budget_of_its_own() -> None:
    reading = ChatReading(StopPolicy())
    one, two = (reading.suit(TurnRequest("m", ()), JSON, expects_blocks=True).clock for _ in range(2))
    assert (isinstance(one, CheckBudget), isinstance(two, CheckBudget), one is two) == (True, True, False)
