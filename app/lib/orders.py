"""What the core wants of the backend: a closed vocabulary, as the events are."""

from __future__ import annotations

from dataclasses import dataclass

from app.lib.tool_calls import ToolCallRecord


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """Have the model correct a call: it is told what is wrong, and its turn goes on."""

    choice: int
    call_id: str
    message: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Have the model answer once more, behind an answer that will not do."""

    choice: int
    message: str


@dataclass(frozen=True, slots=True)
class StopChoice:
    """Nothing more of this choice is wanted, though others go on."""

    choice: int


@dataclass(frozen=True, slots=True)
class AwaitResults:
    """This choice ended in calls; its turn may wait for what they come to, which a later request brings."""

    choice: int
    #: Every call that the client was told of; each has an id of the backend's own.
    calls: tuple[ToolCallRecord, ...]


Order = RefuseCall | AskAgain | StopChoice | AwaitResults
