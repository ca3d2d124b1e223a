"""Whether it is worth starting codex processes: a binary that keeps dying is left alone for a while."""

from __future__ import annotations

import random
import time

from app.lib.errors import BackendUnavailable

MAX_FAILURES = 5
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# Of a pause, at most so much is added by chance: several workers must not all try at once.
JITTER = 0.25


class Breaker:
    """Open after so many failures in a row; each try that fails then doubles the pause before the next.

    A new process that says hello closes it on trial: the next failure opens it again, and only a turn that
    begins there makes the past forgotten. One from before the last failure says nothing of those to come.
    Told by its pool, under the pool's lock.
    """

    def __init__(self, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._first_pause_s = first_pause_s
        self._pause_s = first_pause_s
        self._has_greeted = False
        self._failures = 0
        self._failed_s = 0.0
        #: When the next try is due, on the clock that only moves forward; `None` while it is closed.
        self._due_s: float | None = None

    @property
    def is_open(self) -> bool:
        return self._due_s is not None

    @property
    def is_ready(self) -> bool:
        """Whether a process has said hello, and they do not keep failing."""
        return self._has_greeted and not self.is_open

    @property
    def is_due(self) -> bool:
        """Whether somebody may try."""
        return self._due_s is not None and time.monotonic() >= self._due_s

    def check(self) -> None:
        """Refuse what would need a new process."""
        if self._due_s is not None:
            wait_s = max(self._due_s - time.monotonic(), 0)
            raise BackendUnavailable(
                "Codex processes keep failing; the gateway tries again by itself.",
                retry_at_s=time.time() + wait_s,
            )

    def note_failure(self) -> None:
        self._failures += 1
        self._failed_s = time.monotonic()
        if self._failures < MAX_FAILURES:
            return
        jitter_s = self._pause_s * JITTER * random.random()  # noqa: S311  no secret
        self._due_s = time.monotonic() + self._pause_s + jitter_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def note_greeting(self, started_s: float) -> None:
        """A process that was started then said hello."""
        self._has_greeted = True
        if started_s >= self._failed_s:
            self._due_s = None

    def note_success(self, started_s: float) -> None:
        """A turn began on a process that was started then."""
        if started_s >= self._failed_s:
            self._failures, self._pause_s, self._due_s = 0, self._first_pause_s, None
