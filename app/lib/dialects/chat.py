"""Chat completions on the wire: chunks for a stream, one envelope for a body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import orjson

from app.lib.dialects.sent_call import NO_ARGUMENTS, SentCall
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
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
    Waiting,
)
from app.lib.output_mode import OutputMode
from app.lib.result import ChoiceResult, TurnResult
from app.lib.sse import DONE, GAP, encode_data, split_at_gap
from app.lib.tool_calls import ToolCallDelta, ToolCallRecord
from app.lib.usage import Usage

# Chat has one text for a model's reasoning; its summary comes in parts, each a paragraph.
BETWEEN_PARTS = "\n\n"


@dataclass(frozen=True, slots=True)
class ChatIdentity:
    """What every chunk of one completion repeats."""

    id: str
    created: int
    model: str


@dataclass(frozen=True, slots=True)
class ChatStyle:
    """How calls look on the wire."""

    mode: OutputMode = OutputMode.OBSIDIAN_XML
    #: Whether the request spoke of `functions`: such a client waits for one `function_call`.
    legacy: bool = False
    #: Whether deltas also carry all the arguments so far where the mode does not ask for it.
    cumulative: bool = False

    @property
    def shows_blocks(self) -> bool:
        return self.mode is OutputMode.OBSIDIAN_XML

    @property
    def repeats_arguments(self) -> bool:
        return self.cumulative or self.shows_blocks

    def name_finish(self, reason: FinishReason) -> str:
        is_legacy_call = self.legacy and reason is FinishReason.TOOL_CALLS
        return "function_call" if is_legacy_call else reason.value


DEFAULT_STYLE = ChatStyle()


class ChatStream:
    """Encodes one turn as chat chunks: `open` once, `feed` until the turn ends."""

    def __init__(
        self,
        identity: ChatIdentity,
        choices: int = 1,
        include_usage: bool = False,
        style: ChatStyle = DEFAULT_STYLE,
    ) -> None:
        self._identity = identity
        self._choices = choices
        self._include_usage = include_usage
        self._style = style
        self._last_parts: dict[int, tuple[str, int]] = {}
        #: The calls begun, by choice and place; and of each choice those that may still lack arguments.
        self._calls: dict[tuple[int, int], SentCall] = {}
        self._open: list[dict[int, SentCall]] = [{} for _ in range(choices)]
        #: Of each choice what stands before and after a text.
        self._text_frames = [
            split_at_gap(self._chunk([build_choice(index, {"content": GAP})])) for index in range(choices)
        ]

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
                finish = build_choice(choice, {}, self._style.name_finish(reason))
                return self._complete_calls(choice) + self._chunk([finish])
            case Completed(usage):
                return self._close(usage)
            case Failed(error):
                return encode_data(error.to_dict()) + DONE
            case Waiting() | Placed() | LimitsTold() | Began() | Note() | ReasoningEnded() | Searched():
                return b""
            case _:
                assert_never(event)

    def _encode_text(self, event: Text | ToolBlock) -> bytes:
        before, after = self._text_frames[event.choice]
        if isinstance(event, Text):
            texts = map(orjson.dumps, event.pieces or (event.text,))
            return before + (after + before).join(texts) + after
        # The call that a block spells is complete.
        block = before + orjson.dumps(event.text) + after if self._style.shows_blocks else b""
        return self._complete_calls(event.choice) + block

    def _encode_call(self, choice: int, delta: ToolCallDelta) -> bytes:
        """A call's id and name, once, and then its arguments: only those that were not sent yet."""
        if self._style.legacy and delta.index:
            return b""
        call = self._calls.get((choice, delta.index))
        if call is None:
            began = self._chunk([build_choice(choice, build_call_start(delta, self._style))])
            call, more = SentCall(delta), delta.arguments
            self._calls[choice, delta.index] = call
        else:
            began, more = b"", call.take(delta)
        self._open[choice][delta.index] = call
        return began + self._encode_arguments(choice, delta, more)

    def _encode_arguments(self, choice: int, delta: ToolCallDelta, more: str) -> bytes:
        if not more:
            return b""
        return self._chunk([build_choice(choice, build_call_more(delta, more, self._style))])

    def _complete_calls(self, choice: int) -> bytes:
        """Send what the calls of a choice still lack: an end of their arguments, or empty ones for none."""
        calls, self._open[choice] = self._open[choice], {}
        return b"".join(self._encode_arguments(choice, call.told, call.complete()) for call in calls.values())

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


def build_completion(
    identity: ChatIdentity, result: TurnResult, style: ChatStyle = DEFAULT_STYLE
) -> dict[str, Any]:
    return {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [
            {
                "index": index,
                "message": build_message(choice, style),
                "logprobs": None,
                "finish_reason": style.name_finish(choice.finish),
            }
            for index, choice in enumerate(result.choices)
        ],
        "usage": build_usage(result.usage),
    }


def build_message(choice: ChoiceResult, style: ChatStyle) -> dict[str, Any]:
    message = {"role": "assistant", "content": build_content(choice, style), "refusal": None}
    if choice.calls:
        message |= build_calls(choice.calls, style)
    if choice.reasoning:
        message["reasoning_content"] = BETWEEN_PARTS.join(choice.reasoning)
    return message


def build_content(choice: ChoiceResult, style: ChatStyle) -> str | None:
    """What a stream would have shown; calls alone have no content in JSON, where no block spells them."""
    if style.shows_blocks:
        return choice.transcript
    return choice.text or (None if choice.calls else "")


def build_calls(calls: tuple[ToolCallRecord, ...], style: ChatStyle) -> dict[str, Any]:
    if style.legacy:
        return {"function_call": build_function(calls[0])}
    return {
        "tool_calls": [{"id": call.id, "type": call.type, "function": build_function(call)} for call in calls]
    }


def build_function(call: ToolCallRecord) -> dict[str, str]:
    return {"name": call.function.name, "arguments": call.arguments or NO_ARGUMENTS}


def build_call_start(delta: ToolCallDelta, style: ChatStyle) -> dict[str, Any]:
    function = {"name": delta.function.name, "arguments": ""}
    if style.legacy:
        return {"function_call": function}
    call = {"index": delta.index, "id": delta.id, "type": delta.type, "function": function}
    return {"tool_calls": [call | {"arguments": ""} if style.repeats_arguments else call]}


def build_call_more(delta: ToolCallDelta, more: str, style: ChatStyle) -> dict[str, Any]:
    if style.legacy:
        return {"function_call": {"arguments": more}}
    call: dict[str, Any] = {"index": delta.index, "function": {"arguments": more}}
    if style.repeats_arguments:
        call["arguments"] = delta.arguments or NO_ARGUMENTS
    return {"tool_calls": [call]}


def build_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
