"""Whether a codex process is good for another turn."""

from __future__ import annotations

import os
import time

from app.backend.home import CodexHome
from app.backend.process import CodexProcess
from app.settings import Settings

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The kernel takes longer to tell a process's size than all the rest of a turn's end.
WEIGHED_EVERY_S = 1.0


class Fitness:
    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._max_turns = settings.process_max_turns
        self._max_rss_bytes = settings.process_max_rss_bytes

    def allows_another(self, process: CodexProcess) -> bool:
        """Whether it may serve more turns: it keeps every thread, so it grows. A new one may."""
        return process.turns < self._max_turns and (process.turns == 0 or self._is_small(process))

    def _is_small(self, process: CodexProcess) -> bool:
        now_s = time.monotonic()
        if now_s < process.weighed_s + WEIGHED_EVERY_S:
            return True  # or it would not be here
        process.weighed_s = now_s
        return measure_rss(process.pid) <= self._max_rss_bytes

    def is_usable(self, process: CodexProcess) -> bool:
        """A login or logout since it started makes a process unusable: it may hold the old account."""
        return process.is_alive() and process.login == self._home.login.read().identity


def measure_rss(pid: int) -> int:
    """A process's resident memory in bytes."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as pages:
            return int(pages.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):  # it is gone: somebody else notices
        return 0
