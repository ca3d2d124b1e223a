"""The messages of a chat completion, read into one flat history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import marshmallow as ma

from app.lib.history import lift_leading_assistant
from app.lib.request import HistoryItem, Message, PastCall, PastOutput, Role, TextPart
from app.schemas.content import (
    ANSWER_PARTS,
    INPUT_PARTS,
    INSTRUCTION_PARTS,
    build_call,
    read_content,
    read_naming,
    read_optional,
)
from app.schemas.tools import complain, read_list, read_object

Raw = dict[str, Any]


def read_messages(value: Any) -> tuple[HistoryItem, ...]:
    """`messages`; walked by hand, since a nested schema per message costs ten times as much."""
    if not isinstance(value, list) or not value:
        raise complain("Must be a non-empty list of messages.")
    conversation = Conversation()
    items: list[HistoryItem] = []
    for index, raw in enumerate(value):
        items += read_plain(raw) or conversation.read(raw, index)
    if not items:
        raise complain("Must say something.")
    return lift_leading_assistant(items)


def read_plain(raw: Any) -> tuple[HistoryItem, ...]:
    """Most messages are a role, a text and nothing else: the short way for them."""
    if not isinstance(raw, dict) or len(raw) != 2:
        return ()
    text, role = raw.get("content"), raw.get("role")
    if not text or not isinstance(text, str) or not isinstance(role, str) or role not in SPOKEN:
        return ()
    return (Message(SPOKEN[role], (TextPart(text),)),)


class Conversation:
    """Reads one message after the other; some can be understood by earlier ones only."""

    def __init__(self) -> None:
        self._index = 0
        #: By a function's name, the ids of its legacy calls that no message has answered yet.
        self._unanswered: dict[str, list[str]] = {}

    def read(self, raw: Any, index: int) -> tuple[HistoryItem, ...]:
        self._index = index
        try:
            message = read_object(raw)
            role = message.get("role")
            if not isinstance(role, str) or role not in ROLES:
                raise complain(f"Must be one of: {', '.join(ROLES)}.", "role")
            return ROLES[role](self, message)
        except ma.ValidationError as error:
            raise ma.ValidationError({index: error.messages}) from error

    def read_instructions(self, message: Raw) -> tuple[HistoryItem, ...]:
        return (Message(Role.DEVELOPER, read_content(message, INSTRUCTION_PARTS)),)

    def read_user(self, message: Raw) -> tuple[HistoryItem, ...]:
        return (Message(Role.USER, read_content(message, INPUT_PARTS)),)

    def read_assistant(self, message: Raw) -> tuple[HistoryItem, ...]:
        parts = tuple(part for part in read_optional(message, ANSWER_PARTS) if part != TextPart(""))
        refusal = message.get("refusal")
        if not parts and isinstance(refusal, str) and refusal:
            parts = (TextPart(refusal),)
        said = (Message(Role.ASSISTANT, parts),) if parts else ()
        return (*said, *self._read_calls(message))

    def read_tool(self, message: Raw) -> tuple[HistoryItem, ...]:
        call_id = read_naming(message, "tool_call_id")
        return (PastOutput(call_id, read_optional(message, INPUT_PARTS)),)

    def read_function(self, message: Raw) -> tuple[HistoryItem, ...]:
        """The output of a legacy call, which knows its call by the name only."""
        name = read_naming(message, "name")
        calls = self._unanswered.get(name)
        return (PastOutput(calls.pop() if calls else name, read_optional(message, INPUT_PARTS)),)

    def _read_calls(self, message: Raw) -> tuple[PastCall, ...]:
        if message.get("tool_calls"):
            listed = read_list(message["tool_calls"], "tool_calls")
            return tuple(read_call(raw, self._index, position) for position, raw in enumerate(listed))
        if message.get("function_call") is None:
            return ()
        function = read_object(message["function_call"], "function_call")
        call = build_call(f"call_{self._index}", function, "function_call")
        self._unanswered.setdefault(call.name, []).append(call.call_id)
        return (call,)


def read_call(raw: Any, index: int, position: int) -> PastCall:
    path = ("tool_calls", position)
    call = read_object(raw, *path)
    call_id = call.get("id") or f"call_{index}_{position}"  # some clients send none
    if not isinstance(call_id, str):
        raise complain("Must be a string.", *path, "id")
    return build_call(call_id, read_object(call.get("function"), *path, "function"), *path, "function")


SPOKEN = {
    "developer": Role.DEVELOPER,
    "system": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}

ROLES: dict[str, Callable[[Conversation, Raw], tuple[HistoryItem, ...]]] = {
    "developer": Conversation.read_instructions,
    "system": Conversation.read_instructions,
    "user": Conversation.read_user,
    "assistant": Conversation.read_assistant,
    "tool": Conversation.read_tool,
    "function": Conversation.read_function,
}
