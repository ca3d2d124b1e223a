"""The sentinel parser: streamed text in; visible text, calls and errors out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from app.lib.block_rows import RowSet, build_tool_call_row
from app.lib.schema_check.effort import Clock
from app.lib.sentinel import ToolCallProblem
from app.lib.text_gate import Buffered, Found, GateEvent, Passed, Refused, TextGate
from app.lib.tool_calls import TextCall, ToolCallFunction, ToolCallRecord
from app.lib.tool_registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class ParserResult:
    visible_text_deltas: tuple[str, ...] = ()
    #: In the order of their blocks, numbered through the turn.
    parsed_tool_calls: tuple[ToolCallRecord, ...] = ()
    #: Fatal ones are strict failures; the rest is for telemetry.
    errors: tuple[ToolCallProblem, ...] = ()
    #: How many of the calls are not word for word what the model wrote.
    repaired: int = 0


class ToolCallParser:
    """Knows `<tool_call>` blocks and nothing else, by the tools a request declares."""

    def __init__(self, registry: ToolRegistry, clock: Clock, suffix: str = "") -> None:
        """`suffix`, a random one, makes the ids of calls unique beyond this turn."""
        self._gate = TextGate(RowSet([build_tool_call_row(registry, clock)]))
        self._ids = (f"fc_{number:03}" + (f"_{suffix}" if suffix else "") for number in itertools.count(1))

    def feed(self, text: str) -> ParserResult:
        return self._sort(self._gate.feed(text))

    def finish(self) -> ParserResult:
        return self._sort(self._gate.finish())

    def _sort(self, events: Iterable[GateEvent]) -> ParserResult:
        texts: list[str] = []
        found: list[Found] = []
        problems: list[ToolCallProblem | None] = []
        for event in events:
            match event:
                case Passed(text):
                    texts.append(text)
                case Found(problem=problem):
                    found.append(event)
                    problems.append(problem)
                case Refused(problem=problem) | Buffered(problem=problem):
                    problems.append(problem)
                case _:
                    assert_never(event)
        return ParserResult(
            tuple(texts),
            tuple(self._number(event.call) for event in found),
            tuple(problem for problem in problems if problem),
            sum(event.repaired for event in found),
        )

    def _number(self, call: TextCall) -> ToolCallRecord:
        return ToolCallRecord(next(self._ids), ToolCallFunction(call.name), call.arguments)
