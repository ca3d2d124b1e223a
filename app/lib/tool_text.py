"""One choice's text on its way to the client: through the gate, calls recorded, the tail judged."""

from __future__ import annotations

from typing import assert_never

from app.lib.answer_rules import AnswerRules
from app.lib.block_rows import TOOL_CALL
from app.lib.errors import InvalidToolCall
from app.lib.events import FinishReason, Note, NoteKind, Text, ToolBlock, ToolCalled, TurnEvent
from app.lib.obsidian import to_obsidian_xml
from app.lib.sentinel import ToolCallProblem
from app.lib.stop_policy import Fate, ToolTail
from app.lib.text_buffer import TextBuffer
from app.lib.text_gate import Buffered, Found, GateEvent, Passed, Reason, Refused, TextGate
from app.lib.text_limits import TextLimits
from app.lib.tool_blocks import find_held, find_unheld
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import TextCall


class ToolText:
    def __init__(self, choice: int, rules: AnswerRules, aggregator: ToolCallAggregator) -> None:
        self._choice = choice
        self._gate = TextGate(rules.rows, rules.max_chars)
        self._tail = ToolTail(rules.policy)
        self._limits = TextLimits(rules.stop, rules.max_bytes)
        self._aggregator = aggregator
        #: The item whose text came last.
        self.item_id = ""
        self._rules = rules
        #: An item's text so far, if a pattern wants it whole.
        self._whole = TextBuffer()
        self._keeps_whole = any(not pattern.opener for pattern in rules.patterns)
        #: Blocks of a batch: they come behind all of its calls.
        self._owed: list[TurnEvent] = []
        #: Whether text that spells nothing goes out as it is.
        self._flows = not (self._keeps_whole or rules.stop or rules.max_bytes is not None)
        #: Set once the model did what must not go out.
        self.refusal: InvalidToolCall | None = None

    @property
    def cut(self) -> FinishReason | None:
        """Why nothing more is wanted, if so."""
        return FinishReason.STOP if self._tail.is_cut else self._limits.reached

    @property
    def has_blocks(self) -> bool:
        """Whether a call was read, and so is complete."""
        return self._tail.has_blocks

    def feed(self, item_id: str, text: str, pieces: tuple[str, ...] = ()) -> list[TurnEvent]:
        """Take more of an item's text, which may have come in several pieces."""
        out = self.end_item() if item_id != self.item_id else []
        self.item_id = item_id
        # Most text is only text: the short way for it.
        if self._flows and self._gate.lets_through(text):
            return [*out, Text(self._choice, item_id, text, pieces)]
        for piece in pieces or (text,):
            if self._keeps_whole:
                self._whole.append(piece)
            out += self._take_all(self._gate.feed(piece))
        return out

    def end_item(self, reason: Reason = Reason.STREAM_ENDED) -> list[TurnEvent]:
        """No block spans two items: what the last one left open is let go."""
        out = self._take_all(self._gate.finish(reason))
        out += [*self._show(self._limits.flush()), *self._pay()]
        if self._keeps_whole and self.refusal is None:
            out += self._match_whole()
        return out

    def see(self, now_s: float) -> None:
        self._tail.see(now_s, self._gate.is_in_block)

    def _match_whole(self) -> list[TurnEvent]:
        """Read a finished item with the patterns no opener announces; its text is out already."""
        text, self._whole = self._whole.read(), TextBuffer()
        held = find_held(text, self._rules.rows)
        return [
            self._record(TextCall(block.name, block.args_text))
            for block in find_unheld(text, self._rules.patterns, held)
            if self._tail.decide(text[block.index_start : block.index_end]).is_call
        ]

    def _take_all(self, events: list[GateEvent]) -> list[TurnEvent]:
        out: list[TurnEvent] = []
        for event in events:
            if self.refusal is None and self.cut is None:  # nothing goes out behind either
                out += self._take(event)
        return out

    def _take(self, event: GateEvent) -> list[TurnEvent]:
        match event:
            case Passed(text):
                return self._show(self._limits.feed(text)) if self._tail.admits(text) else []
            case Found():
                before = self._show(self._limits.flush())  # no text to wait for stands across a block
                return before if self.cut else [*before, *self._take_block(event)]
            case Refused(_, problem):
                self._flows, self.refusal = False, InvalidToolCall(problem.message)
                return []
            case Buffered(row, kind, reason, problem):
                return [self._note(kind, row, reason or ""), *self._note_problem(row, problem)]
            case _:
                assert_never(event)

    def _take_block(self, found: Found) -> list[TurnEvent]:
        self._flows = False  # from here on the tail is judged
        is_of_batch = found.row == TOOL_CALL and self._rules.parallel
        match self._tail.decide(found.text, is_of_batch):
            case Fate.SHOWN:
                called = self._record(found.call)
                self._owed.append(ToolBlock(self._choice, self.item_id, self._write_block(found, called)))
                return [*self._notes(found), called, *([] if is_of_batch else self._pay())]
            case Fate.RECORDED:
                return [*self._notes(found), self._record(found.call)]
            case Fate.TEXT:
                return self._show(self._limits.feed(found.text))
            case Fate.DROPPED:
                return []
            case fate:
                assert_never(fate)

    def _write_block(self, found: Found, called: ToolCalled) -> str:
        """A block as it stands in the text; what our own manifest asks for, in the client's spelling."""
        if self._rules.escape is None or found.row != TOOL_CALL:
            return found.text
        return to_obsidian_xml(called.delta.to_record(), self._rules.escape)

    def _show(self, text: str) -> list[TurnEvent]:
        return [*self._pay(), Text(self._choice, self.item_id, text)] if text else []

    def _pay(self) -> list[TurnEvent]:
        owed, self._owed = self._owed, []
        return owed

    def _record(self, call: TextCall) -> ToolCalled:
        return ToolCalled(self._choice, self._aggregator.ingest_call(call, self._choice))

    def _notes(self, found: Found) -> list[TurnEvent]:
        repaired = [self._note(NoteKind.ARGUMENTS_REPAIRED, found.row)] if found.repaired else []
        return [*repaired, *self._note_problem(found.row, found.problem)]

    def _note_problem(self, row: str, problem: ToolCallProblem | None) -> list[Note]:
        return [self._note(NoteKind.CALL_FAULTY, row, problem.kind.value)] if problem else []

    def _note(self, kind: NoteKind, row: str, reason: str = "") -> Note:
        return Note(self._choice, kind, row, reason)
