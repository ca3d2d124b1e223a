"""Requests as codex items."""

from __future__ import annotations

import pytest

from app.lib.prompt import Prompt, build_prompt
from app.lib.request import ImagePart, Message, Role, TextPart, TurnRequest

PIXEL = "data:image/png;base64,AAAA"


def says(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))


def item(role: str, *parts: dict[str, str]) -> dict[str, object]:
    return {"type": "message", "role": role, "content": list(parts)}


def text_in(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def text_out(text: str) -> dict[str, str]:
    return {"type": "output_text", "text": text}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            (
                says(Role.DEVELOPER, "Be brief."),
                says(Role.USER, "Hi"),
                says(Role.ASSISTANT, "Hello"),
                says(Role.USER, "Bye"),
            ),
            (
                item("developer", text_in("Be brief.")),
                item("user", text_in("Hi")),
                item("assistant", text_out("Hello")),
                item("user", text_in("Bye")),
            ),
            id="every-role",
        ),
        pytest.param(
            (Message(Role.USER, (TextPart("What is "), ImagePart(PIXEL), TextPart("?"))),),
            (item("user", text_in("What is "), {"type": "input_image", "image_url": PIXEL}, text_in("?")),),
            id="parts-in-order",
        ),
        pytest.param(
            (
                says(Role.ASSISTANT, "You are…"),
                says(Role.ASSISTANT, "Also…"),
                says(Role.USER, "Hi"),
                says(Role.ASSISTANT, "Yes?"),
            ),
            (
                item("developer", text_in("You are…")),
                item("developer", text_in("Also…")),
                item("user", text_in("Hi")),
                item("assistant", text_out("Yes?")),
            ),
            id="leading-assistant-messages-are-instructions",
        ),
        pytest.param(
            (says(Role.DEVELOPER, "Be brief."), says(Role.ASSISTANT, "You are…"), says(Role.USER, "Hi")),
            (
                item("developer", text_in("Be brief.")),
                item("developer", text_in("You are…")),
                item("user", text_in("Hi")),
            ),
            id="also-after-a-system-message",
        ),
        pytest.param(
            (says(Role.USER, "Hi"), Message(Role.ASSISTANT, ())),
            (item("user", text_in("Hi")),),
            id="an-assistant-without-content",
        ),
    ],
)
def test_items(messages: tuple[Message, ...], expected: tuple[dict[str, object], ...]) -> None:
    assert build_prompt(TurnRequest("m", messages)) == Prompt("m", expected)


def test_the_rest_is_passed_on() -> None:
    request = TurnRequest("m", (says(Role.USER, "Hi"),), effort="low", choices=3)
    assert build_prompt(request) == Prompt("m", (item("user", text_in("Hi")),), "low", 3)
