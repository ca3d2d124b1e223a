"""A turn through the core, a batch per read."""

from __future__ import annotations

import pytest

from app.lib.errors import BackendUnavailable, ClientGone, RateLimited
from app.lib.events import Began, Completed, Failed, Finished, FinishReason, Text, Tick
from app.lib.turn import TurnCore
from app.pipeline import run_turn
from tests.support.plain import PlainError, to_plain
from tests.support.scripted_backend import USAGE, ScriptedTurn, Step, end, say

HI = [Began(0), Text(0, "msg_0", "Hi")]
DONE = [Finished(0, FinishReason.STOP), Completed(USAGE)]
STOPPED = PlainError(BackendUnavailable, "Codex ended the turn without an answer.")


@pytest.mark.parametrize(
    ("script", "expected", "reads"),
    [
        pytest.param([[Tick(0)], say("Hi"), [Tick(1)], end()], [[], HI, [], DONE], 4, id="an-answer"),
        pytest.param(
            [end(), say("late"), [Tick(0)]], [[Began(0), *DONE]], 1, id="nothing-is-read-after-the-end"
        ),
        pytest.param(
            [say("Hi"), RateLimited("No.")], [HI, [PlainError(RateLimited, "No.")]], 2, id="an-error-ends-it"
        ),
        pytest.param([say("Hi")], [HI, [STOPPED]], 1, id="events-just-stop"),
        pytest.param([], [[STOPPED]], 0, id="no-events"),
    ],
)
def test_run_turn(script: list[Step], expected: list[object], reads: int) -> None:
    turn = ScriptedTurn(script)
    batches = [to_plain(batch) for batch in run_turn(turn, TurnCore())]
    # An empty batch is only a chance to keep the client's connection alive.
    shown = [batch for batch in batches if batch]
    assert (shown, turn.reads) == ([batch for batch in expected if batch], reads)


def test_a_batch_a_read() -> None:
    turn = ScriptedTurn([say("a", "b"), [Tick(0)], say("c"), end()])
    reads = [turn.reads for _ in run_turn(turn, TurnCore())]
    assert reads[:4] == [1, 2, 3, 4]


def test_a_client_that_left_is_a_failure_like_any_other() -> None:
    gone = ClientGone("Bye.")
    turn = ScriptedTurn([say("Hi"), gone])
    assert list(run_turn(turn, TurnCore())) == [HI, [Failed(gone)]]
