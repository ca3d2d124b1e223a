"""Every way to cut an input that a case is run with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

S = TypeVar("S", bound=Sequence[object])


def every_cut(whole: S) -> Iterator[list[S]]:
    """Whole, in two parts at every place, and one by one."""
    yield [whole]
    for place in range(1, len(whole)):
        yield [whole[:place], whole[place:]]
    yield [whole[place : place + 1] for place in range(len(whole))]
