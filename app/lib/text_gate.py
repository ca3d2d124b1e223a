"""Streamed text in, visible text and complete tool blocks out."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from app.lib.block_hold import CLOSER, Hold
from app.lib.block_rows import BlockRow, Outcome, Reading, RowSet
from app.lib.events import NoteKind
from app.lib.sentinel import ProblemKind, ToolCallProblem
from app.lib.tool_calls import TextCall

DEFAULT_MAX_CHARS = 1024 * 1024
SLICE_CHARS = 4096


class Reason(StrEnum):
    """Why a block was let go."""

    COMPLETE = "complete"
    MALFORMED = "malformed"
    #: Words about the tag: what follows the opener begins no block.
    PROSE = "prose"
    #: A block like any other, but of a tool that is not to be called.
    NO_CALL = "no_call"
    NESTED = "nested"
    TOO_LARGE = "too_large"
    REFUSED = "refused"
    DEADLINE = "deadline"
    STREAM_ENDED = "stream_ended"
    STREAM_FAILED = "stream_failed"
    CLIENT_LEFT = "client_left"


NOT_CALLED = (ProblemKind.UNKNOWN_TOOL, ProblemKind.NOT_ALLOWED)


@dataclass(frozen=True, slots=True)
class Passed:
    """Text for the client, as it was."""

    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """A complete block, its place in the stream, and the call it spells."""

    row: str
    text: str
    index_start: int
    call: TextCall
    #: What is wrong with the call, though not enough to refuse it.
    problem: ToolCallProblem | None = None
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A block that must not go out, neither as a call nor as text."""

    row: str
    problem: ToolCallProblem


@dataclass(frozen=True, slots=True)
class Buffered:
    """For the counters: every start has one end, flushed or aborted."""

    row: str
    kind: NoteKind
    reason: Reason | None = None
    #: What made a block unreadable, where that was looked into.
    problem: ToolCallProblem | None = None


GateEvent = Passed | Found | Refused | Buffered


class TextGate:
    """Holds back what could still become a tag, and what could still become a block; nothing else.

    The events are the same for every cut of the text, but for where `Passed` texts are cut.
    Held at most: `max_chars` of a block, its row's or the gate's, or an opener without its last character.
    """

    def __init__(self, rows: RowSet, max_chars: int = DEFAULT_MAX_CHARS) -> None:
        self._rows = rows
        self._max_chars = max_chars
        self._beginning = ""
        self._hold: Hold | None = None
        #: How much of the stream is through: passed on, or taken as a block.
        self._through = 0

    @property
    def is_in_block(self) -> bool:
        return self._hold is not None

    def lets_through(self, text: str) -> bool:
        """Whether a text may go on as it is, whole and at once; it counts as fed then."""
        if self._hold is not None or self._beginning or self._rows.opener.search(text):
            return False
        self._through += len(text)
        return True

    def feed(self, text: str) -> list[GateEvent]:
        if self.lets_through(text):
            return [Passed(text)] if text else []
        out: list[GateEvent] = []
        pending = collections.deque(cut_slices(text))
        while pending:
            piece, self._beginning = self._beginning + pending.popleft(), ""
            rest = self._scan_piece(piece, out)
            pending.extendleft(reversed(cut_slices(rest)))
        return out

    def finish(self, reason: Reason = Reason.STREAM_ENDED) -> list[GateEvent]:
        """Let go of what is held: as a block where it is one by now, else as it was."""
        out: list[GateEvent] = []
        while self._hold:  # at most twice a row, see `JsonStrings`
            left = self._let_go(self._hold, reason, out)
            out += self.feed(left)
        beginning, self._beginning = self._beginning, ""
        self._pass(beginning, out)
        return out

    def _scan_piece(self, text: str, out: list[GateEvent]) -> str:
        """Look through a piece; returns what is still to look at: the end of a hold, and what follows."""
        place, left = 0, ""
        while place < len(text) and not left:
            if self._hold is None:
                place = self._scan(text, place, out)
            else:
                place, left = self._scan_held(self._hold, text, place, out)
        return left + text[place:]

    def _scan(self, text: str, start: int, out: list[GateEvent]) -> int:
        """Pass text on up to the next opener; returns the place behind it."""
        match = self._rows.opener.search(text, start)
        if match is None:
            self._pass(text[start:], out)
            return len(text)
        self._pass(text[start : match.start()], out)
        group = match.lastgroup or ""
        if group == "beginning":
            self._beginning = match.group()
        else:
            self._start(group, match.group(), out)
        return match.end()

    def _start(self, group: str, opener: str, out: list[GateEvent]) -> None:
        self._hold = Hold(group, self._rows, opener)
        out.append(Buffered(self._hold.row.name, NoteKind.BUFFER_STARTED))

    def _scan_held(self, hold: Hold, text: str, start: int, out: list[GateEvent]) -> tuple[int, str]:
        """Hold text up to what ends the block; returns the place behind it, and what is left of the hold."""
        found, end, length = hold.search(text, start)
        full = start + max(0, self._find_limit(hold.row) - hold.length)
        if end + (length == 0) > full:  # what is no mark shows only by the character behind it
            hold.keep(text[start:full])
            return full, self._let_go(hold, Reason.TOO_LARGE, out)
        if length == 0:
            hold.keep(text[start:end])
            return end, self._settle(hold, hold.text(), None, Reason.PROSE, out) if found else ""
        hold.keep_mark(text[start:end])
        return end, self._close(hold, out) if found == CLOSER else self._restart(hold, length, out)

    def _find_limit(self, row: BlockRow) -> int:
        return self._max_chars if row.max_chars is None else row.max_chars

    def _close(self, hold: Hold, out: list[GateEvent]) -> str:
        """Read the block up to a closer; one that need not be the last leaves it open if nothing is read."""
        outcome = hold.try_to_read()
        if outcome is None and not hold.row.is_decided_at_once:
            return ""
        return self._settle(hold, hold.text(), outcome, Reason.MALFORMED, out)

    def _restart(self, hold: Hold, length: int, out: list[GateEvent]) -> str:
        """An opener inside a block: what precedes it is let go, and a block held from there."""
        before, opener = hold.text()[:-length], hold.text()[-length:]
        left = self._settle(hold, before, read_late(hold.row, before), Reason.NESTED, out)
        if left:
            return left + opener
        self._start(hold.group, opener, out)
        return ""

    def _let_go(self, hold: Hold, reason: Reason, out: list[GateEvent]) -> str:
        return self._settle(hold, hold.text(), read_late(hold.row, hold.text()), reason, out)

    def _settle(self, hold: Hold, held: str, outcome: Outcome, reason: Reason, out: list[GateEvent]) -> str:
        """End a hold; returns the text that is to be looked at like any other."""
        self._hold = None
        row = hold.row.name
        match outcome:
            case Reading(start, end, call, problem, repaired):
                self._pass(held[:start], out)
                out.append(Buffered(row, NoteKind.BUFFER_FLUSHED, Reason.COMPLETE))
                out.append(Found(row, held[start:end], self._through, call, problem, repaired))
                self._through += end - start
                return held[end:]
            case ToolCallProblem(fatal=True):
                self._through += len(held)
                out += [Buffered(row, NoteKind.BUFFER_ABORTED, Reason.REFUSED), Refused(row, outcome)]
                return ""
            case None | ToolCallProblem():
                if outcome and outcome.kind in NOT_CALLED:
                    reason = Reason.NO_CALL
                out.append(Buffered(row, NoteKind.BUFFER_ABORTED, reason, outcome))
                # Only its opener is settled: behind that may stand a block of another spelling.
                self._pass(hold.opener, out)
                return held[len(hold.opener) :]
            case _:
                assert_never(outcome)

    def _pass(self, text: str, out: list[GateEvent]) -> None:
        if text:
            self._through += len(text)
            out.append(Passed(text))


def cut_slices(text: str) -> list[str]:
    """A text in pieces small enough to be copied again and again."""
    return [text[start : start + SLICE_CHARS] for start in range(0, len(text), SLICE_CHARS)]


def read_late(row: BlockRow, held: str) -> Outcome:
    """A last look at a block that no closer ended.

    Where the first closer decides, one that seemed to stand in a string does so now: the string has no end.
    """
    if not row.is_decided_at_once:
        return row.read(held)
    ends = [found + len(closer) for closer in row.closers if (found := held.find(closer)) >= 0]
    return row.read(held[: min(ends)]) if ends else None
