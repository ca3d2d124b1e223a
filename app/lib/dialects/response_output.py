"""The output of a response: turn events begin its items, add to them and end them, a step at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from app.lib.dialects.response_items import (
    CallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    Place,
    ReasoningItem,
    SearchItem,
    Step,
)
from app.lib.events import (
    Began,
    Finished,
    FinishReason,
    Reasoning,
    ReasoningEnded,
    Searched,
    ShownEvent,
    Text,
    ToolBlock,
    ToolCalled,
)
from app.lib.tool_calls import ToolCallDelta

#: What an answer that was cut short lacks, by why it ended.
INCOMPLETE = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}


class ResponseOutput:
    """The items under way: a message or reasoning alone, or calls.

    A text is added to its message by whoever writes its frame, which most frames are; see `find_message`.
    """

    def __init__(self, id_suffix: str) -> None:
        self._id_suffix = id_suffix
        self._open: list[OutputItem] = []
        self._calls: dict[int, CallItem] = {}
        self._count = 0
        #: The reasoning that items were made of.
        self._reasoned: set[str] = set()
        #: Why the answer ended, once it did.
        self.finish = FinishReason.STOP

    def find_message(self, item_id: str) -> MessageItem | None:
        """The message of that name, if it is under way."""
        last = self._open[-1] if self._open else None
        return last if isinstance(last, MessageItem) and last.source_id == item_id else None

    def make_message(self, item_id: str) -> MessageItem:
        return MessageItem(self._place("msg"), item_id)

    def show(self, event: ShownEvent) -> Iterator[Step]:
        match event:
            case Reasoning(_, item_id, part, text):
                yield from self._show_reasoning(item_id, part, text)
            case ReasoningEnded(_, item_id, encrypted):
                yield from self._end_reasoning(item_id, encrypted)
            case Searched(_, _, action):
                yield from self.begin_alone(SearchItem(self._place("ws"), action))
                yield from self.close()
            case ToolCalled(_, delta):
                yield from self._show_call(delta)
            case ToolBlock():
                yield from self.close()  # the calls that a block spells are complete
            case Finished(_, reason):
                self.finish = reason
                yield from self.close(ItemStatus.INCOMPLETE if reason in INCOMPLETE else ItemStatus.COMPLETED)
            case Began() | Text():
                pass
            case _:
                assert_never(event)

    def _show_reasoning(self, item_id: str, part: int, text: str) -> Iterator[Step]:
        item = self._find_reasoning(item_id)
        if item is None:
            item = self._make_reasoning(item_id)
            yield from self.begin_alone(item)
        yield from item.add(part, text)

    def _end_reasoning(self, item_id: str, encrypted: str | None) -> Iterator[Step]:
        item = self._find_reasoning(item_id)
        if item is None:
            if item_id in self._reasoned:
                return  # its item is done, and nothing can be added to it
            item = self._make_reasoning(item_id)
            yield from self.begin_alone(item)
        item.encrypted = encrypted
        yield from self.close()

    def _make_reasoning(self, item_id: str) -> ReasoningItem:
        self._reasoned.add(item_id)
        return ReasoningItem(self._place("rs"), item_id)

    def _find_reasoning(self, item_id: str) -> ReasoningItem | None:
        """The reasoning of that name, if it is under way."""
        last = self._open[-1] if self._open else None
        return last if isinstance(last, ReasoningItem) and last.source_id == item_id else None

    def _show_call(self, delta: ToolCallDelta) -> Iterator[Step]:
        call = self._calls.get(delta.index)
        if call is None:
            if not isinstance(self._open[-1] if self._open else None, CallItem):
                yield from self.close()
            call = self._calls[delta.index] = CallItem(Place(self._take_index(), delta.id), delta)
            yield from self._begin(call)
        elif call in self._open:
            yield from call.take(delta)

    def begin_alone(self, item: OutputItem) -> Iterator[Step]:
        """Only calls may be under way side by side."""
        yield from self.close()
        yield from self._begin(item)

    def _begin(self, item: OutputItem) -> Iterator[Step]:
        self._open.append(item)
        yield from item.open()

    def close(self, status: ItemStatus = ItemStatus.COMPLETED) -> Iterator[Step]:
        items, self._open = self._open, []
        for item in items:
            yield from item.close(status)

    def _place(self, kind: str) -> Place:
        index = self._take_index()
        return Place(index, f"{kind}_{index + 1:03}_{self._id_suffix}")

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1
