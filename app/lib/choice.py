"""One choice of a turn: what it has shown so far, and what its events add to that."""

from __future__ import annotations

from typing import Any

from app.lib.answer_rules import AnswerRules
from app.lib.errors import ProxyError
from app.lib.events import (
    Began,
    FinishReason,
    MessageDone,
    Note,
    NoteKind,
    Reasoning,
    ReasoningDelta,
    ReasoningDone,
    ReasoningEnded,
    SearchDone,
    Searched,
    TextDelta,
    TurnEvent,
)
from app.lib.hidden_text import HiddenText
from app.lib.message_text import read_chat_text
from app.lib.orders import Order
from app.lib.structured_calls import StructuredCalls
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_text import ToolText

#: Names the words of payloads that name no item.
CHAT_ITEM = "chat"


class Choice:
    def __init__(
        self, index: int, rules: AnswerRules, aggregator: ToolCallAggregator, orders: list[Order]
    ) -> None:
        self._index = index
        #: Where its text goes through.
        self.text: ToolText | HiddenText = (
            HiddenText() if rules.registry.demands_call else ToolText(index, rules, aggregator)
        )
        self.calls = StructuredCalls(index, rules, aggregator, orders)
        self.began = False
        self.finish: FinishReason | None = None
        #: Items already shown, so that their whole form, which follows, repeats nothing.
        self.shown: set[str] = set()
        #: Reasoning that is complete.
        self._thought: set[str] = set()
        #: Reasoning without a word to show, until something follows it: whoever starts over thinks anew.
        self._silent: list[TurnEvent] = []

    @property
    def refusal(self) -> ProxyError | None:
        """What the model did that must not go out."""
        return self.text.refusal or self.calls.refusal

    def begin(self) -> list[TurnEvent]:
        self.began = True
        return [Began(self._index)]

    def show_reasoning(self, event: ReasoningDelta | ReasoningDone) -> list[TurnEvent]:
        match event:
            case ReasoningDelta(index, item_id, part, text) if text:
                self.shown.add(item_id)
                return [Reasoning(index, item_id, part, text)]
            case ReasoningDone(index, item_id, parts, encrypted):
                is_new = any(parts) and self._claim(item_id)
                untold = [*enumerate(parts)] if is_new else []
                told = [Reasoning(index, item_id, part, text) for part, text in untold if text]
                return [*told, *self._end_reasoning(ReasoningEnded(index, item_id, encrypted))]
            case _:
                return []

    def put_behind_thoughts(self, shown: list[TurnEvent]) -> list[TurnEvent]:
        """What is shown, behind the reasoning that led to it; that to a call nobody sees is forgotten."""
        if not self._silent:
            return shown
        notes = [event.kind for event in shown if isinstance(event, Note)]
        if NoteKind.CALLS_SENT_BACK in notes:
            self._silent.clear()
        if len(notes) == len(shown):
            return shown
        silent, self._silent = self._silent, []
        return [*silent, *shown]

    def _end_reasoning(self, end: ReasoningEnded) -> list[TurnEvent]:
        if end.item_id in self._thought:
            return []
        self._thought.add(end.item_id)
        if end.item_id in self.shown:
            return [end]
        self._silent.append(end)
        return []

    def show_search(self, search: SearchDone) -> list[TurnEvent]:
        self.shown.add(search.item_id)
        return [Searched(search.choice, search.item_id, search.action)]

    def show_message(self, message: MessageDone) -> list[TurnEvent]:
        """What a message's whole form adds: its text if none came before, and that nothing more will."""
        is_new = bool(message.text) and self._claim(message.item_id)
        fed = self.text.feed(message.item_id, message.text) if is_new else []
        return [*fed, *(self.text.end_item() if self.text.item_id == message.item_id else [])]

    def find_words(self, payload: dict[str, Any]) -> list[TextDelta | MessageDone]:
        """What a payload about calls says beside them."""
        text, is_all = read_chat_text(payload)
        if not text:
            return []
        # A final message repeats what was streamed, under whatever name.
        item_id = self.text.item_id or CHAT_ITEM
        return [MessageDone(self._index, item_id, text) if is_all else TextDelta(self._index, item_id, text)]

    def start_over(self) -> bool:
        """Let a response begin anew; false if some of it was shown."""
        self.calls.forget()
        self._silent.clear()
        if isinstance(self.text, HiddenText):
            self.text.take()
            return True
        return not self.shown and not self.calls.shown

    def conclude(self, reason: FinishReason) -> list[TurnEvent]:
        """What is left to show when the choice ends."""
        if isinstance(self.text, ToolText):
            return [*self.text.end_item(), *self.calls.conclude()]
        # An answer that was cut short is no call, and asking again would only cut it again.
        is_answer = reason is FinishReason.STOP and not self.calls.shown
        return self.calls.read_answer(self.text.take() if is_answer else None)

    def _claim(self, item_id: str) -> bool:
        """Mark an item as shown; false if it was."""
        before = len(self.shown)
        self.shown.add(item_id)
        return len(self.shown) > before
