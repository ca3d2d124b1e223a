"""How many processes there may be, and how many of them may be starting a turn."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from app.backend.process import CodexProcess


class Claim(enum.Enum):
    """What a request finds when no process is idle."""

    #: Room for a new one.
    SLOT = enum.auto()
    NOTHING = enum.auto()


@dataclass(slots=True)
class Tally:
    """What became of all processes there were."""

    process_starts: int = 0
    process_deaths: int = 0
    parks: int = 0


class Slots:
    """Told and asked under its pool's lock."""

    def __init__(self, most: int, most_starting: int) -> None:
        self._most = most
        self._most_starting = most_starting
        self.tally = Tally()
        #: Processes there are, and those that are about to be.
        self.taken = 0
        #: Claimed for processes that are not there yet.
        self._unfilled = 0
        #: Owned, with no turn running yet.
        self._starting: set[CodexProcess] = set()

    @property
    def may_start(self) -> bool:
        return len(self._starting) + self._unfilled < self._most_starting

    def claim(self) -> bool:
        is_free = self.taken < self._most
        self.taken += is_free
        self._unfilled += is_free
        return is_free

    def fill(self, process: CodexProcess) -> None:
        """The process for a slot that was claimed; its owner starts a turn."""
        self._unfilled -= 1
        self.tally.process_starts += 1
        self.start(process)

    def give_up(self) -> None:
        """There is no process for a slot that was claimed."""
        self._unfilled -= 1
        self.taken -= 1

    def start(self, process: CodexProcess) -> None:
        self._starting.add(process)

    def end_start(self, process: CodexProcess) -> None:
        self._starting.discard(process)

    def free(self, process: CodexProcess) -> None:
        """A process is gone."""
        self._starting.discard(process)
        self.taken -= 1
