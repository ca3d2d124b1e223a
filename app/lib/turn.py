"""The core: one turn's backend events in, the turn events every dialect reads out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from app.lib.deadlines import Deadlines, DeadlineWatch
from app.lib.errors import AnswerInterrupted, BackendTimeout, BackendUnavailable, ClientGone, ProxyError
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
    TextDelta,
    Tick,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    Usage,
    UsageReported,
    Waiting,
)
from app.lib.stop_policy import choose_finish
from app.lib.text_gate import Reason
from app.lib.tool_text import NO_TOOLS, TextTools, ToolText

#: Why held text is let go, where the error tells.
REASONS: dict[type[ProxyError], Reason] = {
    BackendTimeout: Reason.DEADLINE,
    ClientGone: Reason.CLIENT_LEFT,
}


@dataclass(slots=True)
class _Choice:
    """What one choice has shown so far."""

    #: Where its text goes through.
    text: ToolText
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

    def __init__(
        self,
        choices: int = 1,
        deadlines: Deadlines | None = None,
        tools: TextTools = NO_TOOLS,
        id_suffix: str = "",
    ) -> None:
        """`id_suffix`, a random one, makes the ids of calls unique beyond this turn."""
        self._aggregator = tools.build_aggregator(id_suffix)
        self._choices = [_Choice(ToolText(index, tools, self._aggregator)) for index in range(choices)]
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
                return self._see(now_s)
            case TurnFailed(error):
                return self.fail(error)
            case Queued():
                return [Waiting()]
            case _:
                return self._feed_choice(event, self._choices[event.choice])

    def finish(self) -> list[TurnEvent]:
        return self.fail(BackendUnavailable("Codex ended the turn without an answer."))

    def fail(self, error: ProxyError) -> list[TurnEvent]:
        """End the turn with an error, behind whatever was held back until now."""
        if self.ended:
            return []
        self.ended = True
        reason = REASONS.get(type(error), Reason.STREAM_FAILED)
        running = [choice.text for choice in self._choices if not choice.finish]
        return [*(event for text in running for event in text.end_item(reason)), Failed(error)]

    def _see(self, now_s: float) -> list[TurnEvent]:
        overdue = self._watch.see(now_s)
        if overdue:
            return self.fail(overdue)
        out: list[TurnEvent] = []
        for index, choice in enumerate(self._choices):
            if not choice.finish:
                choice.text.see(now_s)
                out += self._heed(index)
        return out

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
                return [*choice.text.feed(item_id, text), *self._heed(index)]
            case ReasoningDelta(index, item_id, part, text) if text:
                choice.shown.add(item_id)
                return [Reasoning(index, item_id, part, text)]
            case MessageDone(index, item_id, text):
                return [*self._show_message(event, choice), *self._heed(index)]
            case ReasoningDone(index, item_id, parts) if any(parts) and choice.claim(item_id):
                return [Reasoning(index, item_id, part, text) for part, text in enumerate(parts) if text]
            case TurnEnded(index, reason):
                return self._end(index, reason)
            case ModelActive() | TextDelta() | ReasoningDelta() | ReasoningDone():
                return []
            case _:
                assert_never(event)

    def _show_message(self, message: MessageDone, choice: _Choice) -> list[TurnEvent]:
        """What a message's whole form adds: its text if none came before, and that nothing more will."""
        is_new = bool(message.text) and choice.claim(message.item_id)
        fed = choice.text.feed(message.item_id, message.text) if is_new else []
        return [*fed, *(choice.text.end_item() if choice.text.item_id == message.item_id else [])]

    def _heed(self, index: int) -> list[TurnEvent]:
        """Act on what a choice's text has come to: a call that must not go out, or a cut."""
        text = self._choices[index].text
        if text.refusal:
            return self.fail(text.refusal)
        return self._end(index, FinishReason.STOP) if text.is_cut else []

    def _retry(self, choice: _Choice) -> list[TurnEvent]:
        """Let codex start over unseen, but never show an answer's beginning twice."""
        if not choice.shown:
            return []
        return self.fail(AnswerInterrupted("The connection to the model broke in the middle of the answer."))

    def _end(self, index: int, reason: FinishReason) -> list[TurnEvent]:
        choice = self._choices[index]
        left = choice.text.end_item()
        if choice.text.refusal:
            return [*left, *self.fail(choice.text.refusal)]
        has_calls = self._aggregator.has_calls(index)
        choice.finish = choose_finish([reason, *([FinishReason.TOOL_CALLS] if has_calls else [])])
        finished = [*left, Finished(index, choice.finish)]
        if not all(choice.finish for choice in self._choices):
            return finished
        self.ended = True
        return [*finished, Completed(self._usage)]
