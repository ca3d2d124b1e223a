"""Assembles a turn's tool calls from payloads of any accepted shape, mixed as they come."""

from __future__ import annotations

from collections.abc import Callable

from app.lib.block_rows import Matcher, TextPattern
from app.lib.call_arguments import CallArguments
from app.lib.message_text import read_texts
from app.lib.obsidian import EscapePolicy, to_obsidian_xml
from app.lib.tool_blocks import build_rows, find_blocks
from app.lib.tool_call_shapes import CallSignal, Place, Told, read_signals
from app.lib.tool_calls import (
    IngestResult,
    ParsedTextBlock,
    TextCall,
    ToolCallDelta,
    ToolCallFunction,
    ToolCallRecord,
)

# A payload that is the very same object as one of so many before it is a repeat.
REMEMBERED = 256
NOTHING_NEW = IngestResult()
UNNAMED = ToolCallFunction("")


class _Call:
    """One call as it grows; without a name it is not shown, and its arguments wait."""

    __slots__ = ("arguments", "call_id", "changed", "function", "has_id", "id", "index")

    def __init__(self) -> None:
        self.id = ""
        self.index = -1
        self.function = UNNAMED
        self.call_id: str | None = None
        self.has_id = False
        self.arguments = CallArguments()
        self.changed = False

    def is_meant_by(self, signal: CallSignal) -> bool:
        """Whether a signal found by its place, which another call may have taken over, is about this one."""
        if (signal.ids and self.has_id) or self.is_named_otherwise(signal):
            return False
        return not (signal.name and self.function is not UNNAMED and self._is_behind(signal))

    def is_named_otherwise(self, signal: CallSignal) -> bool:
        """Whether a signal is another call's, whatever id or place they share."""
        return bool(signal.name) and self.function is not UNNAMED and signal.name != self.function.name

    def _is_behind(self, signal: CallSignal) -> bool:
        """Whether this call was complete before the signal began one like it."""
        again = signal.told is Told.WHOLE and self.arguments.is_same(signal.text or "")
        return self.arguments.is_whole and not again

    def take(self, signal: CallSignal) -> None:
        self.has_id = self.has_id or bool(signal.ids)
        if signal.call_id != self.id:  # ours, come back, is not the backend's
            self.call_id = self.call_id or signal.call_id
        if signal.name and self.function is UNNAMED:
            self.function = ToolCallFunction(signal.name)
            self.changed = True
        self.changed = self.arguments.take(signal) or self.changed

    def absorb(self, other: _Call) -> None:
        self.changed = self.arguments.absorb(other.arguments) or self.changed
        other.arguments = CallArguments()

    def to_delta(self) -> ToolCallDelta:
        self.changed = False
        added, view = self.arguments.give()
        return ToolCallDelta(self.id, self.function, self.index, added, view, self.call_id)

    def to_record(self) -> ToolCallRecord:
        return ToolCallRecord(self.id, self.function, self.arguments.read(), self.call_id)


class _Choice:
    """The calls of one choice, and the ways they are known by."""

    def __init__(self, name: Callable[[int], str]) -> None:
        """`name` gives the call of a place its id."""
        self._name = name
        #: In the order in which their names came: that is the order clients see.
        self.shown: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_place: dict[Place, _Call] = {}
        self._current: _Call | None = None

    def take(self, signal: CallSignal) -> _Call:
        call = self._find(signal) or _Call()
        call.take(signal)
        self._current = call
        for id_ in signal.ids:
            self._by_id[id_] = call
        if signal.place:
            self._by_place[signal.place] = call
        if call.index < 0 and call.function is not UNNAMED:
            self._show(call)
        return call

    def add(self, text_call: TextCall) -> _Call:
        """A call read from text: complete as it is, and only our own id for it leads there."""
        call = _Call()
        call.take(CallSignal(Told.WHOLE, text_call.arguments, text_call.name))
        call.arguments.close()
        self._show(call)
        return call

    def _find(self, signal: CallSignal) -> _Call | None:
        known = [self._by_id[id_] for id_ in signal.ids if id_ in self._by_id]
        known = [call for call in known if not call.is_named_otherwise(signal)]
        if known:
            return self._join(known)
        call = self._by_place.get(signal.place) if signal.place else self._find_current(signal)
        if call is None and (not signal.name or signal.told is Told.WHOLE):
            call = self._find_in_order(signal)
        return call if call and call.is_meant_by(signal) else None

    def _join(self, known: list[_Call]) -> _Call:
        """One call, though its ids were met apart: what waited for a name under one goes to the other."""
        named = next((call for call in known if call.function is not UNNAMED), known[0])
        for other in known:
            if other is not named and other.function is UNNAMED:
                named.absorb(other)
        return named

    def _find_current(self, signal: CallSignal) -> _Call | None:
        """Without id and place the last call goes on, unless one with a name begins."""
        call = self._current
        return None if call and signal.name and call.function is not UNNAMED else call

    def _find_in_order(self, signal: CallSignal) -> _Call | None:
        """In another shape than its call began in: the call of that number, or for fragments the last one."""
        numbering, number = signal.place or ("", 0)
        if numbering == "index" and number < len(self.shown):
            call: _Call | None = self.shown[number]
        else:
            call = None if signal.name else self._current
        return None if call is None or call.arguments.is_whole else call

    def _show(self, call: _Call) -> None:
        call.index = len(self.shown)
        call.id = self._name(call.index)
        self._by_id.setdefault(call.id, call)  # what we gave out may come back to us
        self.shown.append(call)


def name_chat_call(choice: int, index: int) -> str:
    return f"tool_{choice}_{index}"


def name_response_call(_choice: int, index: int) -> str:
    """D1; a response has one choice."""
    return f"fc_{index + 1:03}"


#: How a dialect names the call of a choice and a place.
CallNaming = Callable[[int, int], str]


class ToolCallAggregator:
    """Feed it every payload of a turn; it ignores what is not about calls, and never raises over one."""

    def __init__(self, suffix: str = "", naming: CallNaming = name_chat_call) -> None:
        """`suffix` makes the ids unique beyond this turn; it is random, so it comes from outside."""
        self._suffix = f"_{suffix}" if suffix else ""
        self._naming = naming
        self._choices: dict[int, _Choice] = {}
        self._seen: dict[tuple[int, int], object] = {}
        self._patterns: dict[str, TextPattern] = {}

    def ingest_delta(self, delta: object, choice_index: int = 0) -> IngestResult:
        """Take one streamed payload; the calls it changed come back, each with all that is known of it.

        A choice the payload itself names counts where the caller leaves `choice_index` at 0.
        """
        return self._ingest(delta, choice_index, whole=False)

    def ingest_message(self, msg: object, choice_index: int = 0, emit_if_missing: bool = False) -> None:
        """Take a final message; `emit_if_missing` reads its text where a choice has no calls otherwise."""
        self._ingest(msg, choice_index, whole=True)
        for choice, text in read_texts(msg).items() if emit_if_missing else ():
            index = choice_index or choice or 0
            for block in () if self.has_calls(index) else self.extract_use_tool_blocks(text):
                self.ingest_call(TextCall(block.name, block.args_text), index)

    def ingest_call(self, call: TextCall, choice_index: int = 0) -> ToolCallDelta:
        """Record a call that was read from text; it comes back as its only delta."""
        return self._choice(choice_index).add(call).to_delta()

    def snapshot(self, choice_index: int = 0) -> tuple[ToolCallRecord, ...]:
        choice = self._choices.get(choice_index)
        return tuple(call.to_record() for call in choice.shown) if choice else ()

    def has_calls(self, choice_index: int = 0) -> bool:
        choice = self._choices.get(choice_index)
        return bool(choice and choice.shown)

    def reset_turn(self) -> None:
        """Forget every call and free its text; patterns stay."""
        self._choices.clear()
        self._seen.clear()

    def register_text_pattern(
        self, name: str, matcher: Matcher, opener: str | None = None, closer: str | None = None
    ) -> None:
        """Know one more spelling of calls in text; see `TextPattern`. Its name replaces one like it."""
        patterns = self._patterns | {name: TextPattern(name, matcher, opener, closer)}
        build_rows(patterns.values())  # raises where its opener cannot be told from another
        self._patterns = patterns

    def extract_use_tool_blocks(self, buffer: str) -> tuple[ParsedTextBlock, ...]:
        """The complete blocks of a text, built-in and registered, in order; nothing is recorded."""
        return find_blocks(buffer, self._patterns.values())

    def to_obsidian_xml(self, choice_index: int = 0, escape: EscapePolicy = EscapePolicy.XML) -> str | None:
        """The first call of a choice as an Obsidian block."""
        choice = self._choices.get(choice_index)
        return to_obsidian_xml(choice.shown[0].to_record(), escape) if choice and choice.shown else None

    def _ingest(self, payload: object, choice_index: int, whole: bool) -> IngestResult:
        if (id(payload), choice_index) in self._seen:
            return NOTHING_NEW
        signals = read_signals(payload, whole)
        self._remember(payload, choice_index, signals)
        # The caller's word counts for a payload of one choice; several are told apart by the payload alone.
        asked = choice_index if len({signal.choice for signal in signals}) < 2 else 0
        taken = [self._choice(asked or signal.choice or 0).take(signal) for signal in signals]
        # A call changed twice by one payload tells it once: giving its delta settles it.
        deltas = tuple(call.to_delta() for call in taken if call.changed and call.index >= 0)
        return IngestResult(True, deltas) if deltas else NOTHING_NEW

    def _remember(self, payload: object, choice_index: int, signals: list[CallSignal]) -> None:
        """Keep a payload that would say something new again, so that its id stays its own."""
        if any(signal.told is Told.FRAGMENT or not signal.ids for signal in signals):
            self._seen[id(payload), choice_index] = payload
            if len(self._seen) > REMEMBERED:
                del self._seen[next(iter(self._seen))]

    def _choice(self, index: int) -> _Choice:
        if index not in self._choices:
            self._choices[index] = _Choice(lambda place: self._naming(index, place) + self._suffix)
        return self._choices[index]


def create_tool_call_aggregator(suffix: str = "") -> ToolCallAggregator:
    """The contract's factory."""
    return ToolCallAggregator(suffix)
