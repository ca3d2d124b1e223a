"""What threads come to hold, and what of it their client was never told."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.callbacks import Callbacks, build_refusal
from app.backend.transcript import Transcript

OURS = {"type": "function_call_output", "call_id": "ours", "output": "18"}
CODEX = {"type": "function_call_output", "call_id": "codex", "output": "unsupported call"}


def say(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def note(items: list[dict[str, Any]], turn_id: str = "t") -> tuple[str, bool, bool]:
    callbacks, transcript = Callbacks(), Transcript()
    callbacks.settle(("thread", "ours"), build_refusal("any"))
    for item in items:
        transcript.note_item({"threadId": "thread", "turnId": turn_id, "item": item}, callbacks)
    return transcript.text, transcript.has_results, transcript.has_secrets


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([say("a"), say("b")], ("ab", False, False), id="words"),
        pytest.param([OURS], ("", True, False), id="a-result"),
        pytest.param([CODEX], ("", False, True), id="an-answer-of-codex-s-own"),
        # In whatever order: a result that was taken is not untaken.
        pytest.param([OURS, CODEX], ("", True, True), id="both"),
        pytest.param([CODEX, OURS], ("", True, True), id="both-the-other-way"),
        pytest.param([{"type": "web_search_call"}], ("", False, True), id="a-search"),
        pytest.param([{"type": "reasoning"}], ("", False, False), id="thoughts"),
        # Of another release, perhaps: what reads on says so, with an error.
        pytest.param([CODEX | {"call_id": ["ours"]}], ("", False, True), id="a-result-of-no-known-shape"),
        pytest.param(
            [say("a") | {"content": [{"text": ["b"]}, {}, None, "text", 1]}, say("c")],
            ("c", False, False),
            id="words-of-no-known-shape",
        ),
    ],
)
def test_items(items: list[dict[str, Any]], expected: tuple[str, bool, bool]) -> None:
    assert note(items) == expected


def test_history_that_comes_back_is_nothing_new() -> None:
    assert note([say("old"), CODEX], "auto-compact-0") == ("", False, False)


@pytest.mark.parametrize(
    ("status", "expected"), [("completed", False), ("failed", True), ("interrupted", True)]
)
def test_a_turn_that_did_not_complete_left_something(status: str, expected: bool) -> None:
    transcript = Transcript()
    transcript.note_end({"threadId": "thread", "turn": {"status": status}})
    assert transcript.has_secrets is expected


def test_another_request_begins() -> None:
    callbacks, transcript = Callbacks(), Transcript()
    transcript.note_item({"threadId": "thread", "turnId": "t", "item": say("a")}, callbacks)
    transcript.has_results = True
    transcript.begin()
    assert (transcript.text, transcript.has_results) == ("", False)
