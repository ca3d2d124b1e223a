"""What codex tells of the account's allowance: windows that fill up and begin anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

FULL = 100


@dataclass(frozen=True, slots=True)
class LimitWindow:
    used_percent: float
    minutes: int | None = None
    #: In seconds since the epoch.
    resets_at_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "used_percent": self.used_percent,
            "window_minutes": self.minutes,
            "resets_at": self.resets_at_s,
        }


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """`None` is what nobody told."""

    plan: str | None = None
    primary: LimitWindow | None = None
    secondary: LimitWindow | None = None

    def update(self, newer: AccountLimits) -> AccountLimits:
        """What was told before stays true where the newer word is silent."""
        return replace(
            self,
            plan=newer.plan or self.plan,
            primary=newer.primary or self.primary,
            secondary=newer.secondary or self.secondary,
        )

    @property
    def resets_at_s(self) -> float | None:
        """When there is something left again: behind the last of the windows that are full."""
        windows = [window for window in (self.primary, self.secondary) if window]
        full = [window for window in windows if window.used_percent >= FULL] or windows[:1]
        return max((window.resets_at_s for window in full if window.resets_at_s), default=None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "primary": self.primary.to_dict() if self.primary else None,
            "secondary": self.secondary.to_dict() if self.secondary else None,
        }


def describe_limits(told_at_s: float, limits: AccountLimits) -> dict[str, Any]:
    """Limits as clients are shown them, with when codex told them."""
    return {"told_at": int(told_at_s), **limits.to_dict()}


def build_limits(told: dict[str, Any]) -> AccountLimits:
    """What `to_dict` told."""
    return AccountLimits(told["plan"], build_window(told["primary"]), build_window(told["secondary"]))


def build_window(told: dict[str, Any] | None) -> LimitWindow | None:
    return LimitWindow(told["used_percent"], told["window_minutes"], told["resets_at"]) if told else None
