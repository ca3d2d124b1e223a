"""Folding a turn into one value."""

from __future__ import annotations

import pytest

from app.lib.errors import ContextTooLong
from app.lib.events import (
    Began,
    Completed,
    Failed,
    Finished,
    FinishReason,
    Note,
    NoteKind,
    Reasoning,
    Text,
    ToolBlock,
    ToolCalled,
    TurnEvent,
)
from app.lib.result import ChoiceResult, TurnResult, collect
from app.lib.tool_call_aggregator import ToolCallAggregator
from app.lib.tool_calls import TextCall, ToolCallFunction, ToolCallRecord
from app.lib.usage import Usage
from tests.support.cuts import every_cut

STOP, LENGTH, CALLS = FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS


def called(*calls: TextCall) -> list[TurnEvent]:
    aggregator = ToolCallAggregator()
    return [ToolCalled(0, aggregator.ingest_call(call)) for call in calls]


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
        pytest.param(
            1,
            [
                Text(0, "m", "Look: "),
                Note(0, NoteKind.BUFFER_STARTED, "use_tool"),
                *called(TextCall("f", "{}")),
                ToolBlock(0, "m", "<1>"),
                Text(0, "m", "and "),
                *called(TextCall("f", "{}"), TextCall("g", "")),
                ToolBlock(0, "m", "<2>"),
                Text(0, "m", "."),
                Finished(0, CALLS),
                Completed(Usage(5)),
            ],
            TurnResult(
                (
                    ChoiceResult(
                        "Look: and .",
                        (),
                        CALLS,
                        (
                            ToolCallRecord("tool_0_0", ToolCallFunction("f"), "{}"),
                            ToolCallRecord("tool_0_1", ToolCallFunction("g"), ""),
                        ),
                        ((6, "<1>"), (10, "<2>")),
                    ),
                ),
                Usage(5),
            ),
            id="calls-and-their-blocks",
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


@pytest.mark.parametrize(
    ("text", "blocks", "expected"),
    [
        pytest.param("ab", (), "ab", id="no-blocks"),
        pytest.param(
            "ab", ((0, "<1>"), (1, "<2>"), (1, "<3>"), (2, "<4>")), "<1>a<2><3>b<4>", id="everywhere"
        ),
    ],
)
def test_a_transcript_has_the_blocks_where_they_stood(
    text: str, blocks: tuple[tuple[int, str], ...], expected: str
) -> None:
    assert ChoiceResult(text, (), CALLS, (), blocks).transcript == expected
