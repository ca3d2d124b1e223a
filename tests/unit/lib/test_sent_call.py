"""What of a call's arguments goes out when, also where they are told anew."""

from __future__ import annotations

import pytest

from app.lib.dialects.sent_call import SentCall
from app.lib.text_buffer import TextBuffer
from app.lib.tool_calls import ArgumentsView, ToolCallDelta, ToolCallFunction


def told(added: str | None, text: str) -> ToolCallDelta:
    buffer = TextBuffer()
    buffer.append(text)
    return ToolCallDelta("tool_0_0", ToolCallFunction("f"), 0, added, ArgumentsView(buffer))


#: What a delta is to bring, or with `None` the call's completion.
Step = tuple[tuple[str | None, str] | None, str]


@pytest.mark.parametrize(
    ("first", "steps"),
    [
        pytest.param("", [(None, "{}"), (None, "")], id="no-arguments"),
        pytest.param("{}", [(None, ""), (None, "")], id="all-at-once"),
        pytest.param("", [(("[", "["), "["), (("1]", "[1]"), "1]"), (None, "")], id="in-pieces"),
        pytest.param("[", [(None, ""), (("]", "[]"), "]"), (None, "")], id="more-than-was-expected"),
        pytest.param(
            "[1,",
            [((None, "[1,2"), ""), (("]", "[1,2]"), ""), (None, "2]"), (None, "")],
            id="by-more",
        ),
        pytest.param(
            "[1,2",
            [((None, "[1"), ""), ((",2,3]", "[1,2,3]"), ""), (None, ",3]")],
            id="by-less-that-becomes-more",
        ),
        pytest.param("[1", [((None, "[1,"), ""), (None, ","), (("2]", "[1,2]"), "2]")], id="in-step-again"),
        pytest.param(
            "[1]", [((None, "[2]"), ""), (None, ""), ((None, "[1]"), ""), (None, "")], id="by-others"
        ),
        pytest.param("[1", [((None, "[2"), ""), (("]", "[2]"), ""), (None, "")], id="by-others-that-grow"),
        pytest.param("", [(None, "{}"), (("[]", "[]"), ""), (None, "")], id="after-it-had-none"),
    ],
)
def test_what_goes_out(first: str, steps: list[Step]) -> None:
    call = SentCall(told(first, first))
    got: list[Step] = [
        (change, call.complete() if change is None else call.take(told(*change))) for change, _ in steps
    ]
    assert got == steps
