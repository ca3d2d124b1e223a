"""Folding a turn into one value."""

from __future__ import annotations

import pytest

from app.lib.errors import ContextTooLong
from app.lib.events import Began, Completed, Failed, Finished, FinishReason, Reasoning, Text, TurnEvent, Usage
from app.lib.result import ChoiceResult, TurnResult, collect
from tests.support.cuts import every_cut

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


@pytest.mark.parametrize(
    ("choices", "events", "expected"),
    [
        pytest.param(
            1,
            [
                Began(0),
                Reasoning(0, "r", 0, "Hm"),
                Reasoning(0, "r", 1, "m."),
                Text(0, "m", "Hel"),
                Text(0, "n", "lo"),
                Finished(0, LENGTH),
                Completed(Usage(1, 2, 3, 4)),
            ],
            TurnResult((ChoiceResult("Hello", ("Hm", "m."), LENGTH),), Usage(1, 2, 3, 4)),
            id="everything-of-one-choice",
        ),
        pytest.param(
            2,
            [
                Began(1),
                Text(1, "m", "b"),
                Began(0),
                Text(0, "m", "a"),
                Text(1, "m", "B"),
                Finished(1, LENGTH),
                Finished(0, STOP),
                Completed(Usage(5)),
            ],
            TurnResult((ChoiceResult("a", (), STOP), ChoiceResult("bB", (), LENGTH)), Usage(5)),
            id="interleaved-choices",
        ),
        pytest.param(1, [], TurnResult((ChoiceResult("", (), STOP),), Usage()), id="nothing"),
    ],
)
def test_collect(choices: int, events: list[TurnEvent], expected: TurnResult) -> None:
    got = [collect(cut, choices) for cut in every_cut(events)]
    assert got == [expected] * len(got)


def test_a_failed_turn_raises_its_error() -> None:
    error = ContextTooLong("Too long.")
    with pytest.raises(ContextTooLong) as raised:
        collect([[Text(0, "m", "a")], [Failed(error)]])
    assert raised.value is error
