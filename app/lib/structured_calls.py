"""One choice's calls that come as calls, not in its text: shown as they come, or held until all hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.lib.answer_rules import AnswerRules
from app.lib.errors import InvalidToolCall
from app.lib.events import AskAgain, Note, NoteKind, Order, RefuseCall, ToolBlock, ToolCalled, TurnEvent
from app.lib.forced_call import read_forced
from app.lib.obsidian import to_obsidian_xml
from app.lib.sentinel import ToolCallProblem, judge_call
from app.lib.stop_policy import StopMode
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import ToolCallDelta, ToolCallRecord

# Rounds in which the model corrects its calls, unseen; then the client is told.
MAX_REPAIRS = 2
#: The telemetry's word for calls that no text spells.
ROW = "function"
NOT_RUN = "This call was not run, since another one beside it was refused. Repeat it with that one corrected."
REJECTED = "The model called a tool that is not declared, or with unreadable arguments."


class StructuredCalls:
    """Feed it payloads; `complete` at the end of a model response, `conclude` at the end of the turn."""

    def __init__(
        self, choice: int, rules: AnswerRules, aggregator: ToolCallAggregator, orders: list[Order]
    ) -> None:
        """What the backend is to do is added to `orders`."""
        self._choice = choice
        self._rules = rules
        self._aggregator = aggregator
        self._held: list[dict[str, Any]] = []
        self._has_rejected = False
        self._repairs = 0
        self._orders = orders
        #: Whether an answer that had to be a call was none, and another one is to come.
        self.is_asking = False
        #: The calls the client knows of, each as it was told last, by its place.
        self.shown: dict[int, ToolCallDelta] = {}
        #: Set once the model had its chances to call a strict tool right.
        self.refusal: InvalidToolCall | None = None

    def take(self, payload: dict[str, Any]) -> list[TurnEvent]:
        if not self._rules.registry.any_strict:
            return self._ingest(payload)
        self._held.append(payload)
        return []

    def reject(self) -> list[TurnEvent]:
        """A call that codex has the model correct; where a tool is strict, its whole batch does not hold."""
        self._has_rejected = True
        return [Note(self._choice, NoteKind.CALL_FAULTY, ROW, "rejected")]

    def complete(self) -> list[TurnEvent]:
        """A model response ended: show the calls that waited for it, or have all of them corrected."""
        held, has_rejected = self._held, self._has_rejected
        self.forget()
        if not self._rules.registry.any_strict:
            return []
        records = self._assemble(held)
        problems = self._find_problems(records)
        if not has_rejected and not any(problems):
            return [event for payload in held for event in self._ingest(payload)]
        return self._repair(records, problems)

    def forget(self) -> None:
        """Whatever waits is not to be: its response starts over, or is dealt with."""
        self._held, self._has_rejected = [], False

    def conclude(self) -> list[TurnEvent]:
        """The turn is over: nothing can be corrected any more."""
        self._repairs = MAX_REPAIRS
        return self.complete()

    def read_answer(self, text: str) -> list[TurnEvent]:
        """Take an answer that had to be a call."""
        self.is_asking = False
        found = read_forced(text, self._rules.registry, self._rules.parallel, self._rules.clock)
        if isinstance(found, ToolCallProblem):
            self.is_asking = True
            again = AskAgain(self._choice, found.message)
            return [self._note_problem(found), *self._order([again], found.message)]
        return [self._show(self._aggregator.ingest_call(call, self._choice)) for call in found]

    def write_blocks(self, item_id: str, has_blocks: bool) -> list[TurnEvent]:
        """The blocks of calls that no text spells; in mode `first` an answer has one block."""
        escape, shown = self._rules.escape, list(self.shown.values())
        if escape is None:
            return []
        if self._rules.policy.mode is StopMode.FIRST:
            shown = [] if has_blocks else shown[:1]
        blocks = [to_obsidian_xml(delta.to_record(), escape) for delta in shown]
        return [ToolBlock(self._choice, item_id, block) for block in blocks]

    def _ingest(self, payload: dict[str, Any]) -> list[TurnEvent]:
        deltas = self._aggregator.ingest_delta(payload, self._choice).deltas
        return [self._show(delta) for delta in deltas if self._rules.parallel or delta.index == 0]

    def _show(self, delta: ToolCallDelta) -> ToolCalled:
        self.shown[delta.index] = delta
        return ToolCalled(self._choice, delta)

    def _assemble(self, payloads: Sequence[dict[str, Any]]) -> tuple[ToolCallRecord, ...]:
        """The calls in a batch that nobody has seen yet; as many as the client wants."""
        scratch = ToolCallAggregator()
        for payload in payloads:
            scratch.ingest_delta(payload, self._choice)
        records = scratch.snapshot(self._choice)
        return records if self._rules.parallel else records[:1]

    def _find_problems(self, records: Sequence[ToolCallRecord]) -> list[ToolCallProblem | None]:
        """What is wrong with each, if that matters."""
        registry, clock = self._rules.registry, self._rules.clock
        verdicts = [judge_call(record.function.name, record.arguments, registry, clock) for record in records]
        return [
            verdict.problem if verdict.problem and verdict.problem.fatal else None for verdict in verdicts
        ]

    def _repair(
        self, records: Sequence[ToolCallRecord], problems: Sequence[ToolCallProblem | None]
    ) -> list[TurnEvent]:
        """Refuse every call of a batch, so that all of them come again, corrected."""
        found = [problem for problem in problems if problem]
        # A call without an id of the backend's own cannot be answered.
        if any(record.call_id is None for record in records):
            self._repairs = MAX_REPAIRS
        orders = [
            RefuseCall(self._choice, record.call_id or "", problem.message if problem else NOT_RUN)
            for record, problem in zip(records, problems, strict=True)
        ]
        notes = [self._note_problem(problem) for problem in found]
        return [*notes, *self._order(orders, found[0].message if found else REJECTED)]

    def _order(self, orders: Sequence[Order], message: str) -> list[TurnEvent]:
        """Have the model try again, or give up."""
        if self._repairs >= MAX_REPAIRS:
            self.refusal = InvalidToolCall(message)
            return []
        self._repairs += 1
        self._orders += orders
        return [Note(self._choice, NoteKind.CALLS_SENT_BACK, ROW)]

    def _note_problem(self, problem: ToolCallProblem) -> Note:
        return Note(self._choice, NoteKind.CALL_FAULTY, ROW, problem.kind.value)
