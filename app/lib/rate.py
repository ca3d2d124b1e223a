"""How often something may happen in any minute."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0


class MinuteWindow:
    """Remembers when the last ones were: exact, where a bucket would let twice as many pass at first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: deque[float] = deque()

    def take(self, now_s: float) -> float:
        """Take one, and 0; or how long it is until there is one."""
        self._forget(now_s)
        if len(self._taken) >= self.most:
            return self._taken[0] + WINDOW_S - now_s
        self._taken.append(now_s)
        return 0.0

    def count_left(self, now_s: float) -> int:
        self._forget(now_s)
        return self.most - len(self._taken)

    def measure_reset(self, now_s: float) -> float:
        """How long it is until all of them are there again."""
        return max(self._taken[-1] + WINDOW_S - now_s, 0.0) if self._taken else 0.0

    def _forget(self, now_s: float) -> None:
        while self._taken and self._taken[0] + WINDOW_S <= now_s:
            self._taken.popleft()
