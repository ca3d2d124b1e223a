"""Those who wait for a codex process, in order."""

from __future__ import annotations

import bisect
import threading
import time
from dataclasses import dataclass, field

from app.lib.continuation import ThreadKey
from app.lib.errors import GatewayBusy


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request wants of the pool."""

    #: How long it waits in the line; for ever, where nobody waits for it.
    patience_s: float
    #: The conversation it goes on with: a process whose thread holds that is the best one.
    key: ThreadKey | None = None
    arrived_s: float = field(default_factory=time.monotonic)
    #: Whether it is worth a parked turn, where every process is taken.
    ends_parked: bool = True


class Ticket:
    """A place in the line."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self._called = threading.Event()

    @property
    def order(self) -> tuple[bool, float]:
        """Who came first is first; but those for whom nobody waits let the others pass."""
        return self.wish.patience_s == float("inf"), self.wish.arrived_s

    def call(self) -> None:
        self._called.set()

    def wait(self, timeout_s: float) -> None:
        """Until there may be something, at most so long."""
        self._called.wait(timeout_s)
        self._called.clear()


class Line:
    """Told and asked under its pool's lock."""

    def __init__(self, max_tickets: int) -> None:
        self._max_tickets = max_tickets
        self._tickets: list[Ticket] = []

    def __len__(self) -> int:
        return len(self._tickets)

    def is_next(self, ticket: Ticket | None) -> bool:
        """Whether nobody is before this ticket, or before one who has none yet."""
        return not self._tickets or self._tickets[0] is ticket

    def join(self, wish: Wish) -> Ticket:
        if len(self._tickets) >= self._max_tickets:
            raise GatewayBusy("Every codex process is busy, and too many requests wait already.")
        ticket = Ticket(wish)
        bisect.insort(self._tickets, ticket, key=lambda each: each.order)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        self._tickets.remove(ticket)
        self.call_next()

    def call_next(self) -> None:
        """Something changed: the first in the line looks whether it is for it."""
        if self._tickets:
            self._tickets[0].call()
