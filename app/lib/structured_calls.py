"""One choice's calls that come as calls, not in its text: shown as they come, or held until all hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from app.lib.answer_rules import AnswerRules
from app.lib.errors import InvalidToolCall
from app.lib.events import (
    CallComing,
    CallRejected,
    Note,
    NoteKind,
    ToolBlock,
    ToolCalled,
    ToolSignal,
    TurnEvent,
)
from app.lib.forced_call import read_forced
from app.lib.obsidian import to_obsidian_xml
from app.lib.orders import AskAgain, Order, RefuseCall
from app.lib.sentinel import ProblemKind, ToolCallProblem, judge_call
from app.lib.stop_policy import StopMode
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import ToolCallDelta, ToolCallRecord

# Rounds in which the model corrects its calls, unseen; then the client is told.
MAX_REPAIRS = 2
# Rounds in which codex itself has the model correct calls, where no tool is strict.
MAX_REJECTIONS = 8
#: The telemetry's word for calls that no text spells.
ROW = "function"
NOT_RUN = "This call was not run, since another one beside it was refused. Repeat it with that one corrected."
REJECTED = "The model called a tool that is not declared, or with unreadable arguments."


@dataclass(slots=True)
class _Response:
    """What is known of the calls of a response until it is complete."""

    #: Where a tool is strict: nobody sees a call before all of them hold.
    held: list[dict[str, Any]] = field(default_factory=list)
    has_calls: bool = False
    has_rejected: bool = False


class StructuredCalls:
    """Feed it payloads; `complete` at the end of a model response, `conclude` at the end of the turn."""

    def __init__(
        self, choice: int, rules: AnswerRules, aggregator: ToolCallAggregator, orders: list[Order]
    ) -> None:
        """What the backend is to do is added to `orders`."""
        self._choice = choice
        self._rules = rules
        self._aggregator = aggregator
        self._orders = orders
        self._response = _Response()
        self._repairs = 0
        self._rejections = 0
        #: Whether a call was made that ends the answer, shown or not.
        self.is_called = False
        #: Whether an answer that had to be a call was none, and another one is to come.
        self.is_asking = False
        #: The calls the client knows of, each as it was told last, by its place.
        self.shown: dict[int, ToolCallDelta] = {}
        #: Set once the model had its chances to call a strict tool right.
        self.refusal: InvalidToolCall | None = None

    @property
    def is_pending(self) -> bool:
        """Whether calls came of a response that is not complete yet."""
        return self._response.has_calls

    def hear(self, event: CallComing | ToolSignal | CallRejected) -> list[TurnEvent]:
        match event:
            case CallComing():
                self._response.has_calls = True
                return []
            case ToolSignal(_, payload):
                return self._take(payload)
            case CallRejected():
                return self._reject()
            case _:
                assert_never(event)

    def _take(self, payload: dict[str, Any]) -> list[TurnEvent]:
        if not self._rules.registry.any_strict:
            return [self._show(delta) for delta in self._read(payload)]
        self._response.held.append(payload)
        return []

    def _reject(self) -> list[TurnEvent]:
        """A call that codex has the model correct; where a tool is strict, its whole batch does not hold."""
        self._response.has_rejected = True
        return [Note(self._choice, NoteKind.CALL_FAULTY, ROW, "rejected")]

    def complete(self) -> list[TurnEvent]:
        """A model response ended: show the calls that waited for it, or have all of them corrected."""
        response = self._response
        self.forget()
        if not self._rules.registry.any_strict:
            return self._count_rejection() if response.has_rejected else []
        records = self._assemble(response.held)
        problems = self._find_problems(records)
        if response.has_rejected or any(problems):
            return self._repair(records, problems)
        # Only what was judged goes out: a payload may have been overtaken by another.
        deltas = {delta.index: delta for payload in response.held for delta in self._read(payload)}
        return [self._show(delta) for delta in deltas.values()]

    def forget(self) -> None:
        """Whatever waits is not to be: its response starts over, or is dealt with."""
        self._response = _Response()

    def conclude(self) -> list[TurnEvent]:
        """The turn is over: nothing can be corrected any more."""
        self._repairs = MAX_REPAIRS
        return self.complete()

    def find_awaited(self) -> tuple[ToolCallRecord, ...]:
        """The calls whose results the turn may wait for: none, unless the client knows all of them by ids."""
        known = tuple(delta.to_record() for delta in self.shown.values())
        made = self._aggregator.snapshot(self._choice)
        is_told = self.is_called and len(known) == len(made)
        can_wait = self._rules.awaits_results and is_told and all(record.call_id for record in known)
        return known if can_wait else ()

    def read_answer(self, text: str | None) -> list[TurnEvent]:
        """Take an answer that had to be a call; without one the choice ends as it is."""
        self.is_asking = False
        if text is None:
            return []
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

    def _read(self, payload: dict[str, Any]) -> list[ToolCallDelta]:
        """What a payload changes of the calls that the client is to see."""
        deltas = self._aggregator.ingest_delta(payload, self._choice).deltas
        self.is_called = self.is_called or bool(deltas)
        return [delta for delta in deltas if self._rules.parallel or delta.index == 0]

    def _show(self, delta: ToolCallDelta) -> ToolCalled:
        self.shown[delta.index] = delta
        return ToolCalled(self._choice, delta)

    def _assemble(self, payloads: Sequence[dict[str, Any]]) -> tuple[ToolCallRecord, ...]:
        """The calls in a batch that nobody has seen yet."""
        scratch = ToolCallAggregator()
        for payload in payloads:
            scratch.ingest_delta(payload, self._choice)
        return scratch.snapshot(self._choice)

    def _find_problems(self, records: Sequence[ToolCallRecord]) -> list[ToolCallProblem | None]:
        """What is wrong with each that the client would see, if that matters."""
        registry, clock = self._rules.registry, self._rules.clock
        seen = records if self._rules.parallel else records[:1]
        found = [
            judge_call(record.function.name, record.arguments, registry, clock).problem for record in seen
        ]
        problems = [problem if problem and matters(problem) else None for problem in found]
        return [*problems, *([None] * (len(records) - len(seen)))]

    def _count_rejection(self) -> list[TurnEvent]:
        """Codex goes on correcting for ever; a client need not pay for that."""
        self._rejections += 1
        if self._rejections > MAX_REJECTIONS:
            self.refusal = InvalidToolCall(REJECTED)
        return []

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


def matters(problem: ToolCallProblem) -> bool:
    """Whether a call must not go out; in text, one that is not allowed would be just text."""
    return problem.fatal or problem.kind is ProblemKind.NOT_ALLOWED
