"""What the checks of one turn may cost together, however many calls it makes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from app.lib.schema_check.effort import Clock

# A check that is under way notices late: what it overruns stays below 0.1 s.
TURN_S = 0.25


class CheckBudget:
    """The time some checks share; handed in where a clock is, it is that clock too."""

    __slots__ = ("_clock", "_left_s")

    def __init__(self, clock: Clock, max_s: float = TURN_S) -> None:
        self._clock = clock
        self._left_s = max_s

    def __call__(self) -> float:
        return self._clock()

    @property
    def is_spent(self) -> bool:
        return self._left_s <= 0

    @contextmanager
    def spend(self) -> Iterator[float]:
        """Count the time within; given is when, by the clock, none is left."""
        began_s = self._clock()
        try:
            yield began_s + self._left_s
        finally:
            self._left_s -= self._clock() - began_s


def to_budget(clock: Clock) -> CheckBudget:
    """A clock by itself sets no end to many checks; each still has its own."""
    return clock if isinstance(clock, CheckBudget) else CheckBudget(clock, math.inf)
