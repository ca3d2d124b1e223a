"""Tool calls as values: what the aggregator tells, what a block of text says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.lib.text_buffer import TextBuffer


@dataclass(frozen=True, slots=True)
class ToolCallFunction:
    name: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


class ArgumentsView:
    """A call's arguments up to a length, joined only when somebody reads them."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, buffer: TextBuffer) -> None:
        self._buffer = buffer
        self._length = buffer.length

    def __str__(self) -> str:
        return self._buffer.read()[: self._length]

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArgumentsView) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    id: str
    function: ToolCallFunction
    #: Verbatim: whatever the backend sent, JSON or not.
    arguments: str = ""
    call_id: str | None = None
    type: str = "function"

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "function": self.function.to_dict(),
            "arguments": self.arguments,
        }


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A call that changed: all that is known of it by now, and what this change added."""

    id: str
    function: ToolCallFunction
    #: Place among the calls of its choice, from 0.
    index: int
    #: What came behind the arguments told before; `None` if they were replaced instead.
    added: str | None
    view: ArgumentsView = field(repr=False)
    #: The backend's own id of the call, where it has one.
    call_id: str | None = None
    type: str = "function"

    @property
    def arguments(self) -> str:
        """The cumulative text, as of this delta."""
        return str(self.view)

    def to_record(self) -> ToolCallRecord:
        return ToolCallRecord(self.id, self.function, self.arguments, self.call_id)

    def to_dict(self) -> dict[str, Any]:
        base = {"id": self.id, "type": self.type, "function": self.function.to_dict()}
        return base | ({"arguments": self.arguments} if self.arguments else {})


@dataclass(frozen=True, slots=True)
class IngestResult:
    updated: bool = False
    deltas: tuple[ToolCallDelta, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"updated": self.updated, "deltas": [delta.to_dict() for delta in self.deltas]}


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call as a block of text spells it."""

    name: str
    #: JSON text, as far as it was looked at.
    arguments: str


@dataclass(frozen=True, slots=True)
class ParsedTextBlock:
    """Where a block stands in its text (`text[index_start:index_end]`), and the call it spells."""

    index_start: int
    index_end: int
    name: str
    args_text: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "indexStart": self.index_start,
            "indexEnd": self.index_end,
            "name": self.name,
            "argsText": self.args_text,
        }
