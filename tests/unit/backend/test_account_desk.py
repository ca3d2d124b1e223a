"""What is known of a login, and for how long."""

from __future__ import annotations

import pytest

from app.backend.account_desk import KnownLogin
from app.lib.account import Account, AccountReport, AccountState
from app.lib.account_limits import AccountLimits, LimitWindow

FRESH_S = 60
LIMITS = AccountLimits("plus", LimitWindow(12, 300))
UNKNOWN = Account(AccountState.UNKNOWN)
IN = Account(AccountState.IN, "chatgpt", "plus")
PRO = Account(AccountState.IN, "chatgpt", "pro")
KEY = Account(AccountState.IN, "api_key")
OUT = Account(AccountState.OUT)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(UNKNOWN, (IN, LIMITS), id="for-want-of-a-network"),
        pytest.param(PRO, (PRO, LIMITS), id="another-plan"),
        pytest.param(KEY, (KEY, None), id="a-key"),
        pytest.param(OUT, (OUT, None), id="out"),
    ],
)
def test_what_was_told_stays_true_until_told_otherwise(
    told: Account, expected: tuple[Account, AccountLimits | None]
) -> None:
    known = KnownLogin("1")
    assert known.report == AccountReport(UNKNOWN)
    known.tell_account(IN)
    known.tell_limits(LIMITS)
    known.tell_account(told)
    report = known.report
    assert (report.account, report.limits) == expected
    assert (report.told_at_s is None) == (report.limits is None)


def test_when_codex_is_asked() -> None:
    known = KnownLogin("1")
    assert [known.begin(), known.begin()] == [True, False]
    known.end(FRESH_S)
    assert known.begin()  # nothing is known yet
    known.tell_account(IN)
    known.end(FRESH_S)
    assert not known.begin()
    known.expire()
    assert known.begin()
    known.end(0)
    assert known.begin()


def test_limits_are_put_off() -> None:
    known = KnownLogin("1")
    asked = [known.wants_limits]
    known.tell_account(IN)
    asked.append(known.wants_limits)
    known.put_limits_off(FRESH_S)
    asked.append(known.wants_limits)
    assert asked == [False, True, False]
