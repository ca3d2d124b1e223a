"""The input of a Responses request, read into one flat history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import marshmallow as ma

from app.lib.request import (
    HistoryItem,
    ImagePart,
    ItemReference,
    Message,
    Part,
    PastOutput,
    PastReasoning,
    Role,
    TextPart,
)
from app.schemas.content import (
    ANSWER_PARTS,
    INPUT_PARTS,
    Raw,
    build_call,
    read_content,
    read_naming,
    read_optional,
    read_part,
)
from app.schemas.tools import complain, read_list, read_object

InputItem = HistoryItem | ItemReference

INPUT_RULE = "Must be a string or a non-empty list of items, and say something."
MAX_ID_CHARS = 256
ROLE_RULE = "Must be one of: user, assistant, system, developer."


def read_input(value: Any) -> tuple[InputItem, ...]:
    """`input`; walked by hand, since a nested schema per item costs ten times as much."""
    if isinstance(value, str) and value:
        return (Message(Role.USER, (TextPart(value),)),)
    if not isinstance(value, list) or not value:
        raise complain(INPUT_RULE)
    items: list[InputItem] = []
    #: Parts that stand alone are the user's; several in a row are one message.
    bare: list[Part] = []
    for index, raw in enumerate(value):
        read = read_item(raw, index)
        if isinstance(read, TextPart | ImagePart):
            bare.append(read)
            continue
        items += [*take_message(bare), *read]
    return (*items, *take_message(bare))


def take_message(bare: list[Part]) -> tuple[Message, ...]:
    parts = tuple(bare)
    bare.clear()
    return (Message(Role.USER, parts),) if parts else ()


def read_item(raw: Any, index: int) -> tuple[InputItem, ...] | Part:
    try:
        item = read_object(raw)
        kind = find_kind(item)
        return read_part(item, INPUT_PARTS) if kind in BARE else READERS[kind](item)
    except ma.ValidationError as error:
        raise ma.ValidationError({index: error.messages}) from error


def find_kind(item: Raw) -> str:
    """An item's type; messages need not say it, and neither does a bare id."""
    kind = item.get("type")
    if kind is None:
        return "item_reference" if "id" in item and "role" not in item else "message"
    if not isinstance(kind, str) or (kind not in READERS and kind not in BARE):
        raise complain(f"Must be one of: {', '.join([*READERS, *BARE])}.", "type")
    return kind


def read_message(item: Raw) -> tuple[InputItem, ...]:
    role = item.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise complain(ROLE_RULE, "role")
    if role == "assistant":
        said = tuple(part for part in read_optional(item, ANSWER_PARTS) if part != TextPart(""))
        return (Message(Role.ASSISTANT, said),) if said else ()
    return (Message(ROLES[role], read_content(item, INPUT_PARTS)),)


def read_call(item: Raw) -> tuple[InputItem, ...]:
    """A call that the client echoes (D3); some know it by its item's id alone."""
    key = "id" if item.get("call_id") is None and item.get("id") else "call_id"
    return (build_call(read_naming(item, key), item),)


def read_output(item: Raw) -> tuple[InputItem, ...]:
    call_id = read_naming(item, "call_id")
    if item.get("output") is None:
        raise complain("Must be a string or a list of parts.", "output")
    return (PastOutput(call_id, read_optional(item, INPUT_PARTS, "output")),)


def read_reasoning(item: Raw) -> tuple[InputItem, ...]:
    encrypted = item.get("encrypted_content")
    if encrypted is not None and not isinstance(encrypted, str):
        raise complain("Must be a string or null.", "encrypted_content")
    summary = read_list(item.get("summary") or [], "summary")
    parts = (read_part(part, SUMMARY_PARTS, "summary", index) for index, part in enumerate(summary))
    texts = tuple(part.text for part in parts if isinstance(part, TextPart))
    item_id = item.get("id") if isinstance(item.get("id"), str) else None
    return (PastReasoning(encrypted or None, texts, item_id),)


def read_summary_part(part: Raw, *path: int | str) -> Part:
    if not isinstance(part.get("text"), str):
        raise complain("Must be a string.", *path, "text")
    return TextPart(part["text"])


def read_item_reference(item: Raw) -> tuple[InputItem, ...]:
    item_id = read_naming(item, "id")
    if len(item_id) > MAX_ID_CHARS:
        raise complain(f"Must not be longer than {MAX_ID_CHARS} characters.", "id")
    return (ItemReference(item_id),)


ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.DEVELOPER,
    "developer": Role.DEVELOPER,
}
SUMMARY_PARTS: dict[str, Callable[..., Part]] = {"summary_text": read_summary_part}
#: Parts that clients also send as items.
BARE = ("input_text", "input_image")
READERS: dict[str, Callable[[Raw], tuple[InputItem, ...]]] = {
    "message": read_message,
    "function_call": read_call,
    "function_call_output": read_output,
    "reasoning": read_reasoning,
    "item_reference": read_item_reference,
    # What a search of codex's own found is in the answer behind it.
    "web_search_call": lambda _: (),
}
