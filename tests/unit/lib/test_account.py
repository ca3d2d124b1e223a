"""The account that codex is logged in to."""

from __future__ import annotations

import pytest

from app.lib.account import Account, AccountState, LoginCode


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(AccountState.IN, False, id="in"),
        pytest.param(AccountState.OUT, True, id="out"),
        pytest.param(AccountState.UNNEEDED, False, id="unneeded"),
        pytest.param(AccountState.UNKNOWN, False, id="unknown"),
    ],
)
def test_needs_login(state: AccountState, expected: bool) -> None:
    assert Account(state).needs_login is expected


def test_a_code_is_not_shown_by_accident() -> None:
    assert "ABCD" not in repr(LoginCode("https://auth.example.org", "ABCD-EFGH"))
