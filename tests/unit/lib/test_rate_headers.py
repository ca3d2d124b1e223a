"""The account's limits as headers."""

from __future__ import annotations

import pytest

from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.rate_headers import build_limit_headers

NOW_S = 1000.0


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(AccountLimits("plus"), {}, id="no-window"),
        pytest.param(
            AccountLimits("plus", LimitWindow(42, 300, 1060), LimitWindow(7, 10_080, 87_400)),
            {
                "x-ratelimit-codex-primary-used-percent": "42",
                "x-ratelimit-codex-primary-window-minutes": "300",
                "x-ratelimit-codex-primary-reset": "60s",
                "x-ratelimit-codex-secondary-used-percent": "7",
                "x-ratelimit-codex-secondary-window-minutes": "10080",
                "x-ratelimit-codex-secondary-reset": "86400s",
            },
            id="both",
        ),
        pytest.param(
            AccountLimits(None, None, LimitWindow(0)),
            {"x-ratelimit-codex-secondary-used-percent": "0"},
            id="the-second-alone-and-no-more-than-its-use",
        ),
        pytest.param(
            AccountLimits(None, LimitWindow(99.25, None, 1000.2)),
            {
                "x-ratelimit-codex-primary-used-percent": "99.25",
                "x-ratelimit-codex-primary-reset": "1s",
            },
            id="never-too-early",
        ),
        pytest.param(
            AccountLimits(None, LimitWindow(100, None, 400)),
            {"x-ratelimit-codex-primary-used-percent": "100", "x-ratelimit-codex-primary-reset": "0s"},
            id="already-past",
        ),
    ],
)
def test_headers(limits: AccountLimits, expected: dict[str, str]) -> None:
    assert build_limit_headers(limits, NOW_S) == expected
