"""What a client asks for, free of any dialect's spelling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.lib.tool_registry import NO_TOOLS, ToolRegistry


class Role(StrEnum):
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class ToolTransport(StrEnum):
    """How the model learns of the client's tools and calls them."""

    #: As functions of its own.
    NATIVE = "native"
    #: As text: a manifest among the instructions, calls as `<tool_call>` blocks.
    SENTINEL = "sentinel"


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
class PastCall:
    """A call the assistant made, as the client tells it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PastOutput:
    """What a call came to."""

    call_id: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class PastReasoning:
    """What the model thought; only its own API can read that."""

    #: `None` where the client was not given it.
    encrypted: str | None
    #: The parts of the summary.
    summary: tuple[str, ...] = ()
    #: What the client knows it by.
    item_id: str | None = None


HistoryItem = Message | PastCall | PastOutput | PastReasoning


@dataclass(frozen=True, slots=True)
class ItemReference:
    """An item that the client knows by its id."""

    id: str


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """An answer that has to be JSON."""

    #: What it has to conform to; `None`: any object.
    schema: dict[str, Any] | None = None
    #: Whether the client promised that the schema keeps to the strict subset.
    strict: bool = False


@dataclass(frozen=True, slots=True)
class TurnRequest:
    model: str
    history: tuple[HistoryItem, ...]
    effort: str | None = None
    choices: int = 1
    #: How reasoning is summarised.
    summary: str = "auto"
    tools: ToolRegistry = NO_TOOLS
    #: Whether one answer may hold several calls.
    parallel: bool = True
    json_format: JsonFormat | None = None
    #: Texts that end an answer where the first of them begins.
    stop: tuple[str, ...] = ()
    #: The most visible text, by an estimate.
    max_tokens: int | None = None
    #: Whether codex may search the web by itself.
    web_search: bool = False
    #: Whether the client sent nothing but results of calls: what goes before was found for it.
    brings_results_only: bool = False
