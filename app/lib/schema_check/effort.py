"""What one check of arguments may cost: steps counted down, patterns held against a clock."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from jsonschema import FormatChecker

from app.lib.schema_check.patterns import parse_pattern

#: Seconds, on a clock that only moves forward; `time.thread_time` also stands while others work.
Clock = Callable[[], float]

BASE_STEPS = 20_000
STEPS_PER_VALUE = 20
MAX_STEPS = 100_000
CHARS_PER_STEP = 256
JSON_CHARS_PER_STEP = 32
PATTERN_S = 0.05
# `regex` looks at its clock now and then only: on a longer text a pattern can overrun its time many times.
MAX_SEARCHED_CHARS = 32 * 1024
# All patterns of one check together: a thousand that each keep their own limit would add up.
PATTERNS_S = 0.1
# Of up to 1.7 µs; a look at the clock takes a fraction of one.
STEPS_PER_LOOK = 1000


def stand_still() -> float:
    """The clock of a caller without one: only single patterns are then timed."""
    return 0.0


class TooMuchWork(Exception):
    """The steps of a check are used up, or the time of its patterns."""


class OutOfTime(Exception):
    """The time that a check shares with others is used up: that says nothing of the check."""


class BadPattern(ValueError):
    """No pattern, or one that costs too much to compile."""


class Effort(FormatChecker):
    """The steps and the time one check has left.

    A format checker without formats: that is what the library hands on to every subschema.
    """

    def __init__(self, steps: int, clock: Clock = stand_still, until_s: float = math.inf) -> None:
        super().__init__(formats=())
        self.steps = steps
        self._look_at = steps
        self._clock = clock
        self._until_s = until_s
        self._patterns_s = 0.0
        self._paid: set[str] = set()
        self._keys: dict[int, frozenset[str]] = {}

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < self._look_at:
            self._look()

    def _look(self) -> None:
        if self.steps < 0:
            raise TooMuchWork
        self._read_clock()
        self._look_at = max(0, self.steps - STEPS_PER_LOOK)

    def _read_clock(self) -> float:
        now_s = self._clock()
        if now_s >= self._until_s:
            raise OutOfTime
        return now_s

    def search(self, pattern: str, text: str) -> bool:
        parsed = parse_pattern(pattern)
        if parsed is None:
            raise BadPattern(pattern)
        if pattern not in self._paid:  # compiled before or not: the outcome must not depend on that
            self._paid.add(pattern)
            self.spend(parsed.size)
        if len(text) > MAX_SEARCHED_CHARS:
            raise TooMuchWork
        self.spend(2 + (len(text) + parsed.size) // CHARS_PER_STEP)
        if self._patterns_s >= PATTERNS_S:
            raise TooMuchWork
        began_s = self._read_clock()
        try:
            return parsed.is_in(text, min(PATTERN_S, PATTERNS_S - self._patterns_s))
        except TimeoutError as error:
            raise TooMuchWork from error
        finally:
            self._patterns_s += self._clock() - began_s

    def is_one_of(self, value: Any, allowed: list[Any]) -> bool:
        """Whether JSON calls the value equal to one of these; they are looked through once a check."""
        keys = self._keys.get(id(allowed))  # a schema outlives its checks, so the id is not given again
        if keys is None:
            keys = self._keys[id(allowed)] = frozenset(map(self.build_key, allowed))
        return self.build_key(value) in keys

    def build_key(self, value: Any) -> str:
        """A text two values share just when JSON calls them equal: 1 and 1.0 are, 1 and true are not."""
        if isinstance(value, str):
            self.spend(1 + len(value) // CHARS_PER_STEP)
            return f'"{value}'
        key = json.dumps(to_exact(value), sort_keys=True)
        self.spend(2 + len(key) // JSON_CHARS_PER_STEP)
        return key


def to_exact(value: Any) -> Any:
    """Whole numbers as integers, wherever they stand."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [to_exact(each) for each in value]
        case dict():
            return {key: to_exact(each) for key, each in value.items()}
        case _:
            return value


def count_values(value: Any, most: int) -> int:
    """How many values a value holds, long texts counted by their length; at least `most` if it is more."""
    total, rest = 0, [value]
    while rest and total < most:
        each = rest.pop()
        total += 1
        if isinstance(each, str):
            total += len(each) // CHARS_PER_STEP
        elif isinstance(each, list):
            rest.extend(each)
        elif isinstance(each, dict):
            rest.extend(each)
            rest.extend(each.values())
    return total
