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
    Reasoning,
    Text,
    TurnEvent,
    Usage,
    Waiting,
)


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    text: str
    #: The parts of the summaries, in order.
    reasoning: tuple[str, ...]
    finish: FinishReason


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
                case Waiting():
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
    #: Item and part with their text, as they came.
    reasoning: list[tuple[tuple[str, int], str]] = field(default_factory=list)
    finish: FinishReason = FinishReason.STOP

    def add(self, event: Began | Text | Reasoning | Finished) -> None:
        match event:
            case Text(_, _, text):
                self.text.append(text)
            case Reasoning(_, item_id, part, text):
                self.reasoning.append(((item_id, part), text))
            case Finished(_, reason):
                self.finish = reason
            case Began():
                pass
            case _:
                assert_never(event)

    def to_result(self) -> ChoiceResult:
        runs = itertools.groupby(self.reasoning, key=operator.itemgetter(0))
        parts = tuple("".join(text for _, text in run) for _, run in runs)
        return ChoiceResult("".join(self.text), parts, self.finish)
