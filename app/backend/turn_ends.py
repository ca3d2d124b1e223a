"""How a turn ended, as codex tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.backend.codex_errors import build_error
from app.lib.errors import BackendUnavailable
from app.lib.events import FinishReason, TurnEnded, TurnFailed

Params = dict[str, Any]

METHOD = "turn/completed"
# Part of a longer message, at times: "stream disconnected before completion: Incomplete response …".
INCOMPLETE = {
    "Incomplete response returned, reason: max_output_tokens": FinishReason.LENGTH,
    "Incomplete response returned, reason: content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(frozen=True, slots=True)
class TurnOver:
    """What a turn's end is to its thread, be it told to anybody or not."""

    thread_id: str
    is_complete: bool


def read_turn_over(params: Params) -> TurnOver | None:
    match params:
        case {"threadId": str(thread_id), "turn": {"status": "completed"}}:
            return TurnOver(thread_id, is_complete=True)
        case {"threadId": str(thread_id)}:
            return TurnOver(thread_id, is_complete=False)
        case _:
            return None


def read_turn_end(choice: int, params: Params, resets_at_s: float | None) -> TurnEnded | TurnFailed:
    """What it is to the choice that the turn was for."""
    turn = params.get("turn", {})
    if turn.get("status") == "completed":
        return TurnEnded(choice, FinishReason.STOP)
    if turn.get("status") == "interrupted":
        return TurnFailed(BackendUnavailable("The turn was interrupted."))
    error = turn.get("error") or {}
    message = error.get("message") or "Codex failed without saying why."
    for marker, reason in INCOMPLETE.items():
        if marker in message:
            return TurnEnded(choice, reason)
    return TurnFailed(build_error(message, error.get("codexErrorInfo"), resets_at_s))
