"""The core: one turn's backend events in, the turn events every dialect reads out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from app.lib.deadlines import Deadlines, DeadlineWatch
from app.lib.errors import AnswerInterrupted, BackendUnavailable, ProxyError
from app.lib.events import (
    BackendEvent,
    Began,
    ChoiceEvent,
    Completed,
    Failed,
    Finished,
    FinishReason,
    MessageDone,
    ModelActive,
    Queued,
    Reasoning,
    ReasoningDelta,
    ReasoningDone,
    Retrying,
    Text,
    TextDelta,
    Tick,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    Usage,
    UsageReported,
    Waiting,
)


@dataclass(slots=True)
class _Choice:
    """What one choice has shown so far."""

    began: bool = False
    finish: FinishReason | None = None
    #: Items already shown, so that their whole form, which follows, repeats nothing.
    shown: set[str] = field(default_factory=set)

    def begin(self, index: int) -> list[TurnEvent]:
        self.began = True
        return [Began(index)]

    def claim(self, item_id: str) -> bool:
        """Mark an item as shown; false if it was."""
        before = len(self.shown)
        self.shown.add(item_id)
        return len(self.shown) > before


class TurnCore:
    """Feed it until `ended`; `finish` closes a turn whose events just stop."""

    def __init__(self, choices: int = 1, deadlines: Deadlines | None = None) -> None:
        self._choices = [_Choice() for _ in range(choices)]
        self._watch = DeadlineWatch(deadlines or Deadlines())
        self._usage = Usage()
        self.ended = False

    def feed_all(self, events: Iterable[BackendEvent]) -> list[TurnEvent]:
        out: list[TurnEvent] = []
        for event in events:
            out += self.feed(event)
        return out

    def feed(self, event: BackendEvent) -> list[TurnEvent]:
        if self.ended:
            return []
        match event:
            case Tick(now_s):
                overdue = self._watch.see(now_s)
                return self.fail(overdue) if overdue else []
            case TurnFailed(error):
                return self.fail(error)
            case Queued():
                return [Waiting()]
            case _:
                return self._feed_choice(event, self._choices[event.choice])

    def finish(self) -> list[TurnEvent]:
        return self.fail(BackendUnavailable("Codex ended the turn without an answer."))

    def fail(self, error: ProxyError) -> list[TurnEvent]:
        if self.ended:
            return []
        self.ended = True
        return [Failed(error)]

    def _feed_choice(self, event: ChoiceEvent, choice: _Choice) -> list[TurnEvent]:
        match event:
            case _ if choice.finish:
                return []
            case Retrying():
                return self._retry(choice)
            case UsageReported(_, usage):
                self._usage += usage
                return []
            case _:
                self._watch.note_event()
                shown = self._show(event, choice)
                return shown if choice.began else [*choice.begin(event.choice), *shown]

    def _show(
        self,
        event: ModelActive | TextDelta | MessageDone | ReasoningDelta | ReasoningDone | TurnEnded,
        choice: _Choice,
    ) -> list[TurnEvent]:
        match event:
            case TextDelta(index, item_id, text) if text:
                choice.shown.add(item_id)
                return [Text(index, item_id, text)]
            case ReasoningDelta(index, item_id, part, text) if text:
                choice.shown.add(item_id)
                return [Reasoning(index, item_id, part, text)]
            case MessageDone(index, item_id, text) if text and choice.claim(item_id):
                return [Text(index, item_id, text)]
            case ReasoningDone(index, item_id, parts) if any(parts) and choice.claim(item_id):
                return [Reasoning(index, item_id, part, text) for part, text in enumerate(parts) if text]
            case TurnEnded(index, reason):
                return self._end(index, reason)
            case ModelActive() | TextDelta() | ReasoningDelta() | MessageDone() | ReasoningDone():
                return []
            case _:
                assert_never(event)

    def _retry(self, choice: _Choice) -> list[TurnEvent]:
        """Let codex start over unseen, but never show an answer's beginning twice."""
        if not choice.shown:
            return []
        return self.fail(AnswerInterrupted("The connection to the model broke in the middle of the answer."))

    def _end(self, index: int, reason: FinishReason) -> list[TurnEvent]:
        self._choices[index].finish = reason
        finished: list[TurnEvent] = [Finished(index, reason)]
        if not all(choice.finish for choice in self._choices):
            return finished
        self.ended = True
        return [*finished, Completed(self._usage)]
