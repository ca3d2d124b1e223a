"""What reached the model beside what the client said."""

from __future__ import annotations

from typing import Any

import pytest

from app.doctor.upstream import SAME, Difference, compare


def say(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "content": [{"type": "input_text", "text": text}],
    } | more


def offer(name: str, description: str = "Looks a word up.") -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "strict": False, "parameters": {}}


RULE, QUESTION, TOOL = say("developer", "Be brief."), say("user", "Hello?"), offer("look_up")


def send(*items: Any, tools: Any = (TOOL,), **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items), "tools": list(tools)} | more


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([send(RULE, QUESTION)], SAME, id="the-very-same"),
        pytest.param(
            [send(RULE | {"id": "msg_1"}, QUESTION | {"id": "msg_2", "status": "completed"})],
            SAME,
            id="ids-are-nothing-the-model-reads",
        ),
        pytest.param([send(RULE, QUESTION, instructions="")], SAME, id="empty-instructions"),
        pytest.param(
            [send(RULE, QUESTION, instructions="You are Codex.")],
            Difference(("instructions (14 characters)",)),
            id="instructions",
        ),
        pytest.param(
            [send(say("user", "<environment_context>"), RULE, QUESTION)],
            Difference(("a user message (21 characters)",)),
            id="a-message-before",
        ),
        pytest.param(
            [send(RULE, say("developer", "x" * 1200), QUESTION)],
            Difference(("a developer message (1,200 characters)",)),
            id="a-message-between",
        ),
        pytest.param(
            [send(RULE, QUESTION, {"type": "additional_tools", "tools": []})],
            Difference(("an item of type `additional_tools` (41 characters)",)),
            id="an-item-of-another-kind",
        ),
        pytest.param(
            [send(RULE, QUESTION, RULE)],
            Difference(("a developer message (9 characters)",)),
            id="the-clients-own-words-twice",
        ),
        pytest.param(
            [send(RULE, say("user", "Hello?\nBe careful."))],
            Difference(("a user message (18 characters)",), ("a user message (6 characters)",)),
            id="words-inside-a-message",
        ),
        pytest.param(
            [send(say("user", "Be brief."), QUESTION)],
            Difference(
                ("a user message (9 characters)", "a user message (6 characters)"),
                ("a developer message (9 characters)", "a user message (6 characters)"),
            ),
            id="another-role",
        ),
        pytest.param(
            [send(QUESTION, RULE)],
            Difference(("a user message (6 characters)",), ("a user message (6 characters)",)),
            id="another-order",
        ),
        pytest.param(
            [send(RULE)], Difference((), ("a user message (6 characters)",)), id="a-message-missing"
        ),
        pytest.param(
            [send(RULE, QUESTION, tools=[TOOL, {"type": "web_search"}])],
            Difference(("the tool `web_search` (22 characters)",)),
            id="a-tool-without-a-name",
        ),
        pytest.param(
            [send(RULE, QUESTION, tools=[offer("shell", "Runs."), TOOL])],
            Difference(("the tool `shell` (96 characters)",)),
            id="a-function",
        ),
        pytest.param(
            [send(RULE, QUESTION, tools=[offer("look_up", "Use me first.")])],
            Difference(("the tool `look_up` (106 characters)",), ("the tool `look_up` (109 characters)",)),
            id="the-clients-tool-changed",
        ),
        pytest.param(
            [{"input": [RULE, QUESTION]}],
            Difference((), ("the tool `look_up` (109 characters)",)),
            id="no-tools",
        ),
        pytest.param(
            [send(RULE, QUESTION), send(say("user", "Sum this up."))],
            Difference(("further requests (1)",)),
            id="a-second-request",
        ),
        pytest.param([], Difference((), ("the request",)), id="nothing-came"),
        pytest.param(
            [send("text", RULE, QUESTION, tools=[TOOL, 7])],
            Difference(("an item of type `None` (4 characters)", "the tool `None` (1 characters)")),
            id="of-no-known-shape",
        ),
    ],
)
def test_a_request_is_held_against_what_the_client_said(
    bodies: list[dict[str, Any]], expected: Difference
) -> None:
    assert compare(bodies, [RULE, QUESTION], [TOOL]) == expected


@pytest.mark.parametrize(
    ("difference", "told"),
    [
        pytest.param(Difference(("a", "b")), "codex sent more than the client's words: a, b", id="more"),
        pytest.param(
            Difference((), ("a",)), "codex did not send, or not as the client said it: a", id="less"
        ),
        pytest.param(
            Difference(("a",), ("b",)),
            "codex sent more than the client's words: a; codex did not send, or not as the client said it: b",
            id="both",
        ),
    ],
)
def test_a_difference_is_told_in_words(difference: Difference, told: str) -> None:
    assert str(difference) == told
