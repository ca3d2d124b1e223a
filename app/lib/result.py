"""A turn as one value: what a non-stream answer is rendered from."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from app.lib.events import (
    Began,
    Completed,
    Failed,
    Finished,
    FinishReason,
    LimitsTold,
    Note,
    Placed,
    Reasoning,
    ReasoningEnded,
    Searched,
    ShownEvent,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
    Waiting,
)
from app.lib.tool_calls import ToolCallDelta, ToolCallRecord
from app.lib.usage import Usage


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    #: What was said, without the blocks that calls were read from.
    text: str
    #: The parts of the summaries, in order.
    reasoning: tuple[str, ...]
    finish: FinishReason
    calls: tuple[ToolCallRecord, ...] = ()
    #: Those blocks, each with how much of the text stood before it.
    blocks: tuple[tuple[int, str], ...] = ()

    @property
    def transcript(self) -> str:
        """The text with the blocks where they stood."""
        pieces, last = [], 0
        for place, block in self.blocks:
            pieces += [self.text[last:place], block]
            last = place
        return "".join([*pieces, self.text[last:]])


@dataclass(frozen=True, slots=True)
class TurnResult:
    choices: tuple[ChoiceResult, ...]
    usage: Usage


def collect(batches: Iterable[list[TurnEvent]], choices: int = 1) -> TurnResult:
    """Fold a turn's events into its result; a failed turn raises its error."""
    folded = [_Fold() for _ in range(choices)]
    usage = Usage()
    for batch in batches:
        for event in batch:
            match event:
                case Waiting() | Placed() | LimitsTold() | Note():
                    pass
                case Completed(total):
                    usage = total
                case Failed(error):
                    raise error
                case _:
                    folded[event.choice].add(event)
    return TurnResult(tuple(fold.to_result() for fold in folded), usage)


@dataclass(slots=True)
class _Fold:
    text: list[str] = field(default_factory=list)
    length: int = 0
    blocks: list[tuple[int, str]] = field(default_factory=list)
    #: Item and part with their text, as they came.
    reasoning: list[tuple[tuple[str, int], str]] = field(default_factory=list)
    #: Each call as it was told last, by its place.
    calls: dict[int, ToolCallDelta] = field(default_factory=dict)
    finish: FinishReason = FinishReason.STOP

    def add(self, event: ShownEvent) -> None:
        match event:
            case Text(_, _, text):
                self.text.append(text)
                self.length += len(text)
            case ToolBlock(_, _, text):
                self.blocks.append((self.length, text))
            case Reasoning(_, item_id, part, text):
                self.reasoning.append(((item_id, part), text))
            case ToolCalled(_, delta):
                self.calls[delta.index] = delta
            case Finished(_, reason):
                self.finish = reason
            case Began() | ReasoningEnded() | Searched():
                pass
            case _:
                assert_never(event)

    def to_result(self) -> ChoiceResult:
        runs = itertools.groupby(self.reasoning, key=operator.itemgetter(0))
        parts = tuple("".join(text for _, text in run) for _, run in runs)
        calls = tuple(delta.to_record() for delta in self.calls.values())
        return ChoiceResult("".join(self.text), parts, self.finish, calls, tuple(self.blocks))
