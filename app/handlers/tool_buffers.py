"""How often text was held back as a tool block, and what became of it: counted for the whole worker."""

from __future__ import annotations

import collections
from dataclasses import dataclass

from app.lib.events import NoteKind

COUNTED = (NoteKind.BUFFER_STARTED, NoteKind.BUFFER_FLUSHED, NoteKind.BUFFER_ABORTED)


@dataclass(frozen=True, slots=True)
class BufferEvent:
    kind: NoteKind
    mode: str
    #: The spelling: `use_tool`, `tool_call`, or a registered pattern's name.
    row: str
    reason: str


class ToolBufferCounters:
    """Every start has one end, flushed or aborted."""

    def __init__(self) -> None:
        self._counts: collections.Counter[BufferEvent] = collections.Counter()

    def count(self, event: BufferEvent) -> None:
        self._counts[event] += 1

    def read(self) -> dict[BufferEvent, int]:
        return dict(self._counts)

    def reset(self) -> None:
        """For tests; what is under way then ends without a start."""
        self._counts.clear()

    def totals(self) -> dict[str, int]:
        """`tool_buffer_started`, `_flushed` and `_aborted`, over everything."""
        totals = dict.fromkeys((kind.value for kind in COUNTED), 0)
        for event, count in self._counts.items():
            totals[event.kind.value] += count
        return totals
