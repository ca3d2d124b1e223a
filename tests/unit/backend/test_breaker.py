"""When new processes are refused, and how that ends."""

from __future__ import annotations

import time

import pytest

from app.backend.breaker import MAX_FAILURES, Breaker
from app.lib.errors import BackendUnavailable
from tests.support.gateway import wait_until


@pytest.fixture
def breaker() -> Breaker:
    return Breaker(first_pause_s=0.02)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.note_failure()


def find_pause_s(breaker: Breaker) -> float:
    """How long it says to wait, from now on."""
    with pytest.raises(BackendUnavailable) as raised:
        breaker.check()
    assert raised.value.retry_at_s is not None
    return raised.value.retry_at_s - time.time()


def test_a_few_failures_change_nothing(breaker: Breaker) -> None:
    for _ in range(3):
        fail(breaker, MAX_FAILURES - 1)
        breaker.note_success(time.monotonic())
    breaker.check()
    assert (breaker.is_open, breaker.is_due) == (False, False)


def test_failures_in_a_row_open_it_for_a_while(breaker: Breaker) -> None:
    fail(breaker, MAX_FAILURES)
    assert (breaker.is_open, find_pause_s(breaker) <= 0.03) == (True, True)
    wait_until(lambda: breaker.is_due)
    assert find_pause_s(breaker) <= 0


def test_every_try_that_fails_doubles_the_pause_up_to_a_limit() -> None:
    breaker = Breaker()
    fail(breaker, MAX_FAILURES - 1)
    pauses = []
    for _ in range(8):
        breaker.note_failure()
        pauses.append(find_pause_s(breaker))
    lowest = [1, 2, 4, 8, 16, 30, 30, 30]
    assert all(low - 0.1 <= pause <= low * 1.25 for low, pause in zip(lowest, pauses, strict=True))


def test_a_greeting_closes_it_on_trial(breaker: Breaker) -> None:
    fail(breaker, MAX_FAILURES)
    seen = [breaker.is_ready]
    breaker.note_greeting(time.monotonic())
    breaker.check()
    seen.append(breaker.is_ready)
    breaker.note_failure()
    assert ([*seen, breaker.is_ready], breaker.is_open) == ([False, True, False], True)


def test_a_greeting_of_an_older_process_says_nothing_of_new_ones(breaker: Breaker) -> None:
    before_s = time.monotonic()
    fail(breaker, MAX_FAILURES)
    breaker.note_greeting(before_s - 1)
    assert (breaker.is_open, breaker.is_ready) == (True, False)


def test_a_turn_on_an_older_process_says_nothing_of_new_ones(breaker: Breaker) -> None:
    before_s = time.monotonic()
    fail(breaker, MAX_FAILURES)
    breaker.note_success(before_s - 1)
    assert breaker.is_open


def test_a_turn_that_starts_makes_the_past_forgotten(breaker: Breaker) -> None:
    fail(breaker, MAX_FAILURES + 3)
    breaker.note_greeting(time.monotonic())
    breaker.note_success(time.monotonic())
    fail(breaker, MAX_FAILURES - 1)
    assert not breaker.is_open
    breaker.note_failure()
    assert find_pause_s(breaker) <= 0.03
