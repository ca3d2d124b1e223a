"""The script language: which steps a conversation asks for."""

import json
from typing import Any

import pytest

from tests.support.script import (
    STEP_NAMES,
    Failure,
    Step,
    build_usage,
    explain_failed,
    explain_http,
    explain_incomplete,
    parse_script,
    plan_answer,
)
from tests.support.stand_in_steps import STEPS

CALL: dict[str, Any] = {"call": {"name": "f", "arguments": "{}"}}


def user(said: Any) -> dict[str, Any]:
    text = said if isinstance(said, str) else json.dumps(said)
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}


def output(number: int, found: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": found}


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}


def told(number: int, found: str) -> dict[str, Any]:
    """A result in the words of a user, as a model without tools of its own gets it."""
    return user(f"[function_call_output call_id=c{number} output={found}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("hello", [Step("say", ["echo: ", "hello"])], id="text"),
        pytest.param("", [Step("say", ["echo: ", ""])], id="empty-text"),
        pytest.param("42", [Step("say", ["echo: ", "42"])], id="json-but-no-list"),
        pytest.param("[1]", [Step("say", ["echo: ", "[1]"])], id="list-of-no-steps"),
        pytest.param('[{"sya": 1}]', [Step("say", ["echo: ", '[{"sya": 1}]'])], id="unknown-step"),
        pytest.param("[" * 100_000, [Step("say", ["echo: ", "[" * 100_000])], id="nested-too-deep"),
        pytest.param("[]", [], id="nothing"),
        pytest.param('[{"say": ["a"]}]', [Step("say", ["a"])], id="say"),
        pytest.param('[{"pause_s": 1, "say": ["a"]}]', [Step("say", ["a"], {"pause_s": 1})], id="option"),
        pytest.param(
            '[{"error": {}, "http": 429}]', [Step("http", 429, {"error": {}})], id="http-with-error"
        ),
        pytest.param('[{"error": {}}]', [Step("error", {})], id="error"),
    ],
)
def test_parse_script(text: str, expected: list[Step]) -> None:
    assert parse_script(text) == expected


def test_a_repeat_is_a_long_say() -> None:
    (step,) = parse_script('[{"repeat": {"say": ["x", "y"], "times": 2, "pause_s": 1}}]')
    assert (step.name, step.value, step.options["pause_s"]) == ("say", ["x", "y", "x", "y"], 1)


ROUNDS = [CALL, {"then": [CALL, {"then": [{"say": ["done"]}]}]}]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], [Step("say", ["echo: ", ""])], id="no-items"),
        pytest.param([user("a"), user("b")], [Step("say", ["echo: ", "b"])], id="last-user-message"),
        pytest.param(
            [user("a"), {"type": "message", "role": "developer", "content": "x"}],
            [Step("say", ["echo: ", "a"])],
            id="developer-after-user",
        ),
        pytest.param([user(ROUNDS)], [Step("call", CALL["call"])], id="then-is-not-played-first"),
        pytest.param(
            [user(ROUNDS), call(1), output(1, "x")], [Step("call", CALL["call"])], id="second-round"
        ),
        pytest.param(
            [user(ROUNDS), call(1), output(1, "x"), call(2), output(2, "y")],
            [Step("say", ["done"])],
            id="third-round",
        ),
        pytest.param(
            [user([CALL]), call(1), output(1, "x")], [Step("say", ["Tool said: ", "x"])], id="no-then"
        ),
        pytest.param(
            [
                user([CALL]),
                call(1),
                call(2),
                output(1, "x"),
                output(2, [{"type": "input_text", "text": "y"}]),
            ],
            [Step("say", ["Tool said: ", "x\ny"])],
            id="batch-of-two",
        ),
        pytest.param(
            [user([CALL]), call(1), output(1, "x"), user("next")],
            [Step("say", ["echo: ", "next"])],
            id="new-question",
        ),
        pytest.param(
            [user([CALL]), said("<tool_call>"), told(1, "x output=[1]"), told(2, "y")],
            [Step("say", ["Tool said: ", "x output=[1]\ny"])],
            id="results-told-as-text",
        ),
        pytest.param(
            [user(ROUNDS), said("a"), told(1, "x"), told(2, "y"), said("b"), told(3, "z")],
            [Step("say", ["done"])],
            id="third-round-told-as-text",
        ),
        pytest.param(
            [user([CALL]), said("a"), told(1, "x"), user("next")],
            [Step("say", ["echo: ", "next"])],
            id="new-question-after-told-results",
        ),
        pytest.param(
            [user([{"say": ["a"]}, {"then": [{"say": ["b"]}]}]), said("a"), said("Once more.", "developer")],
            [Step("say", ["b"])],
            id="asked-again",
        ),
        pytest.param(
            [user([{"say": ["a"]}]), said("a"), said("Once more.", "developer")],
            [Step("say", ["a"])],
            id="asked-again-with-nothing-else-to-say",
        ),
    ],
)
def test_plan_answer(items: list[dict[str, Any]], expected: list[Step]) -> None:
    assert plan_answer(items) == expected


def test_usage_is_reported_as_the_api_does() -> None:
    assert build_usage({"output_tokens": 1}) == {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 121,
    }


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(
            explain_http(Step("http", 404, {"error": {"message": "gone"}})),
            Failure(
                "unexpected status 404 Not Found: gone, url: http://127.0.0.1:9/v1/responses",
                {"httpConnectionFailed": {"httpStatusCode": 404}},
            ),
            id="http",
        ),
        pytest.param(
            explain_failed({"code": "slow_down", "message": "{}"}),
            Failure("rate limit exceeded: {}", "rateLimitExceeded"),
            id="failed",
        ),
        pytest.param(
            explain_incomplete("max_output_tokens"),
            Failure("Incomplete response returned, reason: max_output_tokens", "other"),
            id="incomplete",
        ),
    ],
)
def test_what_codex_says_of_a_failure(failure: Failure, expected: Failure) -> None:
    assert failure == expected


def test_the_stand_in_plays_every_step() -> None:
    assert set(STEPS) == set(STEP_NAMES) - {"repeat", "then"}
