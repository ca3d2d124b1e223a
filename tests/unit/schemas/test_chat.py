"""Chat bodies, good and bad."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.errors import InvalidRequest
from app.lib.models import EFFORTS
from app.lib.request import ImagePart, Message, Role, TextPart, TurnRequest
from app.schemas.chat import IGNORED, ChatRequest, ChatSchema
from app.schemas.loading import find_first, load_body

SCHEMA = ChatSchema(max_choices=5)
HI = {"role": "user", "content": "Hi"}
BODY = {"model": "gpt-5.5", "messages": [HI]}
PIXEL = "data:image/png;base64,AAAA"

ROLES = "Must be one of: system, developer, user, assistant."
PARTS = "Must be one of: text, image_url."
CONTENT = "Must be a string or a non-empty list of parts."
MESSAGES = "Must be a non-empty list of messages."
IMAGE = "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched."
BOUNDS = "Must be greater than or equal to 1 and less than or equal to 5."
LENGTH = "Length must be between 1 and 256."


def load(**changes: Any) -> ChatRequest:
    request: ChatRequest = load_body(SCHEMA, BODY | changes)
    return request


def user(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


@pytest.mark.parametrize(
    ("changes", "param", "message"),
    [
        pytest.param({"model": None}, "model", "Field may not be null.", id="model-null"),
        pytest.param({"model": ""}, "model", LENGTH, id="model-empty"),
        pytest.param({"model": "x" * 257}, "model", LENGTH, id="model-long"),
        pytest.param({"model": 5}, "model", "Not a valid string.", id="model-number"),
        pytest.param({"messages": None}, "messages", "Field may not be null.", id="messages-null"),
        pytest.param({"messages": []}, "messages", MESSAGES, id="messages-empty"),
        pytest.param({"messages": "Hi"}, "messages", MESSAGES, id="messages-text"),
        pytest.param(
            {"messages": [{"role": "assistant", "content": None}]},
            "messages",
            "Must say something.",
            id="messages-silent",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "image_url", "image_url": "data:image/"}]}
                ]
            },
            "messages[0].content[0].type",
            "Must be one of: text, refusal.",
            id="image-of-the-assistant",
        ),
        pytest.param({"messages": HI}, "messages", MESSAGES, id="messages-object"),
        pytest.param({"messages": [HI, "Hi"]}, "messages[1]", "Must be an object.", id="message-text"),
        pytest.param({"messages": [{"content": "Hi"}]}, "messages[0].role", ROLES, id="role-missing"),
        pytest.param({"messages": [HI] * 3 + [{"role": "x"}]}, "messages[3].role", ROLES, id="role-unknown"),
        pytest.param({"messages": [HI | {"role": ["user"]}]}, "messages[0].role", ROLES, id="role-list"),
        pytest.param({"messages": [HI, {"role": "user"}]}, "messages[1].content", CONTENT, id="no-content"),
        pytest.param(
            {"messages": [HI | {"content": None}]}, "messages[0].content", CONTENT, id="content-null"
        ),
        pytest.param(
            {"messages": [HI | {"content": 5}]}, "messages[0].content", CONTENT, id="content-number"
        ),
        pytest.param(
            {"messages": [HI | {"content": {}}]}, "messages[0].content", CONTENT, id="content-object"
        ),
        pytest.param(user(), "messages[0].content", CONTENT, id="no-parts"),
        pytest.param(user("Hi"), "messages[0].content[0].type", PARTS, id="part-text"),
        pytest.param(user({"text": "Hi"}), "messages[0].content[0].type", PARTS, id="part-untyped"),
        pytest.param(user({"type": ["text"]}), "messages[0].content[0].type", PARTS, id="part-type-list"),
        pytest.param(
            user({"type": "text", "text": "a"}, {"type": "input_audio"}),
            "messages[0].content[1].type",
            PARTS,
            id="part-audio",
        ),
        pytest.param(
            user({"type": "text"}), "messages[0].content[0].text", "Must be a string.", id="text-missing"
        ),
        pytest.param(
            user({"type": "text", "text": 5}),
            "messages[0].content[0].text",
            "Must be a string.",
            id="text-number",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "content": [{"type": "refusal", "text": "No."}]}]},
            "messages[0].content[0].refusal",
            "Must be a string.",
            id="refusal-missing",
        ),
        *(
            pytest.param(
                user({"type": "image_url", "image_url": image}),
                "messages[0].content[0].image_url",
                IMAGE,
                id=f"image-{name}",
            )
            for name, image in {
                "remote": {"url": "https://example.com/a.png"},
                "file": {"url": "file:///etc/passwd"},
                "remote-text": "http://example.com/a.png",
                "text-data": {"url": "data:text/plain,hello"},
                "undecodable": {"url": "data:image/png;base64,!!!!"},
                "drawing": {"url": "data:image/svg+xml;base64,AAAA"},
                "without-data": {"url": "data:image/png;base64,"},
                "empty": {},
                "null": None,
                "number": {"url": 5},
            }.items()
        ),
        pytest.param({"stream": "maybe"}, "stream", "Not a valid boolean.", id="stream-text"),
        pytest.param({"stream": []}, "stream", "Not a valid boolean.", id="stream-list"),
        pytest.param({"stream": "true"}, "stream", "Not a valid boolean.", id="stream-word"),
        pytest.param({"stream": 1}, "stream", "Not a valid boolean.", id="stream-number"),
        pytest.param(
            {"stream_options": {"include_usage": "maybe"}},
            "stream_options.include_usage",
            "Not a valid boolean.",
            id="include-usage-text",
        ),
        pytest.param(
            {"stream_options": True},
            "stream_options",
            "Invalid input type.",
            id="stream-options-flag",
        ),
        pytest.param({"n": 0}, "n", BOUNDS, id="n-none"),
        pytest.param({"n": 6}, "n", BOUNDS, id="n-many"),
        pytest.param({"n": -1}, "n", BOUNDS, id="n-negative"),
        pytest.param({"n": 1.5}, "n", "Not a valid integer.", id="n-fraction"),
        pytest.param({"n": "2"}, "n", "Not a valid integer.", id="n-text"),
        pytest.param({"n": True}, "n", "Not a valid integer.", id="n-flag"),
        pytest.param(
            {"reasoning_effort": "huge"},
            "reasoning_effort",
            f"Must be one of: {', '.join(EFFORTS)}.",
            id="effort-unknown",
        ),
        pytest.param({"reasoning_effort": 5}, "reasoning_effort", "Not a valid string.", id="effort-number"),
        pytest.param({"logprobs": True}, "logprobs", "Codex gives no log probabilities.", id="logprobs"),
    ],
)
def test_bad_bodies(changes: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load(**changes)
    assert (raised.value.message, raised.value.param) == (f"{param}: {message}", param)


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        pytest.param({"messages": [HI]}, "model", "model: Missing data for required field.", id="no-model"),
        pytest.param(
            {"model": "m"}, "messages", "messages: Missing data for required field.", id="no-messages"
        ),
        pytest.param({}, "model", "model: Missing data for required field.", id="empty"),
        pytest.param([BODY], None, "The body must be a JSON object.", id="list"),
        pytest.param("Hi", None, "The body must be a JSON object.", id="text"),
        pytest.param(None, None, "The body must be a JSON object.", id="null"),
    ],
)
def test_incomplete_bodies(body: Any, param: str | None, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_body(SCHEMA, body)
    assert (raised.value.message, raised.value.param) == (message, param)


HELLO = (Message(Role.USER, (TextPart("Hi"),)),)
PLAIN = ChatRequest(TurnRequest("gpt-5.5", HELLO), stream=False, include_usage=False, ignored=())


def plain_with(**changes: Any) -> ChatRequest:
    turn = {"model": "gpt-5.5", "messages": HELLO, "effort": None, "choices": 1}
    return ChatRequest(
        TurnRequest(**{key: changes.get(key, value) for key, value in turn.items()}),
        stream=changes.get("stream", False),
        include_usage=changes.get("include_usage", False),
        ignored=changes.get("ignored", ()),
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, PLAIN, id="plain"),
        pytest.param({"some_future_key": {"a": 1}, "x": None}, PLAIN, id="unknown-keys"),
        pytest.param(
            dict.fromkeys(("stream", "stream_options", "n", "reasoning_effort", "logprobs", *IGNORED)),
            PLAIN,
            id="null-is-unset",
        ),
        pytest.param({"stream": True}, plain_with(stream=True), id="stream"),
        pytest.param(
            {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
            plain_with(stream=True, include_usage=True),
            id="include-usage",
        ),
        pytest.param({"stream_options": {}}, PLAIN, id="no-stream-options"),
        pytest.param({"stream_options": {"include_usage": None}}, PLAIN, id="include-usage-null"),
        pytest.param({"n": 1}, PLAIN, id="n-least"),
        pytest.param({"n": 5}, plain_with(choices=5), id="n-most"),
        pytest.param({"logprobs": False}, PLAIN, id="logprobs-off"),
        pytest.param({"model": "x" * 256}, plain_with(model="x" * 256), id="model-longest"),
        *(
            pytest.param({"reasoning_effort": effort}, plain_with(effort=effort), id=f"effort-{effort}")
            for effort in EFFORTS
        ),
        *(
            pytest.param(
                {"reasoning": {"effort": effort, "summary": "auto"}}, plain_with(effort=effort), id=id_
            )
            for effort, id_ in ((None, "no-effort"), ("low", "effort-as-in-responses"))
        ),
        *(pytest.param({name: 0}, plain_with(ignored=(name,)), id=f"ignored-{name}") for name in IGNORED),
        pytest.param(
            {"user": "me", "temperature": 0.5, "tools": [], "seed": False},
            plain_with(ignored=("seed", "temperature", "tools", "user")),
            id="ignored-in-one-order",
        ),
    ],
)
def test_good_bodies(changes: dict[str, Any], expected: ChatRequest) -> None:
    assert load(**changes) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            {"role": "system", "content": "a"}, Message(Role.DEVELOPER, (TextPart("a"),)), id="system"
        ),
        pytest.param(
            {"role": "developer", "content": "a"}, Message(Role.DEVELOPER, (TextPart("a"),)), id="developer"
        ),
        pytest.param({"role": "user", "content": ""}, Message(Role.USER, (TextPart(""),)), id="empty-text"),
        pytest.param(
            {"role": "assistant", "content": "a"}, Message(Role.ASSISTANT, (TextPart("a"),)), id="assistant"
        ),
        pytest.param(
            {"role": "assistant", "content": None}, Message(Role.ASSISTANT, ()), id="assistant-null"
        ),
        pytest.param({"role": "assistant"}, Message(Role.ASSISTANT, ()), id="assistant-without-content"),
        pytest.param(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            Message(Role.ASSISTANT, (TextPart("No."),)),
            id="refusal",
        ),
        pytest.param(
            {"role": "user", "content": "a", "name": "Ann", "cache_control": {}},
            Message(Role.USER, (TextPart("a"),)),
            id="unknown-keys",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a", "cache_control": {}},
                    {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                    {"type": "image_url", "image_url": PIXEL},
                ],
            },
            Message(Role.USER, (TextPart("a"), ImagePart(PIXEL), ImagePart(PIXEL))),
            id="parts",
        ),
    ],
)
def test_messages(message: dict[str, Any], expected: Message) -> None:
    assert load(messages=[HI, message]).turn.messages[1:] == (expected,)


def test_a_long_conversation() -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    pair = (Message(Role.USER, (TextPart("Hi"),)), Message(Role.ASSISTANT, (TextPart("Hello"),)))
    assert load(messages=[HI, answer] * 250).turn.messages == pair * 250


def test_the_bound_on_n_is_the_operators() -> None:
    assert load_body(ChatSchema(max_choices=9), BODY | {"n": 9}).turn.choices == 9


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param({"a": ["one", "two"], "b": ["three"]}, ("a", "one"), id="the-first"),
        pytest.param({"a": {3: {"b": {0: ["one"]}}}}, ("a[3].b[0]", "one"), id="a-path"),
        pytest.param(["one"], ("", "one"), id="no-path"),
        pytest.param({}, ("", "{}"), id="nothing-said"),
        pytest.param({"a": []}, ("a", "[]"), id="nothing-said-about-a-field"),
    ],
)
def test_find_first(messages: Any, expected: tuple[str, str]) -> None:
    assert find_first(messages) == expected
