"""The time that checks share."""

from __future__ import annotations

import itertools

import pytest

from app.lib.schema_check.budget import TURN_S, CheckBudget, to_budget


def ticking() -> CheckBudget:
    """Three seconds, on a clock that goes on by one with every look."""
    return CheckBudget(itertools.count().__next__, 3)


def test_it_is_its_clock() -> None:
    budget = ticking()
    assert [budget(), budget()] == [0, 1]
    assert not budget.is_spent


def test_only_the_time_within_counts() -> None:
    budget = ticking()
    ends, spent = [], []
    for _ in range(3):
        with budget.spend() as until_s:
            ends.append(until_s - budget())
        budget()
        spent.append(budget.is_spent)
    assert (ends, spent) == ([2, 0, -2], [False, True, True])


def test_what_fails_is_paid_for_too() -> None:
    budget = CheckBudget(itertools.count().__next__, 1)
    with pytest.raises(KeyError), budget.spend():
        raise KeyError
    assert budget.is_spent


def test_a_clock_by_itself_is_never_spent() -> None:
    budget = to_budget(itertools.count(step=10**6).__next__)
    with budget.spend():
        pass
    assert not budget.is_spent


def test_a_budget_stays_the_one_it_is() -> None:
    budget = CheckBudget(lambda: TURN_S)
    assert to_budget(budget) is budget
