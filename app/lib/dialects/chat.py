"""Chat completions on the wire: chunks for a stream, one envelope for a body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import orjson

from app.lib.events import (
    Began,
    Completed,
    Failed,
    Finished,
    Note,
    Reasoning,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
    Usage,
    Waiting,
)
from app.lib.result import ChoiceResult, TurnResult
from app.lib.sse import DONE, encode_data
from app.lib.tool_calls import ToolCallDelta, ToolCallRecord

# Chat has one text for a model's reasoning; its summary comes in parts, each a paragraph.
BETWEEN_PARTS = "\n\n"
# Whatever a client names its model, that stands before the text: the last one found is the text's.
CUT = "<text>"
# A call without arguments has an empty object of them: clients parse the text.
NO_ARGUMENTS = "{}"


@dataclass(frozen=True, slots=True)
class ChatIdentity:
    """What every chunk of one completion repeats."""

    id: str
    created: int
    model: str


class ChatStream:
    """Encodes one turn as chat chunks: `open` once, `feed` until the turn ends."""

    def __init__(self, identity: ChatIdentity, choices: int = 1, include_usage: bool = False) -> None:
        self._identity = identity
        self._choices = choices
        self._include_usage = include_usage
        self._last_parts: dict[int, tuple[str, int]] = {}
        #: The calls begun, by choice and place, and whether any of their arguments went out.
        self._calls: dict[tuple[int, int], bool] = {}
        self._text_frames = [self._cut_text_frame(index) for index in range(choices)]

    def open(self) -> bytes:
        """The role frames, which go out with the headers."""
        return b"".join(
            self._chunk([build_choice(index, {"role": "assistant", "content": ""})])
            for index in range(self._choices)
        )

    def feed(self, events: Iterable[TurnEvent]) -> bytes:
        return b"".join([self._encode(event) for event in events])

    def _encode(self, event: TurnEvent) -> bytes:
        match event:
            case Text() | ToolBlock():
                return self._encode_text(event)
            case Reasoning(choice, item_id, part, text):
                between = self._pass_part(choice, (item_id, part))
                return self._chunk([build_choice(choice, {"reasoning_content": between + text})])
            case ToolCalled(choice, delta):
                return self._encode_call(choice, delta)
            case Finished(choice, reason):
                finish = self._chunk([build_choice(choice, {}, reason.value)])
                return self._complete_calls(choice) + finish
            case Completed(usage):
                return self._close(usage)
            case Failed(error):
                return encode_data(error.to_dict()) + DONE
            case Waiting() | Began() | Note():
                return b""
            case _:
                assert_never(event)

    def _encode_text(self, event: Text | ToolBlock) -> bytes:
        before, after = self._text_frames[event.choice]
        frame = before + orjson.dumps(event.text) + after
        # The call that a block spells is complete.
        return frame if isinstance(event, Text) else self._complete_calls(event.choice) + frame

    def _encode_call(self, choice: int, delta: ToolCallDelta) -> bytes:
        """A call's id and name, once, and then its arguments: only those that were not sent yet."""
        key = (choice, delta.index)
        began = b"" if key in self._calls else self._chunk([build_choice(choice, build_call_start(delta))])
        self._calls[key] = self._calls.get(key, False) or bool(delta.added)
        return began + (self._encode_arguments(choice, delta.index, delta.added) if delta.added else b"")

    def _encode_arguments(self, choice: int, index: int, text: str) -> bytes:
        more = {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        return self._chunk([build_choice(choice, more)])

    def _complete_calls(self, choice: int) -> bytes:
        """Give the calls of a choice that came without arguments the empty ones they have."""
        bare = [key for key, has_text in self._calls.items() if key[0] == choice and not has_text]
        self._calls |= dict.fromkeys(bare, True)
        return b"".join(self._encode_arguments(*key, NO_ARGUMENTS) for key in bare)

    def _cut_text_frame(self, choice: int) -> tuple[bytes, bytes]:
        """What stands before and after the text: the same in every frame, and most frames are text."""
        before, _, after = self._chunk([build_choice(choice, {"content": CUT})]).rpartition(
            b'"%s"' % CUT.encode()
        )
        return before, after

    def _pass_part(self, choice: int, part: tuple[str, int]) -> str:
        """What stands between the last part of a summary and this one."""
        last = self._last_parts.get(choice, part)
        self._last_parts[choice] = part
        return "" if last == part else BETWEEN_PARTS

    def _close(self, usage: Usage) -> bytes:
        return (self._chunk([], usage) if self._include_usage else b"") + DONE

    def _chunk(self, choices: list[dict[str, Any]], usage: Usage | None = None) -> bytes:
        chunk = {
            "id": self._identity.id,
            "object": "chat.completion.chunk",
            "created": self._identity.created,
            "model": self._identity.model,
            "choices": choices,
        }
        if self._include_usage:
            chunk["usage"] = build_usage(usage) if usage else None
        return encode_data(chunk)


def build_choice(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def build_completion(identity: ChatIdentity, result: TurnResult) -> dict[str, Any]:
    return {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [
            {
                "index": index,
                "message": build_message(choice),
                "logprobs": None,
                "finish_reason": choice.finish.value,
            }
            for index, choice in enumerate(result.choices)
        ],
        "usage": build_usage(result.usage),
    }


def build_message(choice: ChoiceResult) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.transcript, "refusal": None}
    if choice.calls:
        message["tool_calls"] = [build_call(call) for call in choice.calls]
    if choice.reasoning:
        message["reasoning_content"] = BETWEEN_PARTS.join(choice.reasoning)
    return message


def build_call(call: ToolCallRecord) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.arguments or NO_ARGUMENTS}
    return {"id": call.id, "type": call.type, "function": function}


def build_call_start(delta: ToolCallDelta) -> dict[str, Any]:
    function = {"name": delta.function.name, "arguments": ""}
    call = {"index": delta.index, "id": delta.id, "type": delta.type, "function": function}
    return {"tool_calls": [call]}


def build_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
