"""The account's limits as codex tells them."""

from __future__ import annotations

import math
from typing import Any

from app.lib.account_limits import AccountLimits, LimitWindow


def read_limits(raw: dict[str, Any]) -> AccountLimits:
    primary, secondary = (read_window(raw.get(name)) for name in ("primary", "secondary"))
    plan = raw.get("planType")
    return AccountLimits(plan if isinstance(plan, str) else None, primary, secondary)


def read_window(raw: Any) -> LimitWindow | None:
    if not isinstance(raw, dict) or not raw:
        return None
    told = [raw.get(name) for name in ("usedPercent", "windowDurationMins", "resetsAt")]
    if not all(each is None or is_number(each) for each in told):
        return None  # no answer hangs on it
    used, minutes, resets_at_s = told
    return LimitWindow(used or 0, minutes, resets_at_s)


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
