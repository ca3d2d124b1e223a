"""The patterns of a client's schema: compiled only where that is cheap, matched against a time limit."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import regex

MAX_CHARS = 4096
# `regex` writes least counts out: `((a{99}){99}){99}` would take 270 MB and 300 ms. This many take 30 ms.
MAX_UNROLLED = 2000
TOKENS = re.compile(
    r"""
      \\.                                           # an escape
    | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]      # a set
    | \(\?P=\w+\)                                  # a reference
    | (?P<flags>\(\?[aims]+\))
    | (?P<open>\((?:(?!\?)|\?(?:[:=!>]|<[=!]|P?<\w+>|[aims-]+:)))
    | (?P<unknown>\()
    | (?P<close>\))
    | \{(?P<least>\d+)(?:,\d*)?\}
    | .
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Pattern:
    compiled: regex.Pattern[str]
    #: About as many parts as it was compiled to.
    size: int

    def is_in(self, text: str, timeout_s: float) -> bool:
        """Whether it matches anywhere; `TimeoutError` when that takes too long to tell."""
        return self.compiled.search(text, timeout=timeout_s) is not None


@functools.lru_cache(maxsize=128)
def parse_pattern(text: str) -> Pattern | None:
    unrolled = count_unrolled(text) if len(text) <= MAX_CHARS else None
    if unrolled is None:
        return None
    try:
        return Pattern(regex.compile(text, cache_pattern=False), len(text) + unrolled)
    except (regex.error, RecursionError):
        return None


def count_unrolled(text: str) -> int | None:
    """The parts of a pattern with its least counts written out; `None` where that is unknown or too many.

    What only `regex` knows is refused: in `(?x)`, `(?V1)` or `(?#` a bracket may mean something else.
    """
    outer: list[int] = []
    total = last = 0
    for token in TOKENS.finditer(text):
        match token.lastgroup:
            case "open":
                outer.append(total)
                total = 0
            case "close" if outer:
                last = total + 1
                total = outer.pop() + last
            case "unknown" | "close":
                return None
            case "flags":  # a count behind them belongs to what stands before
                pass
            case "least":
                total += last * max(0, int(token["least"]) - 1)
            case _:
                last = 1
                total += last
        if total > MAX_UNROLLED:
            return None
    return total
