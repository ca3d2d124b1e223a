"""A block on its way: its text from the opener on, and how it is looked through for its end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.lib.block_lead import OBJECT, OUT, START
from app.lib.block_rows import Outcome, RowSet
from app.lib.text_buffer import TextBuffer

# A closer that need not end its block is tried so often, then only each time the text grew by 1/16:
# so even a text of nothing but closers costs its matcher a fixed number of readings.
FREE_TRIES, GROWTH = 64, 16
#: Of what is found inside a block: its end (a group of `RowSet.inner`), or that it is none.
CLOSER, NO_BLOCK = "closer", "no_block"
#: What is found, where it ends in the text, and its own length.
Mark = tuple[str | None, int, int]


class Hold:
    def __init__(self, group: str, rows: RowSet, opener: str) -> None:
        self.group = group
        self.opener = opener
        self.row = row = rows.rows[group]
        self._inner = rows.inner[group]
        self._buffer = TextBuffer()
        self._buffer.append(opener)
        #: The end of what was looked through: a closer may have begun in it.
        self._seam = ""
        self._reach = max(len(row.opener) + len(row.follow[:1]), *map(len, row.closers))
        self._tries = 0
        self._next_try = 0
        self._strings = JsonStrings()
        #: How far the row's lead has come.
        self._state = START
        self._follow_lead(opener, len(row.opener))

    @property
    def length(self) -> int:
        return self._buffer.length

    def search(self, text: str, start: int) -> Mark:
        """What comes next: a closer, an opener, a character that rules the block out, or nothing."""
        place = self._follow_lead(text, start)
        if self._state == OBJECT:
            return self._search_object(text, start)
        mark = self._search_marks(text, start, place, self._seam)
        return (NO_BLOCK, place, 0) if mark[0] is None and self._state == OUT else mark

    def _follow_lead(self, text: str, start: int) -> int:
        """Read on behind the opener; returns where the text ends as far as this block goes."""
        lead = self.row.lead
        if lead is None or not lead.is_open(self._state):
            return len(text)
        self._state, place = lead.read(self._state, text, start)
        return place if self._state == OUT else len(text)

    def _search_object(self, text: str, start: int) -> Mark:
        """Look through JSON: what its strings hold is neither closer nor opener."""
        for begin, end in self._strings.read_outside(text, start):
            # No tag stands across a quote.
            seam = self._seam.rpartition('"')[2] if begin == start else ""
            mark = self._search_marks(text, begin, end, seam)
            if mark[0]:
                return mark
        return None, len(text), 0

    def _search_marks(self, text: str, start: int, end: int, seam: str) -> Mark:
        across = seam + text[start : min(start + self._reach, end)]
        match, shift = self._inner.search(across) if seam else None, start - len(seam)
        if match is None:
            match, shift = self._inner.search(text, start, end), 0
        if match is None:
            return None, end, 0
        return match.lastgroup, match.end() + shift, match.end() - match.start()

    def keep(self, text: str) -> None:
        """Take text that holds nothing of interest."""
        self._buffer.append(text)
        self._seam = (self._seam + text[-self._reach :])[-self._reach :]

    def keep_mark(self, text: str) -> None:
        """Take text up to and with a closer or an opener, which is not to be found again."""
        self._buffer.append(text)
        self._seam = ""

    def text(self) -> str:
        return self._buffer.read()

    def try_to_read(self) -> Outcome:
        if self._tries >= FREE_TRIES and self.length < self._next_try:
            return None
        self._tries += 1
        self._next_try = self.length + self.length // GROWTH
        return self.row.read(self.text())


class JsonStrings:
    r"""Tells what stands outside of strings, however the text is cut.

    A backslash takes the next character with it there too, though JSON has none there: so every opener of a
    text counts the same quotes, of any three one is outside for another, and no text is held a third time.
    """

    #: Up to a quote that counts, or to a backslash at the very end.
    UNQUOTED = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)

    def __init__(self) -> None:
        self._is_inside = False
        self._is_escaped = False

    def read_outside(self, text: str, start: int) -> Iterator[tuple[int, int]]:
        """The stretches of a text's rest that stand outside, each as its start and its end."""
        place = start
        while place < len(text):
            begin, end = place, self._find_end(text, place)
            if not self._is_inside:
                yield begin, end
            if end < len(text):
                self._is_inside = not self._is_inside
            place = end + 1

    def _find_end(self, text: str, start: int) -> int:
        end = next(self.UNQUOTED.finditer(text, start + self._is_escaped)).end()
        self._is_escaped = text.startswith("\\", end)
        return len(text) if self._is_escaped else end
