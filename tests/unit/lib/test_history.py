"""Histories that codex would lose parts of, settled or as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.history import MAX_ID_CHARS, flatten_history, lift_leading_assistant, settle_history
from app.lib.request import HistoryItem, ImagePart, Message, PastCall, PastOutput, Role, TextPart

PICTURE = ImagePart("data:image/png;base64,AAAA")
LONGEST = "x" * MAX_ID_CHARS
LONG = "x" * (MAX_ID_CHARS + 1)


def said(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))


def call(call_id: str, arguments: str = "{}") -> PastCall:
    return PastCall(call_id, "now", arguments)


def output(call_id: str, text: str = "ok") -> PastOutput:
    return PastOutput(call_id, (TextPart(text),))


def orphan(call_id: str, text: str = "ok") -> Message:
    return said(Role.USER, f"[function_call_output call_id={call_id} output={text}]")


HI = said(Role.USER, "Hi")
HELLO = said(Role.ASSISTANT, "Hello")


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="empty"),
        pytest.param([HI, HELLO, call("a"), output("a"), HI], id="one-call"),
        pytest.param([call("a"), call("b"), output("b"), output("a")], id="outputs-in-another-order"),
        pytest.param([call("a"), HI, output("a")], id="a-message-between"),
        pytest.param([call("a"), HI], id="a-call-without-output"),
        pytest.param([call(LONGEST), output(LONGEST)], id="longest-id"),
        pytest.param([call("a"), PastOutput("a", (PICTURE,))], id="picture"),
        pytest.param([call("a"), PastOutput("a", ())], id="empty-output"),
    ],
)
def test_what_is_settled_stays(history: list[HistoryItem]) -> None:
    assert settle_history(history) == history


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([output("a")], [orphan("a")], id="orphan"),
        pytest.param([output("a"), call("a")], [orphan("a"), call("a")], id="output-before-its-call"),
        pytest.param(
            [PastOutput("a", (TextPart("1"), PICTURE, TextPart("2")))],
            [Message(Role.USER, (TextPart("[function_call_output call_id=a output=1\n2]"), PICTURE))],
            id="orphan-with-a-picture",
        ),
        pytest.param(
            [call("a"), output("a", "1"), output("a", "2")],
            [call("a"), output("a", "1"), orphan("a", "2")],
            id="second-output",
        ),
        pytest.param(
            [call("a", "1"), output("a", "1"), call("a", "2"), output("a", "2")],
            [call("a", "1"), output("a", "1"), call("call_1", "2"), output("call_1", "2")],
            id="an-id-used-again",
        ),
        pytest.param(
            [call("a", "1"), HI, call("a", "2"), output("a", "2"), output("a", "1")],
            [call("a", "1"), HI, call("call_1", "2"), output("call_1", "2"), output("a", "1")],
            id="the-latest-unanswered",
        ),
        pytest.param(
            [call("now", "1"), call("now", "2"), output("now", "1"), output("now", "2")],
            [call("now", "1"), call("call_1", "2"), output("now", "1"), output("call_1", "2")],
            id="one-id-for-a-batch",
        ),
        pytest.param(
            [call("call_1"), call("call_1"), call("call_2"), output("call_2"), output("call_1")],
            [call("call_1"), call("call_2"), call("call_3"), output("call_3"), output("call_1")],
            id="made-ids-that-the-client-uses",
        ),
        pytest.param([call(""), output("")], [call("call_1"), output("call_1")], id="empty-id"),
        pytest.param(
            [call(LONG), output(LONG), output(LONG)],
            [call("call_1"), output("call_1"), orphan(LONG)],
            id="long-id",
        ),
    ],
)
def test_settle_history(history: list[HistoryItem], expected: list[HistoryItem]) -> None:
    assert settle_history(history) == expected


ids = st.sampled_from(["a", "b", "", "call_1", "call_2", LONG])
histories = st.lists(
    st.one_of(
        st.builds(call, ids, st.sampled_from(["1", "2"])),
        st.builds(output, ids, st.sampled_from(["1", "2"])),
        st.sampled_from([HI, HELLO]),
    ),
    max_size=12,
)


@given(histories)
def test_ids_are_short_and_an_output_answers_a_call_before_it(history: list[HistoryItem]) -> None:
    unanswered: set[str] = set()
    seen: set[str] = set()
    for item in settle_history(history):
        match item:
            case PastCall(call_id):
                assert 0 < len(call_id) <= MAX_ID_CHARS
                assert call_id not in seen
                seen.add(call_id)
                unanswered.add(call_id)
            case PastOutput(call_id):
                unanswered.remove(call_id)


@given(histories)
def test_settling_loses_nothing(history: list[HistoryItem]) -> None:
    for before, after in zip(history, settle_history(history), strict=True):
        match before, after:
            case PastCall(), PastCall():
                assert after.arguments == before.arguments
            case PastOutput(), PastOutput():
                assert after.parts == before.parts
            case PastOutput(), _:
                assert flatten_history([before]) == [after]
            case _:
                assert before == after


@given(histories)
def test_what_is_settled_needs_no_more(history: list[HistoryItem]) -> None:
    settled = settle_history(history)
    assert settle_history(settled) == settled


@given(histories, st.integers(0, 12))
def test_a_longer_history_begins_as_before(history: list[HistoryItem], cut: int) -> None:
    """Otherwise nothing upstream could remember would fit."""
    assert settle_history(history)[:cut] == settle_history(history[:cut])


def test_flatten_history() -> None:
    history = [
        HI,
        PastCall("a", "now", '{"x":1}'),
        PastCall("b", "later", ""),
        output("a", "12:00"),
        PastOutput("b", (PICTURE, TextPart("1"), TextPart("2"), PICTURE)),
        PastOutput("c", ()),
    ]
    assert flatten_history(history) == [
        HI,
        said(Role.ASSISTANT, '[function_call id=a call_id=a name=now arguments={"x":1}]'),
        said(Role.ASSISTANT, "[function_call id=b call_id=b name=later arguments={}]"),
        said(Role.USER, "[function_call_output call_id=a output=12:00]"),
        Message(Role.USER, (TextPart("[function_call_output call_id=b output=1\n2]"), PICTURE, PICTURE)),
        said(Role.USER, "[function_call_output call_id=c output=]"),
    ]


RULES = said(Role.DEVELOPER, "Be brief.")
LIFTED = said(Role.DEVELOPER, "Hello")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([], [], id="empty"),
        pytest.param([HELLO], [LIFTED], id="alone"),
        pytest.param([HELLO, HELLO, HI, HELLO], [LIFTED, LIFTED, HI, HELLO], id="before-the-user"),
        pytest.param([RULES, HELLO, RULES, HI], [RULES, LIFTED, RULES, HI], id="among-instructions"),
        pytest.param([HI, HELLO], [HI, HELLO], id="behind-the-user"),
        pytest.param(
            [HELLO, call("a"), output("a"), HELLO, HI],
            [HELLO, call("a"), output("a"), HELLO, HI],
            id="with-a-call",
        ),
        pytest.param(
            [HELLO, HELLO, call("a"), HELLO], [LIFTED, HELLO, call("a"), HELLO], id="before-one-with-a-call"
        ),
        pytest.param([output("a"), HELLO], [output("a"), HELLO], id="behind-an-output"),
    ],
)
def test_lift_leading_assistant(history: list[HistoryItem], expected: list[HistoryItem]) -> None:
    assert list(lift_leading_assistant(history)) == expected
