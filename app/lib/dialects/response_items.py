"""The output items of a response: each grows by turn events, and tells so in the events of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from app.lib.dialects.sent_call import SentCall
from app.lib.events import SearchAction, SearchKind
from app.lib.text_buffer import TextBuffer
from app.lib.tool_calls import ToolCallDelta

#: The type of an event and what it says, but for its number.
Step = tuple[str, dict[str, Any]]


class ItemStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands in the output, and what it is known by."""

    index: int
    id: str

    def name(self, **more: Any) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, **more}


class MessageItem:
    def __init__(self, place: Place, source_id: str) -> None:
        self.place = place
        #: The backend's item; more text of it belongs here.
        self.source_id = source_id
        self._text = TextBuffer()

    def open(self) -> Iterator[Step]:
        yield "response.output_item.added", self._show(ItemStatus.IN_PROGRESS, [])
        yield "response.content_part.added", self.place.name(content_index=0, part=build_text(""))

    def add(self, text: str) -> None:
        self._text.append(text)

    def close(self, status: ItemStatus) -> Iterator[Step]:
        text = self._text.read()
        yield "response.output_text.done", self.place.name(content_index=0, text=text, logprobs=[])
        yield "response.content_part.done", self.place.name(content_index=0, part=build_text(text))
        yield "response.output_item.done", self._show(status, [build_text(text)])

    def _show(self, status: ItemStatus, content: list[dict[str, Any]]) -> dict[str, Any]:
        item = {
            "id": self.place.id,
            "type": "message",
            "status": status.value,
            "role": "assistant",
            "content": content,
        }
        return {"output_index": self.place.index, "item": item}


class ReasoningItem:
    def __init__(self, place: Place, source_id: str) -> None:
        self.place = place
        self.source_id = source_id
        #: The backend's number of the part under way.
        self._part: int | None = None
        self._parts: list[TextBuffer] = []
        #: The reasoning itself, once it is told.
        self.encrypted: str | None = None

    def open(self) -> Iterator[Step]:
        yield "response.output_item.added", self._show()

    def add(self, part: int, text: str) -> Iterator[Step]:
        if part != self._part:
            yield from self._close_part()
            self._part = part
            self._parts.append(TextBuffer())
            yield "response.reasoning_summary_part.added", self._name_part(part=build_summary(""))
        self._parts[-1].append(text)
        yield "response.reasoning_summary_text.delta", self._name_part(delta=text)

    def close(self, _status: ItemStatus) -> Iterator[Step]:
        """Reasoning has no status of its own on the wire."""
        yield from self._close_part()
        yield "response.output_item.done", self._show()

    def _close_part(self) -> Iterator[Step]:
        if self._part is not None:
            self._part, text = None, self._parts[-1].read()
            yield "response.reasoning_summary_text.done", self._name_part(text=text)
            yield "response.reasoning_summary_part.done", self._name_part(part=build_summary(text))

    def _name_part(self, **more: Any) -> dict[str, Any]:
        return self.place.name(summary_index=len(self._parts) - 1, **more)

    def _show(self) -> dict[str, Any]:
        item: dict[str, Any] = {
            "id": self.place.id,
            "type": "reasoning",
            "summary": [build_summary(part.read()) for part in self._parts],
        }
        if self.encrypted is not None:
            item["encrypted_content"] = self.encrypted
        return {"output_index": self.place.index, "item": item}


class CallItem:
    """A call; its events name no `call_id` beside the item itself (D2)."""

    def __init__(self, place: Place, delta: ToolCallDelta) -> None:
        self.place = place
        self._call = SentCall(delta)
        self._sent = TextBuffer()

    def open(self) -> Iterator[Step]:
        told = self._call.told
        yield "response.output_item.added", self._show(ItemStatus.IN_PROGRESS, "")
        yield from self._add(told.arguments)

    def take(self, delta: ToolCallDelta) -> Iterator[Step]:
        yield from self._add(self._call.take(delta))

    def close(self, status: ItemStatus) -> Iterator[Step]:
        yield from self._add(self._call.complete())
        arguments = self._sent.read()
        yield "response.function_call_arguments.done", self.place.name(arguments=arguments)
        yield "response.output_item.done", self._show(status, arguments)

    def _add(self, text: str) -> Iterator[Step]:
        if text:
            self._sent.append(text)
            yield "response.function_call_arguments.delta", self.place.name(delta=text)

    def _show(self, status: ItemStatus, arguments: str) -> dict[str, Any]:
        told = self._call.told
        item = build_function_call(self.place.id, told.id, told.function.name, arguments)
        return {"output_index": self.place.index, "item": item | {"status": status.value}}


class SearchItem:
    """A web search of codex's own; it is told when it is over."""

    def __init__(self, place: Place, action: SearchAction) -> None:
        self.place = place
        self._action = action

    def open(self) -> Iterator[Step]:
        yield "response.output_item.added", self._show("in_progress")
        for state in ("in_progress", "searching", "completed"):
            yield f"response.web_search_call.{state}", self.place.name()

    def close(self, _status: ItemStatus) -> Iterator[Step]:
        yield "response.output_item.done", self._show("completed")

    def _show(self, status: str) -> dict[str, Any]:
        action = build_action(self._action)
        item = {"id": self.place.id, "type": "web_search_call", "status": status, "action": action}
        return {"output_index": self.place.index, "item": item}


OutputItem = MessageItem | ReasoningItem | CallItem | SearchItem


def build_function_call(item_id: str, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """The one place where a call of the model's gets its Responses shape."""
    return {
        "id": item_id,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def build_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def build_summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def build_action(action: SearchAction) -> dict[str, Any]:
    match action.kind:
        case SearchKind.SEARCH:
            queries = list(action.queries) or [action.query]
            return {"type": "search", "query": action.query, "queries": queries}
        case SearchKind.OPEN_PAGE:
            return {"type": "open_page", "url": action.url}
        case SearchKind.FIND_IN_PAGE:
            return {"type": "find_in_page", "url": action.url, "pattern": action.pattern}
        case _:
            assert_never(action.kind)
