"""Text that grows by pieces."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from app.lib.text_buffer import PIECES_JOINED, TextBuffer


@given(st.lists(st.one_of(st.text(max_size=3), st.none()), max_size=3 * PIECES_JOINED))
def test_it_reads_as_everything_appended(steps: list[str | None]) -> None:
    """`None` stands for a read in between."""
    buffer, expected = TextBuffer(), ""
    for step in steps:
        if step is None:
            assert buffer.read() == expected
        else:
            buffer.append(step)
            expected += step
    assert (buffer.read(), buffer.length) == (expected, len(expected))


def test_many_small_pieces_take_little_more_than_their_text() -> None:
    """AC 7 of story 2.8: a Chinese character by itself costs 76 bytes; a joined one, two."""
    count = 200_000
    tracemalloc.start()
    buffer = TextBuffer()
    for place in range(count):
        buffer.append(chr(0x4E00 + place % 20_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3 * 2 * count
