"""Responses on the wire: a turn as the events of a stream, and as the response they come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

import orjson

from app.lib.dialects.response_body import (
    Body,
    ResponseIdentity,
    build_error,
    build_failure,
    build_response,
    build_usage,
    hide_encrypted,
    hide_in_item,
    tell_end,
)
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
from app.lib.errors import ClientGone, ProxyError
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
from app.lib.sse import DONE, GAP, encode_event, split_at_gap
from app.lib.tool_calls import ToolCallDelta
from app.lib.usage import Usage

#: What an answer that was cut short lacks, by why it ended.
INCOMPLETE = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}


class ResponsesStream:
    """Encodes one turn: `open` once, `feed` until `final` is there, then `close` with it."""

    def __init__(self, identity: ResponseIdentity) -> None:
        self.identity = identity
        self._sequence = 0
        #: The items begun and not done yet: a message or reasoning alone, or calls.
        self._open: list[OutputItem] = []
        self._calls: dict[int, CallItem] = {}
        self._count = 0
        #: The reasoning that items were made of.
        self._reasoned: set[str] = set()
        #: The items as they were done, with the reasoning that the client may not have asked for.
        self._done: list[Body] = []
        self._text_frame: tuple[bytes, bytes] = (b"", b"")
        self._finish = FinishReason.STOP
        #: The finished response, once its turn ended; and why it failed, if it did.
        self.final: Body | None = None
        self.error: ProxyError | None = None

    def open(self) -> bytes:
        """What goes out with the headers."""
        queued = build_response(self.identity, "queued")
        running = build_response(self.identity, "in_progress")
        if not self.identity.is_queued:
            return self._tell("response.created", running) + self._tell("response.in_progress", running)
        return (
            self._tell("response.created", queued)
            + self._tell("response.queued", queued)
            + self._tell("response.in_progress", running)
        )

    def feed(self, events: Iterable[TurnEvent]) -> bytes:
        """The frames of these events; that of the turn's end waits for `close`."""
        return b"".join([self._encode(event) for event in events])

    def close(self, final: Body) -> bytes:
        """The last frames: the response as it was kept."""
        failed = self._number("error", build_error(self.error)) if final["error"] and self.error else b""
        kind, told = tell_end(final)
        shown = told if self.identity.shows_encrypted else hide_encrypted(told)
        return failed + self._tell(kind, shown) + DONE

    def _encode(self, event: TurnEvent) -> bytes:
        match event:
            case Text(_, item_id, text, pieces):
                return self._encode_text(item_id, text, pieces or (text,))
            case Completed(usage):
                self._complete(usage)
                return b""
            case Failed(error):
                return self._fail(error)
            case Waiting() | Placed() | LimitsTold() | Note():
                return b""
            case _:
                return self._encode_steps(self._show(event))

    def _encode_text(self, item_id: str, text: str, pieces: tuple[str, ...]) -> bytes:
        began = b""
        message = self._open[-1] if self._open else None
        if not isinstance(message, MessageItem) or message.source_id != item_id:
            message = MessageItem(self._place("msg"), item_id)
            began = self._encode_steps(self._begin_alone(message))
            self._text_frame = self._split_text_frame(message.place)
        message.add(text)
        before, after = self._text_frame
        first, self._sequence = self._sequence, self._sequence + len(pieces)
        frames = [before + orjson.dumps(piece) + after % (first + i) for i, piece in enumerate(pieces)]
        return began + b"".join(frames)

    def _split_text_frame(self, place: Place) -> tuple[bytes, bytes]:
        """What stands before and after a text, but for the frame's number: most frames are text."""
        payload = {
            "type": "response.output_text.delta",
            **place.name(content_index=0, delta=GAP, logprobs=[], sequence_number=0),
        }
        before, after = split_at_gap(encode_event(payload["type"], payload))
        return before, after.replace(b":0}", b":%d}")

    def _show(self, event: ShownEvent) -> Iterator[Step]:
        match event:
            case Reasoning(_, item_id, part, text):
                yield from self._show_reasoning(item_id, part, text)
            case ReasoningEnded(_, item_id, encrypted):
                yield from self._end_reasoning(item_id, encrypted)
            case Searched(_, _, action):
                yield from self._begin_alone(SearchItem(self._place("ws"), action))
                yield from self._close_open()
            case ToolCalled(_, delta):
                yield from self._show_call(delta)
            case ToolBlock():
                yield from self._close_open()  # the calls that a block spells are complete
            case Finished(_, reason):
                self._finish = reason
                yield from self._close_open(
                    ItemStatus.INCOMPLETE if reason in INCOMPLETE else ItemStatus.COMPLETED
                )
            case Began() | Text():
                pass
            case _:
                assert_never(event)

    def _show_reasoning(self, item_id: str, part: int, text: str) -> Iterator[Step]:
        item = self._find_reasoning(item_id)
        if item is None:
            item = self._make_reasoning(item_id)
            yield from self._begin_alone(item)
        yield from item.add(part, text)

    def _end_reasoning(self, item_id: str, encrypted: str | None) -> Iterator[Step]:
        item = self._find_reasoning(item_id)
        if item is None:
            if item_id in self._reasoned:
                return  # its item is done, and nothing can be added to it
            item = self._make_reasoning(item_id)
            yield from self._begin_alone(item)
        item.encrypted = encrypted
        yield from self._close_open()

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
                yield from self._close_open()
            call = self._calls[delta.index] = CallItem(Place(self._take_index(), delta.id), delta)
            yield from self._begin(call)
        elif call in self._open:
            yield from call.take(delta)

    def _begin_alone(self, item: OutputItem) -> Iterator[Step]:
        """Only calls may be under way side by side."""
        yield from self._close_open()
        yield from self._begin(item)

    def _begin(self, item: OutputItem) -> Iterator[Step]:
        self._open.append(item)
        yield from item.open()

    def _close_open(self, status: ItemStatus = ItemStatus.COMPLETED) -> Iterator[Step]:
        items, self._open = self._open, []
        for item in items:
            yield from item.close(status)

    def _place(self, kind: str) -> Place:
        index = self._take_index()
        return Place(index, f"{kind}_{index + 1:03}_{self.identity.suffix}")

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _encode_steps(self, steps: Iterable[Step]) -> bytes:
        return b"".join([self._encode_step(kind, payload) for kind, payload in steps])

    def _encode_step(self, kind: str, payload: dict[str, Any]) -> bytes:
        if kind == "response.output_item.done":
            item = payload["item"]
            self._done.append(item)
            payload = payload | {"item": item if self.identity.shows_encrypted else hide_in_item(item)}
        return self._number(kind, payload)

    def _tell(self, kind: str, response: Body) -> bytes:
        return self._number(kind, {"response": response})

    def _number(self, kind: str, payload: dict[str, Any]) -> bytes:
        """An event with its place in the stream; every one counts."""
        self._sequence += 1
        return encode_event(kind, {"type": kind, **payload, "sequence_number": self._sequence - 1})

    def _complete(self, usage: Usage) -> None:
        why = INCOMPLETE.get(self._finish)
        self.final = build_response(self.identity, "incomplete" if why else "completed") | {
            "incomplete_details": {"reason": why} if why else None,
            "output": self._done,
            "usage": build_usage(usage),
        }

    def _fail(self, error: ProxyError) -> bytes:
        left = self._encode_steps(self._close_open(ItemStatus.INCOMPLETE))
        self.error = error
        # A response that nobody waits for any more did not go wrong.
        is_wrong = not isinstance(error, ClientGone)
        self.final = build_response(self.identity, "failed" if is_wrong else "cancelled") | {
            "output": self._done,
            "error": build_failure(error) if is_wrong else None,
        }
        return left
