"""What an answer is read for, and what follows from it: one value a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.lib.block_rows import BlockRow, RowSet, TextPattern, build_tool_call_row, build_use_tool_row
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport, TurnRequest
from app.lib.schema_check.budget import CheckBudget
from app.lib.schema_check.effort import Clock, stand_still
from app.lib.stop_policy import StopPolicy
from app.lib.text_gate import DEFAULT_MAX_CHARS
from app.lib.tool_call_aggregator import CallNaming, ToolCallAggregator, name_chat_call, name_response_call
from app.lib.tool_registry import NO_TOOLS, ChoiceMode, ToolRegistry

# Where a client gives its limit in tokens, only text can be counted: so many bytes are taken for one.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class AnswerRules:
    #: The spellings of calls in text that count.
    rows: RowSet
    policy: StopPolicy
    #: Every registered pattern; those without an opener are matched on an item's whole text.
    patterns: tuple[TextPattern, ...] = ()
    max_chars: int = DEFAULT_MAX_CHARS
    #: The client's own tools.
    registry: ToolRegistry = NO_TOOLS
    #: Whether an answer may hold several calls of them.
    parallel: bool = True
    #: How a call that stands in no block of the text is written as one; `None`: it is not.
    escape: EscapePolicy | None = None
    #: Texts that end the answer, and the most bytes of it.
    stop: tuple[str, ...] = ()
    max_bytes: int | None = None
    #: For what the check of a call's arguments may cost.
    clock: Clock = field(default=stand_still, compare=False)
    #: What clients know calls by.
    naming: CallNaming = name_chat_call
    #: Whether a client that is told of calls may come back with their results, by the ids it was given.
    awaits_results: bool = False

    def build_aggregator(self, id_suffix: str) -> ToolCallAggregator:
        aggregator = ToolCallAggregator(id_suffix, self.naming)
        for pattern in self.patterns:
            aggregator.register_text_pattern(pattern.name, pattern.matcher, pattern.opener, pattern.closer)
        return aggregator


#: Text is text.
PLAIN = AnswerRules(RowSet(()), StopPolicy())


@dataclass(slots=True)
class ChatReading:
    """What every chat request of a gateway shares; `suit` makes the rules of one."""

    policy: StopPolicy
    patterns: Sequence[TextPattern] = ()
    max_chars: int = DEFAULT_MAX_CHARS
    escape: EscapePolicy = EscapePolicy.XML
    clock: Clock = stand_still
    transport: ToolTransport = ToolTransport.NATIVE
    #: What a client's instructions mention if they ask for blocks.
    openers: tuple[str, ...] = field(init=False)
    _pattern_rows: list[BlockRow] = field(init=False)
    #: What is live where no tools are declared.
    _rows: RowSet = field(init=False)
    #: The policy where no blocks are expected.
    _run_on: StopPolicy = field(init=False)

    def __post_init__(self) -> None:
        self._pattern_rows = [row for pattern in self.patterns if (row := pattern.to_row())]
        self._rows = RowSet([build_use_tool_row(), *self._pattern_rows])
        self._run_on = self.policy.run_on()
        self.openers = tuple(row.opener for row in self._rows.rows.values())

    def suit(self, request: TurnRequest, mode: OutputMode, expects_blocks: bool) -> AnswerRules:
        """The rules of a request; where no blocks are expected, an answer may just be about them."""
        is_obsidian = mode is OutputMode.OBSIDIAN_XML
        # A turn may make any number of calls; checking them may cost it only so much in all.
        clock = CheckBudget(self.clock)
        rows, patterns = self._find_live_tags(request.tools, is_obsidian, clock)
        return AnswerRules(
            rows,
            self._choose_policy(request, expects_blocks),
            patterns,
            self.max_chars,
            request.tools,
            clock=clock,
            parallel=request.parallel,
            escape=self.escape if is_obsidian else None,
            stop=request.stop,
            max_bytes=to_bytes(request.max_tokens),
            awaits_results=not is_obsidian and request.choices == 1,
        )

    def _choose_policy(self, request: TurnRequest, expects_blocks: bool) -> StopPolicy:
        policy = self.policy if expects_blocks else self._run_on
        return policy.stop_at_one() if request.tools and not request.parallel else policy

    def _find_live_tags(
        self, registry: ToolRegistry, is_obsidian: bool, clock: Clock
    ) -> tuple[RowSet, tuple[TextPattern, ...]]:
        """None where no call may be made, or where all of the answer has to be one."""
        if registry.choice.mode is ChoiceMode.NONE or registry.demands_call:
            return PLAIN.rows, ()
        if not registry:
            return self._rows, tuple(self.patterns)
        is_any = is_obsidian and registry.choice.allowed is None
        names = None if is_any else frozenset(spec.name for spec in registry.callable)
        by_text = self.transport is ToolTransport.SENTINEL
        rows = [
            build_use_tool_row(names, registry, clock),
            build_tool_call_row(registry, clock, is_asked_for=by_text),
            *self._pattern_rows,
        ]
        return RowSet(rows), tuple(self.patterns)


@dataclass(frozen=True, slots=True)
class ResponsesReading:
    """What every Responses request shares; of the spellings of a call only `<tool_call>` counts (v2)."""

    policy: StopPolicy
    max_chars: int = DEFAULT_MAX_CHARS
    clock: Clock = stand_still
    transport: ToolTransport = ToolTransport.NATIVE

    def suit(self, request: TurnRequest) -> AnswerRules:
        registry, clock = request.tools, CheckBudget(self.clock)
        reads_text = bool(registry.callable) and not registry.demands_call
        by_text = self.transport is ToolTransport.SENTINEL
        rows = [build_tool_call_row(registry, clock, is_asked_for=by_text)] if reads_text else []
        return AnswerRules(
            RowSet(rows),
            self.policy if request.parallel else self.policy.stop_at_one(),
            max_chars=self.max_chars,
            registry=registry,
            parallel=request.parallel,
            stop=request.stop,
            max_bytes=to_bytes(request.max_tokens),
            clock=clock,
            naming=name_response_call,
            awaits_results=True,
        )


def to_bytes(max_tokens: int | None) -> int | None:
    return None if max_tokens is None else max_tokens * BYTES_PER_TOKEN
