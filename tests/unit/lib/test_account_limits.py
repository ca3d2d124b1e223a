"""What codex tells of the account's allowance."""

from __future__ import annotations

import pytest

from app.lib.account_limits import AccountLimits, LimitWindow, build_limits

FIVE_HOURS = LimitWindow(42, 300, 1_800_000_000)
WEEK = LimitWindow(7, 10_080, 1_800_600_000)
ALL = AccountLimits("plus", FIVE_HOURS, WEEK)


@pytest.mark.parametrize(
    ("newer", "expected"),
    [
        pytest.param(AccountLimits(), ALL, id="nothing-new"),
        pytest.param(AccountLimits("pro"), AccountLimits("pro", FIVE_HOURS, WEEK), id="another-plan"),
        pytest.param(
            AccountLimits(None, LimitWindow(43)),
            AccountLimits("plus", LimitWindow(43), WEEK),
            id="a-window-as-a-whole",
        ),
        pytest.param(
            AccountLimits(None, None, LimitWindow(0)),
            AccountLimits("plus", FIVE_HOURS, LimitWindow(0)),
            id="nothing-used-is-news",
        ),
        pytest.param(
            AccountLimits("pro", WEEK, FIVE_HOURS), AccountLimits("pro", WEEK, FIVE_HOURS), id="all"
        ),
    ],
)
def test_the_newer_word_counts_where_there_is_one(newer: AccountLimits, expected: AccountLimits) -> None:
    assert ALL.update(newer) == expected


def at(used_percent: float, resets_at_s: float | None) -> LimitWindow:
    return LimitWindow(used_percent, None, resets_at_s)


@pytest.mark.parametrize(
    ("primary", "secondary", "expected"),
    [
        pytest.param(None, None, None, id="nothing-told"),
        pytest.param(at(100, 50), at(20, 900), 50, id="the-first-is-full"),
        pytest.param(at(20, 50), at(100, 900), 900, id="the-second-is-full"),
        pytest.param(at(100, 50), at(100, 900), 900, id="both-are-full"),
        pytest.param(at(100, 900), at(101, 50), 900, id="both-are-full-and-the-first-lasts-longer"),
        pytest.param(at(99.9, 50), at(99, 900), 50, id="none-is-quite-full"),
        pytest.param(None, at(20, 900), 900, id="only-the-second-and-not-full"),
        pytest.param(at(100, None), at(20, 900), None, id="full-and-nobody-knows-until-when"),
        pytest.param(at(100, None), at(100, 900), 900, id="both-full-and-one-says-until-when"),
    ],
)
def test_when_there_is_something_left_again(
    primary: LimitWindow | None, secondary: LimitWindow | None, expected: float | None
) -> None:
    assert AccountLimits(None, primary, secondary).resets_at_s == expected


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        pytest.param(AccountLimits(), {"plan": None, "primary": None, "secondary": None}, id="nothing"),
        pytest.param(
            AccountLimits("plus", FIVE_HOURS, LimitWindow(7.5)),
            {
                "plan": "plus",
                "primary": {"used_percent": 42, "window_minutes": 300, "resets_at": 1_800_000_000},
                "secondary": {"used_percent": 7.5, "window_minutes": None, "resets_at": None},
            },
            id="all",
        ),
    ],
)
def test_what_is_told_can_be_read_back(limits: AccountLimits, told: dict[str, object]) -> None:
    assert (limits.to_dict(), build_limits(told)) == (told, limits)
