"""Codex's questions about a request's calls: which are answered, which wait, which are declined."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from app.backend.callbacks import build_refusal
from app.backend.jsonrpc import ServerRequest
from app.backend.questions import Questions
from app.settings import Settings

KEY, OTHER, ELSEWHERE = ("t", "c1"), ("t", "c2"), ("u", "c1")
BAD, WORSE = build_refusal("bad"), build_refusal("worse")


class Asker:
    """Takes what codex is told."""

    def __init__(self) -> None:
        self.answered: list[tuple[int | str, dict[str, Any]]] = []
        self.declined: list[int | str] = []

    def answer(self, request: ServerRequest, result: dict[str, Any]) -> Generator[None, None, None]:
        self.answered.append((request.id, result))
        yield

    def decline(self, request: ServerRequest) -> None:
        self.declined.append(request.id)


class Asked:
    """Questions of codex's, and what becomes of them."""

    def __init__(self, idle_timeout_s: float = 60) -> None:
        self.codex = Asker()
        self.questions = Questions(self.codex, Settings(idle_timeout_s=idle_timeout_s))
        self._next_id = 0

    def take(self, key: tuple[str, str], is_complete: bool = False) -> None:
        self.questions.take(key, ServerRequest(self._next_id, "item/tool/call", {}), is_complete)
        self._next_id += 1

    def answer(self) -> list[tuple[int | str, dict[str, Any]]]:
        for _ in self.questions.answer():
            pass
        return self.codex.answered

    def fall_silent(self, *incomplete: str) -> list[int | str]:
        self.questions.note_read(False, lambda thread_id: thread_id in incomplete)
        return self.codex.declined


def test_a_question_and_the_word_on_it_come_in_either_order() -> None:
    asked = Asked()
    asked.take(KEY)
    asked.questions.settle(OTHER, WORSE)
    assert (asked.questions.are_answerable, asked.answer()) == (False, [])
    asked.questions.settle(KEY, BAD)
    asked.take(OTHER)
    assert asked.questions.are_answerable
    assert asked.answer() == [(0, BAD), (1, WORSE)]
    assert (asked.questions.are_answerable, asked.codex.declined) == (False, [])


def test_the_word_on_a_call_is_not_for_a_later_one_of_its_id() -> None:
    asked = Asked()
    asked.questions.settle(KEY, BAD)
    assert KEY in asked.questions.answered
    asked.questions.note_call(KEY)
    asked.take(KEY)
    assert (KEY in asked.questions.answered, asked.answer()) == (False, [])


@pytest.mark.parametrize(
    ("is_heard", "idle_timeout_s", "expected"),
    [
        pytest.param(False, 0, [0], id="no-patience"),
        pytest.param(False, 60, [], id="patience"),
        # What was just heard is no silence, however short the patience.
        pytest.param(True, 1e-3, [], id="heard"),
    ],
)
def test_questions_behind_which_codex_falls_silent(
    is_heard: bool, idle_timeout_s: float, expected: list[int]
) -> None:
    asked = Asked(idle_timeout_s)
    for key in (KEY, ELSEWHERE):
        asked.take(key)
    asked.questions.note_read(is_heard, lambda thread_id: thread_id == "t")
    assert asked.codex.declined == expected


def test_a_complete_response_may_take_as_long_as_its_results() -> None:
    asked = Asked(0)
    asked.take(KEY)
    assert asked.fall_silent() == []
    asked.questions.settle(KEY, BAD)
    assert asked.answer() == [(0, BAD)]


def test_who_asks_nothing_is_not_waited_for() -> None:
    assert Asked(0).fall_silent("t") == []


def test_what_is_asked_behind_a_broken_response_is_declined_until_it_goes_on() -> None:
    asked = Asked(0)
    asked.take(KEY)
    asked.fall_silent("t")
    asked.take(OTHER)
    asked.take(ELSEWHERE)
    assert asked.codex.declined == [0, 1]
    asked.take(OTHER, is_complete=True)
    asked.questions.note_call(OTHER)
    asked.take(KEY)
    assert asked.codex.declined == [0, 1]


def test_the_next_request_begins_with_all_patience() -> None:
    asked = Asked(4)
    asked.take(KEY)
    asked.questions._heard_s -= 2  # which nobody needs to wait for
    asked.questions.begin()
    assert asked.fall_silent("t") == []
