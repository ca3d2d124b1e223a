"""The idle threads of a process, by the conversations they hold."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from app.lib.continuation import ThreadKey
from app.lib.usage import Usage


@dataclass(frozen=True, slots=True)
class RestingThread:
    id: str
    #: The tokens of all its turns.
    usage: Usage
    since_s: float = field(default_factory=time.monotonic)


class RestingThreads:
    """As many as the process has run turns; a thread that is taken up again is no longer here."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._by_key: dict[ThreadKey, RestingThread] = {}

    def keep(self, key: ThreadKey, thread: RestingThread) -> None:
        self._by_key[key] = thread

    def has(self, key: ThreadKey) -> bool:
        thread = self._by_key.get(key)
        return thread is not None and time.monotonic() < thread.since_s + self._ttl_s

    def take(self, key: ThreadKey) -> RestingThread | None:
        return self._by_key.pop(key, None) if self.has(key) else None
