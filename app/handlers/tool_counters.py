"""What requests had to do with tools, counted for the whole worker (v2, telemetry)."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

#: Numbers of a request's log line that add up.
ADDED = ("tool_calls", "echoed_calls")


class ToolCounters:
    """Only grows; names are those of the log line."""

    def __init__(self) -> None:
        self._counts: collections.Counter[str] = collections.Counter()

    def count_note(self, name: str) -> None:
        """Something that was noted while a turn ran: a call that was faulty, sent back or repaired."""
        self._counts[name] += 1

    def count_request(self, fields: Mapping[str, Any]) -> None:
        """A request that ended, by its log line."""
        for name in ADDED:
            self._counts[name] += fields.get(name, 0)
        self._counts["tool_requests"] += "tool_names" in fields
        self._counts["strict_failures"] += fields.get("error") == "invalid_tool_call"

    def read(self) -> dict[str, int]:
        return {name: count for name, count in self._counts.items() if count}
