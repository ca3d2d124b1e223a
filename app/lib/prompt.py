"""Turns a request into what codex is given: structured history items, never one flattened string."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from app.lib.request import ImagePart, Message, Part, Role, TextPart, TurnRequest


@dataclass(frozen=True, slots=True)
class Prompt:
    model: str
    #: Responses-API items, rebuilt key by key: codex injects whatever it is handed.
    items: tuple[dict[str, Any], ...]
    effort: str | None = None
    choices: int = 1


def build_prompt(request: TurnRequest) -> Prompt:
    # An assistant message may have said nothing; codex would be given an item without content.
    said = [message for message in lift_leading_assistant(request.messages) if message.parts]
    items = tuple(build_item(message) for message in said)
    return Prompt(request.model, items, request.effort, request.choices)


def mentions(prompt: Prompt, needles: Collection[str]) -> bool:
    """Whether the instructions speak of any of these."""
    instructions = [item for item in prompt.items if item["role"] == Role.DEVELOPER]
    texts = [part["text"] for item in instructions for part in item["content"]]
    return any(needle in text for text in texts for needle in needles)


def lift_leading_assistant(messages: tuple[Message, ...]) -> Iterator[Message]:
    """Read an assistant message before any user message as instructions.

    Obsidian Copilot 3.1.x sends its system prompt that way.
    """
    user_seen = False
    for message in messages:
        user_seen = user_seen or message.role is Role.USER
        if message.role is Role.ASSISTANT and not user_seen:
            yield Message(Role.DEVELOPER, message.parts)
        else:
            yield message


def build_item(message: Message) -> dict[str, Any]:
    return {
        "type": "message",
        "role": message.role.value,
        "content": [build_part(part, message.role) for part in message.parts],
    }


def build_part(part: Part, role: Role) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "output_text" if role is Role.ASSISTANT else "input_text", "text": text}
        case ImagePart(data_url):
            return {"type": "input_image", "image_url": data_url}
        case _:
            assert_never(part)
