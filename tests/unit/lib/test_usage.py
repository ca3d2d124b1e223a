"""The tokens of a turn."""

from __future__ import annotations

from app.lib.usage import Usage


def test_what_is_told() -> None:
    total = Usage(5, 3, 2, 1) + Usage(1, 1, 1, 1)
    assert (total.to_dict(), total - Usage(1, 1, 1, 1)) == (
        {"input_tokens": 6, "cached_tokens": 4, "output_tokens": 3, "reasoning_tokens": 2},
        Usage(5, 3, 2, 1),
    )
