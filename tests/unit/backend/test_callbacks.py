"""Codex's questions about calls: which come, and how they are matched with the core's word."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.callbacks import Callbacks, build_answer, build_refusal, is_asked_about, read_key
from app.backend.jsonrpc import ServerRequest
from app.lib.request import ImagePart, Part, TextPart


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("{}", True, id="an-object"),
        pytest.param(' {"x": "1"}\n', True, id="white-space-around"),
        pytest.param('{"x":1,"x":2}', True, id="a-key-twice"),
        pytest.param("[]", True, id="a-list"),
        pytest.param("null", True, id="null"),
        pytest.param("5", True, id="a-number"),
        pytest.param('"x"', True, id="a-text"),
        pytest.param('{"x":1e999}', True, id="past-any-float"),
        pytest.param('{"x":' + "1" * 5000 + "}", True, id="many-digits"),
        pytest.param('"\\ud83d\\ude00"', True, id="a-pair-of-escapes"),
        pytest.param('"\u2028"', True, id="a-line-separator"),
        pytest.param("[" * 127 + "]" * 127, True, id="as-deep-as-codex-reads"),
        pytest.param("[" + "[]," * 200 + "[]]", True, id="many-brackets-but-not-deep"),
        pytest.param("[" * 128 + "]" * 128, False, id="too-deep"),
        pytest.param("[" * 128 + "1e999" + "]" * 128, False, id="too-deep-and-too-large"),
        pytest.param("[" * 5000 + "]" * 5000, False, id="deeper-than-the-stack"),
        pytest.param("", False, id="nothing"),
        pytest.param('{"x":', False, id="half-an-object"),
        pytest.param("{} x", False, id="text-behind"),
        pytest.param("NaN", False, id="not-a-number"),
        pytest.param("[1e999, -Infinity]", False, id="infinity"),
        pytest.param('"\\ud800"', False, id="half-a-character"),
        pytest.param('["\\udc00", 1e999]', False, id="half-a-character-and-too-large"),
        pytest.param('"\n"', False, id="a-line-end-in-a-text"),
        pytest.param("[1,]", False, id="a-trailing-comma"),
        pytest.param("01", False, id="a-leading-zero"),
    ],
)
def test_is_asked_about(arguments: str, expected: bool) -> None:
    assert is_asked_about(arguments) is expected


def ask(number: int, **params: Any) -> ServerRequest:
    return ServerRequest(number, "item/tool/call", params)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(ask(0, threadId="t", callId="c", tool="f"), ("t", "c"), id="a-call"),
        pytest.param(ask(0, threadId="t"), None, id="no-call"),
        pytest.param(ask(0, threadId=1, callId="c"), None, id="a-thread-that-is-no-text"),
    ],
)
def test_read_key(request_: ServerRequest, expected: tuple[str, str] | None) -> None:
    assert read_key(request_) == expected


def test_build_refusal() -> None:
    assert build_refusal("no") == {"contentItems": [{"type": "inputText", "text": "no"}], "success": False}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param((), [("text", "")], id="nothing"),
        pytest.param((TextPart("a"), TextPart("")), [("text", "a"), ("text", "")], id="texts"),
        pytest.param(
            (TextPart("a"), ImagePart("data:x")), [("text", "a"), ("imageUrl", "data:x")], id="image"
        ),
    ],
)
def test_build_answer(parts: tuple[Part, ...], expected: list[tuple[str, str]]) -> None:
    kinds = {"text": "inputText", "imageUrl": "inputImage"}
    items = [{"type": kinds[key], key: value} for key, value in expected]
    assert build_answer(parts) == {"contentItems": items, "success": True}


KEY, OTHER, ELSEWHERE = ("t", "c1"), ("t", "c2"), ("u", "c1")
BAD, WORSE = build_refusal("bad"), build_refusal("worse")


def test_a_question_and_the_word_on_it_come_in_either_order() -> None:
    callbacks = Callbacks()
    assert callbacks.ask(KEY, ask(0)) is None
    assert callbacks.settle(OTHER, BAD) == []
    assert callbacks.settle(KEY, WORSE) == [ask(0)]
    assert (callbacks.ask(OTHER, ask(1)), callbacks.ask(KEY, ask(2))) == (BAD, WORSE)
    assert (KEY in callbacks.answered, ELSEWHERE in callbacks.answered) == (True, False)
    assert callbacks.ask(ELSEWHERE, ask(3)) is None
    assert callbacks.waiting == {"u"}


def test_two_calls_of_one_id_are_answered_alike() -> None:
    callbacks = Callbacks()
    callbacks.ask(KEY, ask(0))
    callbacks.ask(KEY, ask(1))
    assert callbacks.settle(KEY, BAD) == [ask(0), ask(1)]
    assert callbacks.ask(KEY, ask(2)) == BAD


def test_the_word_on_a_call_is_not_for_a_later_one_of_its_id() -> None:
    callbacks = Callbacks()
    callbacks.settle(KEY, BAD)
    callbacks.forget(KEY)
    callbacks.forget(OTHER)
    assert callbacks.ask(KEY, ask(0)) is None


def test_open_questions_are_taken_once() -> None:
    callbacks = Callbacks()
    for number, key in enumerate([KEY, OTHER, ELSEWHERE]):
        callbacks.ask(key, ask(number))
    assert callbacks.take_open({"t"}) == [ask(0), ask(1)]
    assert (callbacks.take_open({"t"}), callbacks.waiting) == ([], {"u"})
