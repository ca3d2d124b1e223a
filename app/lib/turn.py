"""The core: one turn's backend events in, the turn events every dialect reads out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from app.lib.answer_rules import PLAIN, AnswerRules
from app.lib.choice import Choice
from app.lib.deadlines import Deadlines, DeadlineWatch
from app.lib.errors import AnswerInterrupted, BackendTimeout, BackendUnavailable, ClientGone, ProxyError
from app.lib.events import (
    AnswerEvent,
    BackendEvent,
    CallComing,
    CallRejected,
    ChoiceEvent,
    Completed,
    Failed,
    Finished,
    FinishReason,
    LimitsTold,
    MessageDone,
    ModelActive,
    Note,
    NoteKind,
    Placed,
    Queued,
    ReasoningDelta,
    ReasoningDone,
    ResponseDone,
    Retrying,
    SearchDone,
    TextDelta,
    Tick,
    ToolSignal,
    TurnEnded,
    TurnEvent,
    TurnFailed,
    Waiting,
)
from app.lib.orders import AwaitResults, Order, StopChoice
from app.lib.stop_policy import choose_finish
from app.lib.text_gate import Reason
from app.lib.tool_call_shapes import split_choices
from app.lib.usage import Usage

#: Why held text is let go, where the error tells.
REASONS: dict[type[ProxyError], Reason] = {
    BackendTimeout: Reason.DEADLINE,
    ClientGone: Reason.CLIENT_LEFT,
}


class TurnCore:
    """Feed it until `ended`; `finish` closes a turn whose events just stop."""

    def __init__(
        self,
        choices: int = 1,
        deadlines: Deadlines | None = None,
        rules: AnswerRules = PLAIN,
        id_suffix: str = "",
    ) -> None:
        """`id_suffix`, a random one, makes the ids of calls unique beyond this turn."""
        self._aggregator = rules.build_aggregator(id_suffix)
        self._orders: list[Order] = []
        self._choices = [Choice(index, rules, self._aggregator, self._orders) for index in range(choices)]
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
                self._watch.note_queue()
                return [Waiting()]
            case Placed() | LimitsTold():
                return [event]
            case ToolSignal():
                return self._feed_signal(event)
            case _:
                return self._feed_choice(event, self._choices[event.choice])

    def finish(self) -> list[TurnEvent]:
        return self.fail(BackendUnavailable("Codex ended the turn without an answer."))

    def take_orders(self) -> list[Order]:
        """What the backend is to do now."""
        orders = list(self._orders)
        self._orders.clear()
        return orders

    def fail(self, error: ProxyError) -> list[TurnEvent]:
        """End the turn with an error, behind whatever was held back until now."""
        if self.ended:
            return []
        reason = REASONS.get(type(error), Reason.STREAM_FAILED)
        out: list[TurnEvent] = []
        for index, choice in enumerate(self._choices):
            if not choice.finish:
                out += choice.text.end_item(reason)
                # Story 2.9 AC 14: a client that has its call needs no error.
                if choice.text.has_blocks and not isinstance(error, ClientGone):
                    out.append(Note(index, NoteKind.FAILED_AFTER_CALLS, error.code or ""))
                    out += self._finish_choice(index, FinishReason.TOOL_CALLS)
        if all(choice.finish for choice in self._choices):
            return out
        self.ended = True
        return [*out, Failed(error, self._usage)]

    def _see(self, now_s: float) -> list[TurnEvent]:
        overdue = self._watch.see(now_s)
        if overdue:
            return self.fail(overdue)
        out: list[TurnEvent] = []
        for index, choice in enumerate(self._choices):
            if not choice.finish:
                choice.text.see(now_s)
                out += choice.put_behind_thoughts(self._heed(index))
        return out

    def _feed_signal(self, signal: ToolSignal) -> list[TurnEvent]:
        """A payload may tell of several choices, and hold words beside calls."""
        out: list[TurnEvent] = []
        for named, payload in split_choices(signal.payload):
            index = signal.choice or named or 0
            if index < len(self._choices):
                choice = self._choices[index]
                for event in [*choice.find_words(payload), ToolSignal(index, payload)]:
                    out += self._feed_choice(event, choice)
        return out

    def _feed_choice(self, event: ChoiceEvent, choice: Choice) -> list[TurnEvent]:
        match event:
            case _ if choice.finish or self.ended:
                return []
            case Retrying():
                return self._retry(choice)
            case ResponseDone(index, usage):
                self._usage += usage
                return choice.put_behind_thoughts(self._complete(index))
            case _:
                self._watch.note_event()
                shown = choice.put_behind_thoughts(self._show(event, choice))
                return shown if choice.began else [*choice.begin(), *shown]

    def _show(self, event: AnswerEvent, choice: Choice) -> list[TurnEvent]:
        match event:
            case TextDelta(index, item_id, text, pieces) if text:
                choice.shown.add(item_id)
                return [*choice.text.feed(item_id, text, pieces), *self._heed(index)]
            case MessageDone(index):
                return [*choice.show_message(event), *self._heed(index)]
            case ReasoningDelta() | ReasoningDone():
                return choice.show_reasoning(event)
            case SearchDone():
                return choice.show_search(event)
            case CallComing() | ToolSignal() | CallRejected():
                return choice.calls.hear(event)
            case TurnEnded(index, reason):
                return self._end(index, reason)
            case ModelActive() | TextDelta():
                return []
            case _:
                assert_never(event)

    def _heed(self, index: int) -> list[TurnEvent]:
        """Act on what a choice's text has come to: a call that must not go out, or a cut."""
        text, calls = self._choices[index].text, self._choices[index].calls
        if text.refusal:
            return self.fail(text.refusal)
        # Calls that are on their way count, whatever the text has come to.
        return self._cut(index, text.cut) if text.cut and not calls.is_pending else []

    def _complete(self, index: int) -> list[TurnEvent]:
        """A response is over: calls that came as such end the choice, for the client is to run them."""
        choice = self._choices[index]
        out = choice.calls.complete()
        if choice.refusal:
            return [*out, *self.fail(choice.refusal)]
        end = FinishReason.STOP if choice.calls.is_called else choice.text.cut
        return [*out, *(self._cut(index, end) if end else [])]

    def _retry(self, choice: Choice) -> list[TurnEvent]:
        """Let codex start over unseen, but never show an answer's beginning twice."""
        if choice.start_over():
            return []
        return self.fail(AnswerInterrupted("The connection to the model broke in the middle of the answer."))

    def _cut(self, index: int, reason: FinishReason) -> list[TurnEvent]:
        """End a choice whose turn still runs."""
        out, choice = self._end(index, reason), self._choices[index]
        # A client that was told less, or more, than its turn holds cannot go on in it.
        calls = choice.calls.find_awaited() if choice.finish and not choice.text.cut else ()
        self._orders.append(AwaitResults(index, calls) if calls else StopChoice(index))
        return out

    def _end(self, index: int, reason: FinishReason) -> list[TurnEvent]:
        choice = self._choices[index]
        left = choice.conclude(reason)
        if choice.refusal:
            return [*left, *self.fail(choice.refusal)]
        if choice.calls.is_asking:
            return left
        blocks = choice.calls.write_blocks(choice.text.item_id, choice.text.has_blocks)
        return [*left, *blocks, *self._finish_choice(index, reason)]

    def _finish_choice(self, index: int, reason: FinishReason) -> list[TurnEvent]:
        called = FinishReason.TOOL_CALLS if self._aggregator.has_calls(index) else None
        finish = choose_finish(filter(None, (reason, self._choices[index].text.cut, called)))
        self._choices[index].finish = finish
        self.ended = all(choice.finish for choice in self._choices)
        return [Finished(index, finish), *([Completed(self._usage)] if self.ended else [])]
