"""The assistant's words in a message of any accepted shape."""

from __future__ import annotations

from collections.abc import Iterable

from app.lib.tool_call_shapes import Payload, only_mappings, open_payload, read_text


def read_texts(payload: object) -> dict[int | None, str]:
    """The assistant's words in a message, by the choice they are named to belong to."""
    if isinstance(payload, str):
        return {None: payload}
    texts: dict[int | None, str] = {}
    for bare, scope in open_payload(payload, True):
        for message in find_messages(bare):
            texts[scope.choice] = texts.get(scope.choice, "") + read_content(message)
    return texts


def find_messages(bare: Payload) -> Iterable[Payload]:
    """The messages in a body's output or a notification's item, or the one this is; the assistant's only."""
    output = bare.get("output")
    found = only_mappings(output) if isinstance(output, list) else only_mappings([bare.get("item", bare)])
    return [message for message in found if message.get("role", "assistant") == "assistant"]


def read_content(message: Payload) -> str:
    """Text, or the texts of all parts that have one."""
    content = message.get("content") or message.get("text")
    if isinstance(content, str):
        return content
    return "".join(read_text(part, "text") or "" for part in only_mappings(content))


def read_chat_text(payload: Payload) -> tuple[str, bool]:
    """The words in a chat delta or message of one choice, and whether they are all of them."""
    [(bare, scope)] = open_payload([payload], False)
    is_words = isinstance(bare.get("content"), str | list) and not isinstance(bare.get("type"), str)
    spoken = find_messages(bare) if is_words else ()
    return "".join(read_content(message) for message in spoken), scope.whole
