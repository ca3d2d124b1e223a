"""One choice's text on its way to the client: through the gate, calls recorded, the tail judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from app.lib.block_rows import RowSet, TextPattern
from app.lib.errors import InvalidToolCall
from app.lib.events import Note, NoteKind, Text, ToolBlock, ToolCalled, TurnEvent
from app.lib.prompt import Prompt, mentions
from app.lib.sentinel import ToolCallProblem
from app.lib.stop_policy import Fate, StopPolicy, ToolTail
from app.lib.text_buffer import TextBuffer
from app.lib.text_gate import (
    DEFAULT_MAX_CHARS,
    Buffered,
    Found,
    GateEvent,
    Passed,
    Reason,
    Refused,
    TextGate,
)
from app.lib.tool_blocks import build_rows, find_held, find_unheld
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import TextCall


@dataclass(frozen=True, slots=True)
class TextTools:
    """What a request's text is read for, and what follows from it."""

    rows: RowSet
    policy: StopPolicy
    #: Every registered pattern; those without an opener are matched on an item's whole text.
    patterns: tuple[TextPattern, ...] = ()
    max_chars: int = DEFAULT_MAX_CHARS

    def build_aggregator(self, id_suffix: str) -> ToolCallAggregator:
        aggregator = ToolCallAggregator(id_suffix)
        for pattern in self.patterns:
            aggregator.register_text_pattern(pattern.name, pattern.matcher, pattern.opener, pattern.closer)
        return aggregator

    def suited_to(self, prompt: Prompt) -> TextTools:
        """These, if the instructions speak of such blocks; otherwise an answer may just be about them."""
        openers = [row.opener for row in self.rows.rows.values()]
        return self if mentions(prompt, openers) else replace(self, policy=self.policy.run_on())


def build_chat_tools(
    policy: StopPolicy, patterns: Iterable[TextPattern] = (), max_chars: int = DEFAULT_MAX_CHARS
) -> TextTools:
    """What chat reads in text: `<use_tool>` blocks, and every registered pattern."""
    known = tuple(patterns)
    return TextTools(build_rows(known), policy, known, max_chars)


#: Text is text.
NO_TOOLS = TextTools(RowSet(()), StopPolicy())


class ToolText:
    def __init__(self, choice: int, tools: TextTools, aggregator: ToolCallAggregator) -> None:
        self._choice = choice
        self._gate = TextGate(tools.rows, tools.max_chars)
        self._tail = ToolTail(tools.policy)
        self._aggregator = aggregator
        #: The item whose text came last.
        self.item_id = ""
        self._tools = tools
        #: An item's text so far, if a pattern wants it whole.
        self._whole = TextBuffer()
        self._keeps_whole = any(not pattern.opener for pattern in tools.patterns)
        #: Set once the model did what must not go out.
        self.refusal: InvalidToolCall | None = None

    @property
    def is_cut(self) -> bool:
        return self._tail.is_cut

    def feed(self, item_id: str, text: str) -> list[TurnEvent]:
        out = self.end_item() if item_id != self.item_id else []
        self.item_id = item_id
        if self._keeps_whole:
            self._whole.append(text)
        return out + self._take_all(self._gate.feed(text))

    def end_item(self, reason: Reason = Reason.STREAM_ENDED) -> list[TurnEvent]:
        """No block spans two items: what the last one left open is let go."""
        out = self._take_all(self._gate.finish(reason))
        if self._keeps_whole and self.refusal is None:
            out += self._match_whole()
        return out

    def see(self, now_s: float) -> None:
        self._tail.see(now_s, self._gate.is_in_block)

    def _match_whole(self) -> list[TurnEvent]:
        """Read a finished item with the patterns no opener announces; its text is out already."""
        text, self._whole = self._whole.read(), TextBuffer()
        held = find_held(text, self._tools.rows)
        return [
            self._record(TextCall(block.name, block.args_text))
            for block in find_unheld(text, self._tools.patterns, held)
            if self._tail.decide(text[block.index_start : block.index_end]).is_call
        ]

    def _take_all(self, events: list[GateEvent]) -> list[TurnEvent]:
        out: list[TurnEvent] = []
        for event in events:
            if self.refusal is None and not self._tail.is_cut:  # nothing goes out behind either
                out += self._take(event)
        return out

    def _take(self, event: GateEvent) -> list[TurnEvent]:
        match event:
            case Passed(text):
                return [Text(self._choice, self.item_id, text)] if self._tail.admits(text) else []
            case Found():
                return self._take_block(event)
            case Refused(_, problem):
                self.refusal = InvalidToolCall(problem.message)
                return []
            case Buffered(row, kind, reason, problem):
                return [self._note(kind, row, reason or ""), *self._note_problem(row, problem)]
            case _:
                assert_never(event)

    def _take_block(self, found: Found) -> list[TurnEvent]:
        match self._tail.decide(found.text):
            case Fate.SHOWN:
                block = ToolBlock(self._choice, self.item_id, found.text)
                return [*self._notes(found), self._record(found.call), block]
            case Fate.RECORDED:
                return [*self._notes(found), self._record(found.call)]
            case Fate.TEXT:
                return [Text(self._choice, self.item_id, found.text)]
            case Fate.DROPPED:
                return []
            case fate:
                assert_never(fate)

    def _record(self, call: TextCall) -> ToolCalled:
        return ToolCalled(self._choice, self._aggregator.ingest_call(call, self._choice))

    def _notes(self, found: Found) -> list[TurnEvent]:
        repaired = [self._note(NoteKind.ARGUMENTS_REPAIRED, found.row)] if found.repaired else []
        return [*repaired, *self._note_problem(found.row, found.problem)]

    def _note_problem(self, row: str, problem: ToolCallProblem | None) -> list[Note]:
        return [self._note(NoteKind.CALL_FAULTY, row, problem.kind.value)] if problem else []

    def _note(self, kind: NoteKind, row: str, reason: str = "") -> Note:
        return Note(self._choice, kind, row, reason)
