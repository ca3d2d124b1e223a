"""A minute's window."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.rate import WINDOW_S, MinuteWindow


@pytest.mark.parametrize(
    ("most", "times", "waits"),
    [
        pytest.param(2, [0, 0, 0], [0, 0, 60], id="all-at-once"),
        pytest.param(2, [0, 20, 30, 59], [0, 0, 30, 1], id="until-the-oldest-is-a-minute-old"),
        pytest.param(2, [0, 20, 60], [0, 0, 0], id="a-minute-later-one-is-there"),
        pytest.param(2, [0, 20, 60, 60], [0, 0, 0, 20], id="and-only-one"),
        pytest.param(1, [0, 59.5, 59.9, 60, 119], [0, 0.5, pytest.approx(0.1), 0, 1], id="asking-costs-none"),
        pytest.param(3, [0, 100, 100, 100, 100], [0, 0, 0, 0, 60], id="after-a-pause-all-of-them"),
    ],
)
def test_take(most: int, times: list[float], waits: list[float]) -> None:
    window = MinuteWindow(most)
    assert [window.take(now_s) for now_s in times] == waits


@pytest.mark.parametrize(
    ("taken", "now_s", "left", "reset_s"),
    [
        pytest.param([], 0, 3, 0, id="untouched"),
        pytest.param([0], 0, 2, 60, id="one-taken"),
        pytest.param([0, 10], 15, 1, 55, id="two-taken"),
        pytest.param([0, 10, 12], 15, 0, 57, id="none-left"),
        pytest.param([0, 10], 60, 2, 10, id="one-is-back"),
        pytest.param([0, 10], 70, 3, 0, id="all-are-back"),
    ],
)
def test_what_is_left(taken: list[float], now_s: float, left: int, reset_s: float) -> None:
    window = MinuteWindow(3)
    for at_s in taken:
        window.take(at_s)
    assert (window.count_left(now_s), window.measure_reset(now_s)) == (left, reset_s)


def test_what_was_left_long_ago_has_no_reset_behind_now() -> None:
    window = MinuteWindow(1)
    window.take(0)
    assert window.measure_reset(100) == 0


@given(st.integers(1, 4), st.lists(st.integers(0, 40), max_size=60))
def test_law_no_minute_has_more_and_none_waits_for_nothing(most: int, pauses: list[int]) -> None:
    window, granted = MinuteWindow(most), []
    for now_s in itertools.accumulate(pauses):
        wait_s = window.take(now_s)
        recent = [at_s for at_s in granted if at_s + WINDOW_S > now_s]
        assert (wait_s == 0) is (len(recent) < most)
        if wait_s == 0:
            granted.append(now_s)
        else:
            assert 0 < wait_s <= WINDOW_S
    assert all(later - earlier >= WINDOW_S for earlier, later in zip(granted, granted[most:], strict=False))
