"""Small pieces of what the stand-in writes to its pipe, with codex's names."""

import json
import os
import time
from typing import Any

from tests.support.script import Failure

Message = dict[str, Any]


class RefusedError(Exception):
    """A request is answered with an error: its code and message."""


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(message: Any) -> bytes:
    return _encoder.encode(message).encode(errors="replace")


def build_id() -> str:
    digits = f"{time.time_ns() // 1_000_000:012x}7{os.urandom(10).hex()}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def build_error(failure: Failure, details: str | None = None) -> Message:
    error = {"message": failure.message, "codexErrorInfo": failure.info}
    return {**error, "additionalDetails": details, "misalignment": None}


def build_tokens(usage: Message) -> dict[str, int]:
    return {
        "totalTokens": usage["total_tokens"],
        "inputTokens": usage["input_tokens"],
        "cachedInputTokens": usage["input_tokens_details"]["cached_tokens"],
        "cacheWriteInputTokens": 0,
        "outputTokens": usage["output_tokens"],
        "reasoningOutputTokens": usage["output_tokens_details"]["reasoning_tokens"],
    }


def build_limits(headers: dict[str, str]) -> Message:
    """Rate limits as codex reads them from upstream's headers."""
    windows = {window: build_window(headers, window) for window in ("primary", "secondary")}
    rest = ("limitName", "credits", "planType", "rateLimitReachedType")
    return {"rateLimits": {"limitId": "codex", **windows, **dict.fromkeys(rest)}}


def build_window(headers: dict[str, str], window: str) -> Message | None:
    """Whole percents, as codex rounds them."""
    names = {"usedPercent": "used-percent", "windowDurationMins": "window-minutes", "resetsAt": "reset-at"}
    found = {key: headers.get(f"x-codex-{window}-{name}") for key, name in names.items()}
    return {key: int(float(value) + 0.5) for key, value in found.items() if value is not None} or None
