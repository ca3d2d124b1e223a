"""What a client asks for, free of any dialect's spelling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    #: Always a data URL: codex takes no other, and a file URL would read the gateway's disk.
    data_url: str


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    model: str
    messages: tuple[Message, ...]
    effort: str | None = None
    choices: int = 1
