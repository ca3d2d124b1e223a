"""Turns that wait for the results of their calls, and which request brings them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.backend.process import CodexProcess
from app.backend.threads import Threads
from app.lib.continuation import Delivery, ThreadKey
from app.lib.conversation import Conversation
from app.lib.placement import Origin
from app.lib.prompt import is_told
from app.lib.request import Message, PastOutput


@dataclass(frozen=True, slots=True, eq=False)
class ParkedTurn:
    """A turn with its process; whoever takes it owns both."""

    key: ThreadKey
    #: The client's ids of the calls to codex's own.
    calls: Mapping[str, str]
    process: CodexProcess
    threads: Threads
    since_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A parked turn, and what a request brings for it."""

    turn: ParkedTurn
    delivery: Delivery

    @property
    def outputs(self) -> dict[str, PastOutput]:
        """By codex's own ids of the calls."""
        calls = self.turn.calls
        return {calls[call_id]: output for call_id, output in self.delivery.outputs.items()}

    @property
    def said(self) -> list[Message]:
        """What the model is told behind the results."""
        return [message for message in self.delivery.said if is_told(message)]


class Parking:
    """Oldest first; told and asked under its pool's lock."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._turns: list[ParkedTurn] = []

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: ParkedTurn) -> None:
        self._turns.append(turn)

    def take(self, conversation: Conversation) -> Continuation | Origin:
        """The turn that a request brings the results for, or why there is none; others stay as they are."""
        answered = conversation.find_answered()
        why = Origin.UNKNOWN if answered else Origin.NEW
        # Of several the latest: the calls before it were answered elsewhere.
        asking = [turn for turn in self._turns if answered & turn.calls.keys() and not self.is_late(turn)]
        for turn in reversed(asking):
            found = conversation.match(turn.key, turn.calls.keys())
            if isinstance(found, Delivery):
                self._turns.remove(turn)
                return Continuation(turn, found)
            why = found
        return why

    def is_late(self, turn: ParkedTurn) -> bool:
        return time.monotonic() >= turn.since_s + self._ttl_s

    def take_oldest(self) -> ParkedTurn:
        return self._turns.pop(0)

    def take_all(self) -> list[ParkedTurn]:
        turns, self._turns = self._turns, []
        return turns

    def take_where(self, is_over: Callable[[ParkedTurn], bool]) -> list[ParkedTurn]:
        over = [turn for turn in self._turns if is_over(turn)]
        self._turns = [turn for turn in self._turns if turn not in over]
        return over
