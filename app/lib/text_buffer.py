"""Text that grows by pieces: adding is constant work, and memory stays near the text's own size."""

from __future__ import annotations

# Small pieces cost many times their text (a Chinese character on its own: 76 bytes); this many are joined.
PIECES_JOINED = 256


class TextBuffer:
    def __init__(self) -> None:
        self._body: list[str] = []
        self._tail: list[str] = []
        self.length = 0

    def append(self, text: str) -> None:
        self._tail.append(text)
        self.length += len(text)
        if len(self._tail) >= PIECES_JOINED:
            self._body.append("".join(self._tail))
            self._tail.clear()

    def read(self) -> str:
        """All of it; joined once, however often it is read."""
        if self._tail or len(self._body) > 1:
            self._body = ["".join([*self._body, *self._tail])]
            self._tail.clear()
        return self._body[0] if self._body else ""
