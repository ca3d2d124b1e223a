"""How a turn ended, for its thread; what it is to a choice, `test_notifications.py` says."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.turn_ends import TurnOver, read_turn_over


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"threadId": "t", "turn": {"status": "completed"}}, TurnOver("t", True), id="completed"),
        pytest.param({"threadId": "t", "turn": {"status": "failed"}}, TurnOver("t", False), id="failed"),
        pytest.param(
            {"threadId": "t", "turn": {"status": "interrupted"}}, TurnOver("t", False), id="stopped"
        ),
        pytest.param({"threadId": "t", "turn": None}, TurnOver("t", False), id="no-turn"),
        pytest.param({"threadId": ["t"], "turn": {"status": "completed"}}, None, id="no-thread"),
    ],
)
def test_read_turn_over(params: dict[str, Any], expected: TurnOver | None) -> None:
    assert read_turn_over(params) == expected
