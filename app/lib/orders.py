"""What the core wants of the backend: a closed vocabulary, as the events are."""

from __future__ import annotations

from dataclasses import dataclass


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


Order = RefuseCall | AskAgain | StopChoice
