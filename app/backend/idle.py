"""The processes that nobody owns, and which of them is the best for a request."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.backend.process import CodexProcess
from app.lib.continuation import ThreadKey


class IdleProcesses:
    """The last one in is the first one out. Told and asked under its pool's lock."""

    def __init__(self, is_usable: Callable[[CodexProcess], bool]) -> None:
        self._is_usable = is_usable
        #: With the time since when.
        self._entries: list[tuple[float, CodexProcess]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, process: CodexProcess) -> None:
        self._entries.append((time.monotonic(), process))

    def take(self, key: ThreadKey | None) -> CodexProcess | None:
        """The one that holds a conversation, if there is one; else the last."""
        holding = (i for i, (_, each) in enumerate(self._entries) if key and each.resting.has(key))
        return self._entries.pop(next(holding, -1))[1] if self._entries else None

    def take_all(self) -> list[CodexProcess]:
        entries, self._entries = self._entries, []
        return [process for _, process in entries]

    def take_unwanted(self, wanted: int, lifetime_s: float) -> list[CodexProcess]:
        """Those of no use any more, and of those beyond the wanted number the ones idle for that long."""
        late_s = time.monotonic() - lifetime_s
        spare = max(len(self._entries) - wanted, 0)
        unwanted = [
            entry
            for place, entry in enumerate(self._entries)
            if (place < spare and entry[0] < late_s) or not self._is_usable(entry[1])
        ]
        self._entries = [entry for entry in self._entries if entry not in unwanted]
        return [process for _, process in unwanted]
