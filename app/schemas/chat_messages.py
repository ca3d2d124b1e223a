"""The messages of a chat completion, read into one flat history."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import marshmallow as ma

from app.lib.history import lift_leading_assistant
from app.lib.json_text import dump_json
from app.lib.request import HistoryItem, ImagePart, Message, Part, PastCall, PastOutput, Role, TextPart
from app.schemas.tools import complain, read_list, read_object

Raw = dict[str, Any]

# Many write the one for the other.
JPG, JPEG = "data:image/jpg", "data:image/jpeg"
#: How the bytes of each kind begin.
IMAGE_TYPES = {
    "data:image/png": b"\x89PNG\r\n\x1a\n",
    JPEG: b"\xff\xd8\xff",
    JPG: b"\xff\xd8\xff",
    "data:image/gif": b"GIF8",
    "data:image/webp": b"RIFF",
}
IMAGE_RULE = "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched."
CONTENT_RULE = "Must be a string or a non-empty list of parts."
NAMING_RULE = "Must be a non-empty string."
ARGUMENTS_RULE = "Must be a string or an object."
#: Parts that OpenAI takes and codex has no place for.
UNSERVED = {
    "input_audio": "Audio is not served here.",
    "file": "Files are not served here; send their text, or images of their pages.",
}


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


def build_call(call_id: str, function: Raw, *path: int | str) -> PastCall:
    # A name is not held to the rule of declared ones: it may be a slip of the model's, long past.
    name = read_naming(function, "name", *path)
    match function.get("arguments"):
        case None:
            return PastCall(call_id, name, "{}")
        case str(text):
            return PastCall(call_id, name, text)
        case dict(value) if written := dump_json(value):
            return PastCall(call_id, name, written)
        case _:
            raise complain(ARGUMENTS_RULE, *path, "arguments")


def read_naming(raw: Raw, key: str, *path: int | str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise complain(NAMING_RULE, *path, key)
    return value


def read_optional(message: Raw, kinds: dict[str, PartReader]) -> tuple[Part, ...]:
    """Content that may as well be missing or empty."""
    return read_content(message, kinds) if message.get("content") not in (None, "", []) else ()


def read_content(message: Raw, kinds: dict[str, PartReader]) -> tuple[Part, ...]:
    match message.get("content"):
        case str(text):
            return (TextPart(text),)
        case list(parts) if parts:
            return tuple(read_part(part, index, kinds) for index, part in enumerate(parts))
        case _:
            raise complain(CONTENT_RULE, "content")


def read_part(part: Any, index: int, kinds: dict[str, PartReader]) -> Part:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        rule = f"Must be one of: {', '.join(kinds)}."
        raise complain(UNSERVED.get(str(kind), rule), "content", index, "type")
    return kinds[kind](part, index)


def read_text_part(part: Raw, index: int) -> Part:
    key = WORDS[part["type"]]
    if not isinstance(part.get(key), str):
        raise complain("Must be a string.", "content", index, key)
    return TextPart(part[key])


def read_image_part(part: Raw, index: int) -> Part:
    match part.get("image_url"):
        case {"url": str(url)} | str(url) if is_image(url):
            return ImagePart(url.replace(JPG, JPEG, 1) if url.startswith(JPG) else url)
        case _:
            raise complain(IMAGE_RULE, "content", index, "image_url")


def is_image(url: str) -> bool:
    """Codex would put a remark of its own in the place of what it cannot decode."""
    head, _, data = url.partition(";base64,")
    try:
        return head in IMAGE_TYPES and base64.b64decode(data, validate=True).startswith(IMAGE_TYPES[head])
    except ValueError:
        return False


SPOKEN = {
    "developer": Role.DEVELOPER,
    "system": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
PartReader = Callable[[Raw, int], Part]
#: The parts that are words, and where they stand; two are known from Responses.
WORDS = {"text": "text", "refusal": "refusal", "input_text": "text", "output_text": "text"}
INSTRUCTION_PARTS: dict[str, PartReader] = {"text": read_text_part, "input_text": read_text_part}
INPUT_PARTS: dict[str, PartReader] = INSTRUCTION_PARTS | {"image_url": read_image_part}
ANSWER_PARTS: dict[str, PartReader] = {
    "text": read_text_part,
    "refusal": read_text_part,
    "output_text": read_text_part,
}

ROLES: dict[str, Callable[[Conversation, Raw], tuple[HistoryItem, ...]]] = {
    "developer": Conversation.read_instructions,
    "system": Conversation.read_instructions,
    "user": Conversation.read_user,
    "assistant": Conversation.read_assistant,
    "tool": Conversation.read_tool,
    "function": Conversation.read_function,
}
