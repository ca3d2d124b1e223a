"""How much is tried: in a test run a little, always the same; with `make fuzz MINUTES=` more, by chance."""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck, Phase, settings

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
#: What a test run takes is about half a minute.
TIMES_A_MINUTE = 2
#: The first seed: a failure names its own, and FUZZ_SEED begins there again.
FIRST = int(os.environ.get("FUZZ_SEED") or (random.SystemRandom().randrange(1 << 40) if MINUTES else 0))


def scale(count: int) -> int:
    return max(1, int(count * MINUTES * TIMES_A_MINUTE)) if MINUTES else count


def seeds(count: int) -> range:
    """A test run tries so many."""
    return range(FIRST, FIRST + scale(count))


def effort(examples: int, steps: int = 50) -> settings:
    """The same for a test that hypothesis runs."""
    return settings(
        max_examples=scale(examples),
        stateful_step_count=steps,
        derandomize=not MINUTES,
        database=None,
        # What fails in a test run does so again; to make it small takes minutes.
        phases=[Phase.generate, Phase.shrink] if MINUTES else [Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
