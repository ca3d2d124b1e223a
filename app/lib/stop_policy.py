"""What happens after a tool block, and why an answer ended: policies as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from app.lib.events import FinishReason

# A call outranks everything: a client that waits for one must learn of it however the turn ended.
PRECEDENCE = (FinishReason.TOOL_CALLS, FinishReason.CONTENT_FILTER, FinishReason.LENGTH, FinishReason.STOP)


def choose_finish(reasons: Iterable[FinishReason]) -> FinishReason:
    """The one reason a client is told."""
    return min(reasons, key=PRECEDENCE.index)


class StopMode(StrEnum):
    FIRST = "first"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class StopPolicy:
    """The operator's wishes for what follows a block of text that is a call."""

    #: Cut the turn: at the first block, or in mode `all` when no other follows.
    stop: bool = True
    mode: StopMode = StopMode.FIRST
    #: How long mode `all` waits for another block.
    grace_s: float = 0.3
    #: Drop text behind a block, also where the turn runs on.
    suppress_tail: bool = True
    #: Drop a block that says the same as one before it.
    dedup: bool = False
    #: Blocks that count as calls; 0: every one.
    max_blocks: int = 0

    def run_on(self) -> StopPolicy:
        """The same for an answer that may just be about a tag: it is not cut, and its text not dropped."""
        return replace(self, stop=False, suppress_tail=False)

    def stop_at_one(self) -> StopPolicy:
        """The same for a client that wants one call at most."""
        return replace(self, mode=StopMode.FIRST, max_blocks=1)


class Fate(Enum):
    """What becomes of a block."""

    SHOWN = "recorded as a call, and shown"
    RECORDED = "recorded as a call, not shown"
    TEXT = "no call; text like any other"
    DROPPED = "neither"

    @property
    def is_call(self) -> bool:
        return self in (Fate.SHOWN, Fate.RECORDED)


class ToolTail:
    """One choice's blocks so far, and whether it is to be cut."""

    def __init__(self, policy: StopPolicy) -> None:
        self._policy = policy
        self._blocks = 0
        self._seen: set[str] = set()
        self._waiting_since_s: float | None = None
        self.is_cut = False

    @property
    def has_blocks(self) -> bool:
        return self._blocks > 0

    def decide(self, text: str, is_of_batch: bool = False) -> Fate:
        """What becomes of the next block; in a batch the first does not end what mode `first` shows."""
        if self.is_cut or (self._policy.dedup and text in self._seen):
            return Fate.DROPPED
        if self._policy.max_blocks and self._blocks >= self._policy.max_blocks:
            return Fate.TEXT if self.admits(text) else Fate.DROPPED
        self._note_block(text, is_of_batch)
        return Fate.RECORDED if self._blocks > 1 and self._is_one_enough() else Fate.SHOWN

    def admits(self, text: str) -> bool:
        """Whether visible text goes out; behind a block it may end the wait for another."""
        if self._blocks and self._policy.stop:
            # White space between blocks is no reason to cut, but nor is it known yet what follows it.
            self.is_cut = self.is_cut or not text.isspace()
            return False
        return not (self._blocks and self._policy.suppress_tail)

    def see(self, now_s: float, is_in_block: bool) -> None:
        """Take the time: a block under way is what the grace is for, so it stands still meanwhile."""
        is_waiting = self._blocks and self._policy.stop and self._policy.mode is StopMode.ALL
        if not is_waiting or is_in_block:
            self._waiting_since_s = None
        elif self._waiting_since_s is None:
            self._waiting_since_s = now_s
        elif now_s - self._waiting_since_s >= self._policy.grace_s:
            self.is_cut = True

    def _is_one_enough(self) -> bool:
        """Whether only the first block is shown: in mode `first`, unless everything flows on."""
        return self._policy.mode is StopMode.FIRST and (self._policy.stop or self._policy.suppress_tail)

    def _note_block(self, text: str, is_of_batch: bool) -> None:
        self._blocks += 1
        self._waiting_since_s = None
        if self._policy.dedup:
            self._seen.add(text)
        is_one = self._policy.mode is StopMode.FIRST and not is_of_batch
        is_last = is_one or self._blocks == self._policy.max_blocks
        self.is_cut = self._policy.stop and is_last
