"""What threads come to hold, and what of it their client was never told."""

from __future__ import annotations

import pytest

from app.backend.raw_items import Answered, Called, Item, ItemDone, Said, SearchedWeb, Thought
from app.backend.transcript import Transcript

OURS, CODEX = Answered("ours"), Answered("codex")


def note(items: list[Item]) -> tuple[str, bool, bool]:
    transcript = Transcript()
    for item in items:
        transcript.note_item(ItemDone("thread", item), {("thread", "ours"), ("another", "codex")})
    return transcript.text, transcript.has_results, transcript.has_secrets


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([Said("m", "a"), Said(None, ""), Said(None, "b")], ("ab", False, False), id="words"),
        pytest.param([OURS], ("", True, False), id="a-result"),
        pytest.param([CODEX], ("", False, True), id="an-answer-of-codex-s-own"),
        # In whatever order: a result that was taken is not untaken.
        pytest.param([OURS, CODEX], ("", True, True), id="both"),
        pytest.param([CODEX, OURS], ("", True, True), id="both-the-other-way"),
        pytest.param([SearchedWeb(None, None)], ("", False, True), id="a-search"),
        pytest.param([Thought("r", ("Hm.",), None)], ("", False, False), id="thoughts"),
        pytest.param([Called("c", "f", "{}")], ("", False, False), id="a-call"),
        pytest.param([Answered(None)], ("", False, True), id="a-result-of-no-known-shape"),
    ],
)
def test_items(items: list[Item], expected: tuple[str, bool, bool]) -> None:
    assert note(items) == expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param([True], False, id="complete"),
        pytest.param([False], True, id="broken"),
        pytest.param([False, True], True, id="broken-and-then-complete"),
    ],
)
def test_a_turn_that_did_not_complete_left_something(ends: list[bool], expected: bool) -> None:
    transcript = Transcript()
    for is_complete in ends:
        transcript.note_end(is_complete)
    assert transcript.has_secrets is expected


def test_another_request_begins() -> None:
    transcript = Transcript()
    transcript.note_item(ItemDone("thread", Said("m", "a")), ())
    transcript.has_results = True
    transcript.begin()
    assert (transcript.text, transcript.has_results) == ("", False)
