"""One call's arguments, as they are told: in fragments, over again, as a whole."""

from __future__ import annotations

from typing import assert_never

from app.lib.text_buffer import TextBuffer
from app.lib.tool_call_shapes import CallSignal, Told
from app.lib.tool_calls import ArgumentsView


class CallArguments:
    """Takes signals and keeps the text verbatim; never parses it."""

    __slots__ = ("_buffer", "_fresh", "_given", "_sequence", "_told")

    def __init__(self) -> None:
        self._buffer = TextBuffer()
        #: How the text was told last.
        self._told: Told | None = None
        self._sequence = -1
        #: What was added since the last view; `None` if what that view said no longer holds.
        self._fresh: TextBuffer | None = TextBuffer()
        #: How much text the views given out have shown.
        self._given = 0

    @property
    def is_whole(self) -> bool:
        return self._told is Told.WHOLE

    def read(self) -> str:
        return self._buffer.read()

    def is_same(self, text: str) -> bool:
        return len(text) == self._buffer.length and text == self._buffer.read()

    def give(self) -> tuple[str | None, ArgumentsView]:
        """What is new, and a view of all there is."""
        added = None if self._fresh is None else self._fresh.read()
        self._fresh, self._given = TextBuffer(), self._buffer.length
        return added, ArgumentsView(self._buffer)

    def close(self) -> None:
        """Nothing more will be told, also where nothing was."""
        self._told = Told.WHOLE

    def absorb(self, other: CallArguments) -> bool:
        """Take over what was told of this call while nobody knew whose it was."""
        return not self.is_whole and self._append(other.read())

    def take(self, signal: CallSignal) -> bool:
        """Learn what a signal tells; whether that changed the text."""
        if not signal.text:
            return False
        match signal.told:
            case Told.FRAGMENT:
                return self._take_fragment(signal.text, signal.sequence)
            case Told.SO_FAR:
                return self._take_so_far(signal.text)
            case Told.WHOLE:
                self._told = Told.WHOLE
                return self._become(signal.text)
            case Told.VALUE:
                return self._take_value(signal.text)
            case _:
                assert_never(signal.told)

    def _take_fragment(self, text: str, sequence: int | None) -> bool:
        if self.is_whole or self._is_repeat(sequence):
            return False
        stand_in, self._told = self._told is Told.VALUE, Told.FRAGMENT
        return self._replace(text) if stand_in else self._append(text)

    def _take_so_far(self, text: str) -> bool:
        # Such a text only grows: one no longer than ours is old.
        if self.is_whole or (self._told is not Told.VALUE and len(text) <= self._buffer.length):
            return False
        self._told = Told.SO_FAR
        return self._become(text)

    def _take_value(self, text: str) -> bool:
        if self._told not in (None, Told.VALUE):
            return False
        self._told = Told.VALUE
        return self._become(text)

    def _is_repeat(self, sequence: int | None) -> bool:
        """Whether a numbered fragment was here before: a source numbers its events upwards."""
        if sequence is None:
            return False
        last, self._sequence = self._sequence, max(sequence, self._sequence)
        return sequence <= last

    def _become(self, text: str) -> bool:
        """Let the text be this one: what is missing is added, if that is all."""
        if len(text) < self._buffer.length or not text.startswith(self._buffer.read()):
            return self._replace(text)
        return self._append(text[self._buffer.length :])

    def _append(self, text: str) -> bool:
        self._buffer.append(text)
        if self._fresh is not None:
            self._fresh.append(text)
        return bool(text)

    def _replace(self, text: str) -> bool:
        self._buffer = TextBuffer()  # the views given out keep the old one
        self._fresh = TextBuffer()
        self._append(text)
        if self._given:
            self._fresh = None
        return True
