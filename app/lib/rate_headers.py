"""The account's limits as headers."""

from __future__ import annotations

import math

from app.lib.account_limits import AccountLimits


def build_limit_headers(limits: AccountLimits, now_s: float) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, window in (("primary", limits.primary), ("secondary", limits.secondary)):
        if window is None:
            continue
        prefix = f"x-ratelimit-codex-{name}"
        headers[f"{prefix}-used-percent"] = f"{window.used_percent:g}"
        if window.minutes is not None:
            headers[f"{prefix}-window-minutes"] = str(window.minutes)
        if window.resets_at_s is not None:
            headers[f"{prefix}-reset"] = f"{max(math.ceil(window.resets_at_s - now_s), 0)}s"
    return headers
