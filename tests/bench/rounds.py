"""Times taken in turns, so that whatever else the machine does falls on all of them alike."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.table import Row

WARM_UP = 3
#: One sample: the seconds that each of its clocks ran.
Take = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Goal:
    words: str
    #: Of the gateway's milliseconds and those beside them.
    is_met: Callable[[float, float], bool]


FASTER = Goal("< 1.00x", lambda ours_ms, beside_ms: ours_ms < beside_ms)


def build_extra_goal(most_ms: float) -> Goal:
    return Goal(f"≤ +{most_ms:.0f} ms", lambda ours_ms, beside_ms: ours_ms - beside_ms <= most_ms)


def build_ratio_goal(most: float) -> Goal:
    return Goal(f"≤ {most:.2f}x", lambda ours_ms, beside_ms: ours_ms <= beside_ms * most)


def take_in_turns(takes: Sequence[Take], samples: int) -> dict[str, float]:
    """One sample of each in every round, after a few to warm up; each clock's median in milliseconds.

    The order changes from round to round: a sample pays for what the one before left behind, as an ended
    process does, and that should not always fall on the same.
    """
    times: dict[str, list[float]] = {}
    shuffled = random.Random(0)
    for number in range(WARM_UP + samples):
        for take in shuffled.sample(takes, len(takes)):
            taken = take()
            if number >= WARM_UP:
                for clock, time_s in taken.items():
                    times.setdefault(clock, []).append(time_s * 1000)
    return {clock: statistics.median(taken) for clock, taken in times.items()}


def build_row(what: str, ours_ms: float, beside_ms: float, beside: str, goal: Goal | None = None) -> Row:
    return Row(
        what,
        f"{ours_ms:.2f} ms",
        f"{beside_ms:.2f} ms ({beside})",
        f"{ours_ms / beside_ms:.2f}x ({ours_ms - beside_ms:+.2f} ms)",
        goal.words if goal else "-",
        goal.is_met(ours_ms, beside_ms) if goal else None,
    )
