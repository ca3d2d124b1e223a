"""Responses on the wire: a turn as the events of a stream, and as the response they come to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from app.lib.dialects.response_items import ItemStatus, Place, Step
from app.lib.dialects.response_output import INCOMPLETE, ResponseOutput
from app.lib.errors import ClientGone, ProxyError
from app.lib.events import Completed, Failed, LimitsTold, Note, Placed, Text, TurnEvent, Waiting
from app.lib.sse import DONE, GAP, encode_event, split_at_gap
from app.lib.usage import Usage


class ResponsesStream:
    """Encodes one turn: `open` once, `feed` until `final` is there, then `close` with it."""

    def __init__(self, identity: ResponseIdentity) -> None:
        self.identity = identity
        self._sequence = 0
        self._output = ResponseOutput(identity.suffix)
        #: The items as they were done, with the reasoning that the client may not have asked for.
        self._done: list[Body] = []
        self._text_frame: tuple[bytes, bytes] = (b"", b"")
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
                return self._encode_steps(self._output.show(event))

    def _encode_text(self, item_id: str, text: str, pieces: tuple[str, ...]) -> bytes:
        began, message = b"", self._output.find_message(item_id)
        if message is None:
            message = self._output.make_message(item_id)
            began = self._encode_steps(self._output.begin_alone(message))
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
        why = INCOMPLETE.get(self._output.finish)
        self.final = build_response(self.identity, "incomplete" if why else "completed") | {
            "incomplete_details": {"reason": why} if why else None,
            "output": self._done,
            "usage": build_usage(usage),
        }

    def _fail(self, error: ProxyError) -> bytes:
        left = self._encode_steps(self._output.close(ItemStatus.INCOMPLETE))
        self.error = error
        # A response that nobody waits for any more did not go wrong.
        is_wrong = not isinstance(error, ClientGone)
        self.final = build_response(self.identity, "failed" if is_wrong else "cancelled") | {
            "output": self._done,
            "error": build_failure(error) if is_wrong else None,
        }
        return left
