"""What is held back of a stream."""

from __future__ import annotations

import pytest

from app.handlers.stream import hold
from app.lib.errors import RateLimited
from app.lib.events import Began, Failed, Text, TurnEvent, Waiting

HI = [Began(0), Text(0, "m", "Hi")]
LONG_S = 1000.0


@pytest.mark.parametrize(
    ("batches", "commit_s", "expected", "left"),
    [
        pytest.param([[], [], HI, []], LONG_S, HI, 1, id="the-first-sign"),
        pytest.param([[], HI], 0, [], 1, id="too-long"),
        pytest.param([[], []], LONG_S, [], 0, id="nothing"),
        pytest.param([[Waiting()], [Waiting()], [], HI], 0, [], 1, id="the-queue-does-not-count"),
    ],
)
def test_hold(batches: list[list[TurnEvent]], commit_s: float, expected: list[TurnEvent], left: int) -> None:
    unread = iter(batches)
    assert (hold(unread, commit_s), len(list(unread))) == (expected, left)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([Failed(RateLimited("No."))], id="alone"),
        pytest.param([*HI, Failed(RateLimited("No."))], id="with-the-first-text"),
    ],
)
def test_a_failure_up_to_then_is_raised(batch: list[TurnEvent]) -> None:
    with pytest.raises(RateLimited):
        hold(iter([[], batch]), LONG_S)
