"""Does the time a function takes grow with its input, and no faster?"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def grows_linearly(run: Callable[[str], object], fragment: str, size: int = 250_000) -> bool:
    """Twice the text takes linear code twice the time, quadratic code four times: each time it is tried."""
    half = fragment * (size // len(fragment))
    return any(_costs_in_proportion(run, half) for _ in range(3))


def _costs_in_proportion(run: Callable[[str], object], half: str) -> bool:
    return _seconds_for(run, half * 2) < 3 * _seconds_for(run, half) + 0.001


def _seconds_for(run: Callable[[str], object], text: str) -> float:
    """Of the processor, and the best of some runs: what the machine does besides is no finding."""
    spent = []
    with unobserved():
        for _ in range(3):
            began = time.process_time()
            run(text)
            spent.append(time.process_time() - began)
    return min(spent)


@contextmanager
def unobserved() -> Iterator[None]:
    """Without the garbage collector, whose passes look at all else that lives in the process, and without
    what counts the lines that run."""
    observer = sys.gettrace()
    gc.disable()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(observer)
        gc.enable()
