"""What an answer is read for, and what follows from it: one value a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from app.lib.block_rows import BlockRow, RowSet, TextPattern, build_tool_call_row, build_use_tool_row
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import TurnRequest
from app.lib.schema_check.effort import Clock
from app.lib.stop_policy import StopPolicy
from app.lib.text_gate import DEFAULT_MAX_CHARS
from app.lib.tool_call_aggregator import ToolCallAggregator
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
    clock: Clock = field(default=lambda: 0.0, compare=False)

    def build_aggregator(self, id_suffix: str) -> ToolCallAggregator:
        aggregator = ToolCallAggregator(id_suffix)
        for pattern in self.patterns:
            aggregator.register_text_pattern(pattern.name, pattern.matcher, pattern.opener, pattern.closer)
        return aggregator


#: Text is text.
PLAIN = AnswerRules(RowSet(()), StopPolicy())


class ChatReading:
    """What every chat request of a gateway shares; `suit` makes the rules of one."""

    def __init__(
        self,
        policy: StopPolicy,
        patterns: Iterable[TextPattern] = (),
        max_chars: int = DEFAULT_MAX_CHARS,
        escape: EscapePolicy = EscapePolicy.XML,
        clock: Clock = lambda: 0.0,
    ) -> None:
        self._patterns = tuple(patterns)
        self._pattern_rows = [row for pattern in self._patterns if (row := pattern.to_row())]
        self._escape = escape
        rows = RowSet([build_use_tool_row(), *self._pattern_rows])
        self._open = AnswerRules(rows, policy, self._patterns, max_chars, clock=clock)
        #: What a client's instructions mention if they ask for blocks.
        self.openers = tuple(row.opener for row in rows.rows.values())

    def suit(self, request: TurnRequest, mode: OutputMode, expects_blocks: bool) -> AnswerRules:
        """The rules of a request; where no blocks are expected, an answer may just be about them."""
        is_obsidian = mode is OutputMode.OBSIDIAN_XML
        max_tokens = request.max_tokens
        return replace(
            self._read_text_for(request.tools, is_obsidian),
            policy=self._choose_policy(request, expects_blocks),
            registry=request.tools,
            parallel=request.parallel,
            escape=self._escape if is_obsidian else None,
            stop=request.stop,
            max_bytes=None if max_tokens is None else max_tokens * BYTES_PER_TOKEN,
        )

    def _choose_policy(self, request: TurnRequest, expects_blocks: bool) -> StopPolicy:
        policy = self._open.policy if expects_blocks else self._open.policy.run_on()
        return policy.stop_at_one() if request.tools and not request.parallel else policy

    def _read_text_for(self, registry: ToolRegistry, is_obsidian: bool) -> AnswerRules:
        """Which tags are live: none where no call may be made, or where all of the answer has to be one."""
        if registry.choice.mode is ChoiceMode.NONE or registry.demands_call:
            return replace(self._open, rows=PLAIN.rows, patterns=())
        if not registry:
            return self._open
        rows = [*self._build_tool_rows(registry, is_obsidian), *self._pattern_rows]
        return replace(self._open, rows=RowSet(rows))

    def _build_tool_rows(self, registry: ToolRegistry, is_obsidian: bool) -> list[BlockRow]:
        is_any = is_obsidian and registry.choice.allowed is None
        names = None if is_any else frozenset(spec.name for spec in registry.callable)
        clock = self._open.clock
        return [build_use_tool_row(names, registry, clock), build_tool_call_row(registry, clock)]
