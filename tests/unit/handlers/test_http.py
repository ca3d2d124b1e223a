"""When a client may try again."""

from __future__ import annotations

import pytest

from app.handlers.http import find_retry_after
from app.lib.errors import BackendTimeout, ProxyError, QuotaExceeded, RateLimited


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(RateLimited("No."), 10, id="the-class's"),
        pytest.param(BackendTimeout("No."), None, id="never-said"),
        pytest.param(QuotaExceeded("No.", retry_at_s=1060), 60, id="upstream-told"),
        pytest.param(QuotaExceeded("No.", retry_at_s=1000), 1, id="just-now"),
        pytest.param(QuotaExceeded("No.", retry_at_s=900), 1, id="already-past"),
        pytest.param(
            QuotaExceeded("No.", retry_at_s=1060.4),
            61,
            id="never-too-early",
        ),
    ],
)
def test_find_retry_after(error: ProxyError, expected: int | None) -> None:
    assert find_retry_after(error, now_s=1000) == expected
