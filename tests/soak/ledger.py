"""What was asked of one gateway, what was done to it, and whether each answer may be what it is."""

import enum
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: A process that is killed while it is idle may still be handed out by a worker that has not looked yet.
NOTICED_WITHIN_S = 0.3
#: Processes that end keep their slots for a moment, and so do those of clients that left.
CROWD_PASSES_WITHIN_S = 5.0
BUSY = "gateway_busy"
STOPPING = "gateway_stopping"
#: What a request may be told whose process was killed under it.
BROKEN = ("backend_unavailable", "answer_interrupted")


class Outcome(enum.Enum):
    ANSWERED = "answered"
    #: Refused while more was asked at once than there are processes.
    BUSY = "refused as busy"
    #: Its process was killed under it.
    KILLED = "hit by a kill"
    #: Its worker was told to stop.
    STOPPED = "hit by a reload"
    #: Its client left, as planned.
    LEFT = "left by its client"
    WRONG = "wrong"


class Deed(enum.Enum):
    """What the saboteur does; a crowd is what clients do."""

    KILL = "kill"
    PAUSE = "pause"
    RELOAD = "reload"
    CROWD = "crowd"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, from its first byte sent to the last one read."""

    kind: str
    request_id: str
    began_s: float
    ended_s: float
    outcome: Outcome
    code: str | None = None
    tier: str | None = None


@dataclass(slots=True)
class Done:
    deed: Deed
    began_s: float
    ended_s: float = float("inf")


class Ledger:
    """Written by every client and the saboteur of one gateway."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked: list[Asked] = []
        self.done: list[Done] = []
        self.violations: list[str] = []

    def note(self, asked: Asked) -> None:
        with self._lock:
            self.asked.append(asked)

    def complain(self, violation: str) -> None:
        with self._lock:
            self.violations.append(violation)

    @contextmanager
    def doing(self, deed: Deed) -> Iterator[None]:
        """Noted before it is done: no answer can suffer from it earlier."""
        done = Done(deed, time.monotonic())
        with self._lock:
            self.done.append(done)
        yield
        done.ended_s = time.monotonic()

    def excuse(self, code: str | None, began_s: float) -> Outcome:
        """What an error that ends a request now may come from; wrong, if from nothing that was done."""
        if code == BUSY and self._overlaps(Deed.CROWD, began_s, CROWD_PASSES_WITHIN_S):
            return Outcome.BUSY
        if code in BROKEN and self._overlaps(Deed.KILL, began_s, NOTICED_WITHIN_S):
            return Outcome.KILLED
        if code == STOPPING and self._overlaps(Deed.RELOAD, began_s, 0):
            return Outcome.STOPPED
        return Outcome.WRONG

    def _overlaps(self, deed: Deed, began_s: float, after_s: float) -> bool:
        with self._lock:
            return any(done.deed is deed and done.ended_s + after_s >= began_s for done in self.done)

    def count(self, deed: Deed) -> int:
        return sum(done.deed is deed for done in self.done)

    def count_outcomes(self) -> Counter[Outcome]:
        return Counter(asked.outcome for asked in self.asked)
