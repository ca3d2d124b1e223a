"""The deadlines of one turn, told the time by its ticks."""

from __future__ import annotations

from dataclasses import dataclass

from app.lib.errors import BackendTimeout, ProxyError


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a turn may take to its first event, between two, and as a whole."""

    first_event_s: float = 120
    idle_s: float = 300
    total_s: float = 1800


class DeadlineWatch:
    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._began_s: float | None = None
        self._quiet_since_s: float | None = None
        self._quiet_limit_s = deadlines.first_event_s

    def note_queue(self) -> None:
        """Codex has not been asked yet: its silence counts from the next tick."""
        self._quiet_since_s = None

    def note_event(self) -> None:
        self._quiet_since_s = None
        self._quiet_limit_s = self._deadlines.idle_s

    def see(self, now_s: float) -> ProxyError | None:
        """Take the time and say what is overdue."""
        self._began_s = now_s if self._began_s is None else self._began_s
        self._quiet_since_s = now_s if self._quiet_since_s is None else self._quiet_since_s
        if now_s - self._began_s >= self._deadlines.total_s:
            return BackendTimeout(f"The turn took longer than {self._deadlines.total_s:g} s.")
        if now_s - self._quiet_since_s >= self._quiet_limit_s:
            return BackendTimeout(f"Codex was silent for {self._quiet_limit_s:g} s.")
        return None
