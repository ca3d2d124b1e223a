"""Chat messages of every role, good and bad."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
import pytest

from app.lib.request import HistoryItem, ImagePart, Message, PastCall, PastOutput, Role, TextPart
from app.schemas.chat_messages import read_messages
from app.schemas.loading import find_first

HI = {"role": "user", "content": "Hi"}
HELLO = Message(Role.USER, (TextPart("Hi"),))
PIXEL = "data:image/png;base64,iVBORw0KGgo="
NOW = {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"a": 1}'}}
TEXT = {"type": "text", "text": "a"}
PICTURE = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}

ROLES = "Must be one of: developer, system, user, assistant, tool, function."
PARTS = "Must be one of: text, input_text, image_url, input_image."
CONTENT = "Must be a string or a non-empty list of parts."
MESSAGES = "Must be a non-empty list of messages."
IMAGE = "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched."
NAMING = "Must be a non-empty string."
AUDIO = "Audio is not served here."
FILES = "Files are not served here; send their text, or images of their pages."
ARGUMENTS = "Must be a string or an object."


def said(role: Role, *texts: str) -> Message:
    return Message(role, tuple(map(TextPart, texts)))


def assistant(**keys: Any) -> dict[str, Any]:
    return {"role": "assistant", **keys}


def calling(*calls: Any) -> dict[str, Any]:
    return assistant(content=None, tool_calls=list(calls))


def calling_with(arguments: Any) -> dict[str, Any]:
    return calling({"id": "c1", "type": "function", "function": {"name": "now", "arguments": arguments}})


def tool(content: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": content, **keys}


def legacy_call(name: str) -> dict[str, Any]:
    return assistant(content=None, function_call={"name": name, "arguments": "{}"})


def legacy_output(name: str, text: str) -> dict[str, Any]:
    return {"role": "function", "name": name, "content": text}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"role": "system", "content": "a"}, [said(Role.DEVELOPER, "a")], id="system"),
        pytest.param({"role": "developer", "content": [TEXT]}, [said(Role.DEVELOPER, "a")], id="developer"),
        pytest.param({"role": "user", "content": ""}, [said(Role.USER, "")], id="empty-text"),
        pytest.param(
            {"role": "user", "content": "a", "name": "Ann", "cache_control": {}},
            [said(Role.USER, "a")],
            id="unknown-keys",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [TEXT | {"x": 1}, PICTURE, {"type": "image_url", "image_url": PIXEL}],
            },
            [Message(Role.USER, (TextPart("a"), ImagePart(PIXEL), ImagePart(PIXEL)))],
            id="parts",
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            [said(Role.USER, "a")],
            id="a-part-as-responses-has-it",
        ),
        pytest.param(
            tool([{"type": "image_url", "image_url": "data:image/jpg;base64,/9j/4A=="}]),
            [PastOutput("c1", (ImagePart("data:image/jpeg;base64,/9j/4A=="),))],
            id="a-picture-under-another-name",
        ),
        pytest.param(assistant(content="a"), [said(Role.ASSISTANT, "a")], id="assistant"),
        pytest.param(
            assistant(content=[{"type": "output_text", "text": "a"}]),
            [said(Role.ASSISTANT, "a")],
            id="an-answer-as-responses-has-it",
        ),
        *(
            pytest.param(assistant(**keys), [], id=f"assistant-{id_}")
            for id_, keys in {
                "null": {"content": None},
                "missing": {},
                "empty": {"content": ""},
                "no-parts": {"content": []},
                "empty-parts": {"content": [{"type": "text", "text": ""}]},
                "nothing-refused": {"content": "", "refusal": ""},
                "refusal-of-no-text": {"refusal": 5},
                "no-calls": {"content": None, "tool_calls": [], "function_call": None},
                "calls-null": {"content": None, "tool_calls": None},
            }.items()
        ),
        pytest.param(
            assistant(content=[{"type": "text", "text": ""}, {"type": "refusal", "refusal": "No."}]),
            [said(Role.ASSISTANT, "No.")],
            id="refusal-part",
        ),
        pytest.param(assistant(content=None, refusal="No."), [said(Role.ASSISTANT, "No.")], id="refusal"),
        pytest.param(
            assistant(content="Yes.", refusal="No."), [said(Role.ASSISTANT, "Yes.")], id="words-over-refusal"
        ),
        pytest.param(
            assistant(content="Let me see.", tool_calls=[NOW, NOW | {"id": "c2", "index": 1}]),
            [
                said(Role.ASSISTANT, "Let me see."),
                PastCall("c1", "now", '{"a": 1}'),
                PastCall("c2", "now", '{"a": 1}'),
            ],
            id="words-and-calls",
        ),
        pytest.param(
            calling(NOW, {"function": {"name": "a b"}}, NOW | {"id": None}, NOW | {"id": ""}),
            [
                PastCall("c1", "now", '{"a": 1}'),
                PastCall("call_1_1", "a b", "{}"),
                PastCall("call_1_2", "now", '{"a": 1}'),
                PastCall("call_1_3", "now", '{"a": 1}'),
            ],
            id="ids-left-out",
        ),
        *(
            pytest.param(calling_with(arguments), [PastCall("c1", "now", text)], id=f"arguments-{id_}")
            for id_, arguments, text in (
                ("text", "{ no JSON", "{ no JSON"),
                ("empty", "", ""),
                ("null", None, "{}"),
                ("object", {"a": [1, "ö"]}, '{"a":[1,"ö"]}'),
                ("empty-object", {}, "{}"),
            )
        ),
        pytest.param(legacy_call("now"), [PastCall("call_1", "now", "{}")], id="function-call"),
        pytest.param(
            calling(NOW) | {"function_call": {"name": "now"}},
            [PastCall("c1", "now", '{"a": 1}')],
            id="tool-calls-over-function-call",
        ),
        pytest.param(tool("12:00", name="now"), [PastOutput("c1", (TextPart("12:00"),))], id="tool"),
        pytest.param(
            tool([TEXT, PICTURE]), [PastOutput("c1", (TextPart("a"), ImagePart(PIXEL)))], id="tool-parts"
        ),
        *(
            pytest.param(tool(content), [PastOutput("c1", ())], id=f"tool-{content!r}")
            for content in (None, "", [])
        ),
        pytest.param({"role": "tool", "tool_call_id": "c1"}, [PastOutput("c1", ())], id="tool-missing"),
        pytest.param(
            legacy_output("now", "12:00"), [PastOutput("now", (TextPart("12:00"),))], id="function-orphan"
        ),
    ],
)
def test_messages(message: dict[str, Any], expected: list[HistoryItem]) -> None:
    assert read_messages([HI, message]) == (HELLO, *expected)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [legacy_call("a"), legacy_output("a", "1"), legacy_call("a"), legacy_output("a", "2")],
            ["call_0", "call_0", "call_2", "call_2"],
            id="one-after-the-other",
        ),
        pytest.param(
            [legacy_call("a"), legacy_call("a"), legacy_output("a", "2"), legacy_output("a", "1")],
            ["call_0", "call_1", "call_1", "call_0"],
            id="the-nearest-first",
        ),
        pytest.param(
            [legacy_call("a"), legacy_call("b"), legacy_output("a", "1"), legacy_output("b", "2")],
            ["call_0", "call_1", "call_0", "call_1"],
            id="by-name",
        ),
        pytest.param(
            [legacy_call("a"), legacy_output("a", "1"), legacy_output("a", "2")],
            ["call_0", "call_0", "a"],
            id="one-too-many",
        ),
        pytest.param([legacy_output("a", "1"), legacy_call("a")], ["a", "call_1"], id="too-early"),
    ],
)
def test_function_outputs_find_their_calls(messages: list[dict[str, Any]], expected: list[str]) -> None:
    got = [item.call_id for item in read_messages(messages) if not isinstance(item, Message)]
    assert got == expected


def test_a_long_conversation() -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    assert read_messages([HI, answer] * 250) == (HELLO, said(Role.ASSISTANT, "Hello")) * 250


def test_a_leading_assistant_gives_instructions() -> None:
    """Obsidian Copilot 3.1.x."""
    messages = [assistant(content="You are…"), HI, assistant(content="Hello")]
    instructions = said(Role.DEVELOPER, "You are…")
    assert read_messages(messages) == (instructions, HELLO, said(Role.ASSISTANT, "Hello"))


def test_an_orphan_says_something() -> None:
    assert read_messages([tool("")]) == (PastOutput("c1", ()),)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("messages", "path", "message"),
    [
        pytest.param([], "", MESSAGES, id="none"),
        pytest.param("Hi", "", MESSAGES, id="text"),
        pytest.param(HI, "", MESSAGES, id="object"),
        pytest.param([assistant(content=None)], "", "Must say something.", id="silent"),
        pytest.param([HI, "Hi"], "[1]", "Must be an object.", id="message-text"),
        pytest.param([{"content": "Hi"}], "[0].role", ROLES, id="role-missing"),
        pytest.param([HI] * 3 + [{"role": "x"}], "[3].role", ROLES, id="role-unknown"),
        pytest.param([HI | {"role": ["user"]}], "[0].role", ROLES, id="role-list"),
        pytest.param([HI, {"role": "user"}], "[1].content", CONTENT, id="no-content"),
        pytest.param([{"role": "system", "content": None}], "[0].content", CONTENT, id="system-null"),
        *(
            pytest.param([HI | {"content": content}], "[0].content", CONTENT, id=f"content-{content!r}")
            for content in (None, 5, {}, [])
        ),
        *(
            pytest.param([{"role": role, "content": content}], path, message, id=f"{role}-{id_}")
            for role, content, path, message, id_ in (
                ("user", ["Hi"], "[0].content[0].type", PARTS, "part-text"),
                ("user", [{"text": "Hi"}], "[0].content[0].type", PARTS, "part-untyped"),
                ("user", [{"type": ["text"]}], "[0].content[0].type", PARTS, "part-type-list"),
                ("user", [{"type": "video"}], "[0].content[0].type", PARTS, "part-unknown"),
                ("user", [TEXT, {"type": "input_audio"}], "[0].content[1].type", AUDIO, "audio"),
                ("user", [{"type": "file", "file": {}}], "[0].content[0].type", FILES, "file"),
                ("assistant", [{"type": "input_audio"}], "[0].content[0].type", AUDIO, "audio"),
                (
                    "assistant",
                    [PICTURE],
                    "[0].content[0].type",
                    "Must be one of: text, refusal, output_text.",
                    "image",
                ),
                ("assistant", 5, "[0].content", CONTENT, "number"),
                (
                    "assistant",
                    [{"type": "refusal"}],
                    "[0].content[0].refusal",
                    "Must be a string.",
                    "refusal",
                ),
                ("system", [PICTURE], "[0].content[0].type", "Must be one of: text, input_text.", "image"),
                ("user", [{"type": "text"}], "[0].content[0].text", "Must be a string.", "text-missing"),
                ("user", [TEXT | {"text": 5}], "[0].content[0].text", "Must be a string.", "text-number"),
            )
        ),
        *(
            pytest.param(
                [HI | {"content": [{"type": "image_url", "image_url": image}]}],
                "[0].content[0].image_url",
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
                "another-kind": {"url": "data:image/png;base64,R0lGODlh"},
                "no-picture": {"url": "data:image/png;base64,aGVsbG8="},
                "without-data": {"url": "data:image/png;base64,"},
                "empty": {},
                "null": None,
                "number": {"url": 5},
            }.items()
        ),
        pytest.param(
            [HI] * 3 + [{"role": "tool", "content": "a"}], "[3].tool_call_id", NAMING, id="tool-without-id"
        ),
        pytest.param([tool("a", tool_call_id="")], "[0].tool_call_id", NAMING, id="tool-with-an-empty-id"),
        pytest.param([tool("a", tool_call_id=5)], "[0].tool_call_id", NAMING, id="tool-with-a-number"),
        pytest.param([tool({"a": 1})], "[0].content", CONTENT, id="tool-object"),
        pytest.param(
            [tool([{"type": "image_url", "image_url": "http://x/a.png"}])],
            "[0].content[0].image_url",
            IMAGE,
            id="tool-remote-image",
        ),
        pytest.param([{"role": "function", "content": "a"}], "[0].name", NAMING, id="function-without-name"),
        pytest.param(
            [assistant(tool_calls={"id": "c"})], "[0].tool_calls", "Must be a list.", id="calls-object"
        ),
        pytest.param([HI, calling(NOW, "now")], "[1].tool_calls[1]", "Must be an object.", id="call-text"),
        pytest.param(
            [calling(NOW | {"id": 5})], "[0].tool_calls[0].id", "Must be a string.", id="call-id-number"
        ),
        pytest.param(
            [calling({"id": "c", "type": "custom", "custom": {}})],
            "[0].tool_calls[0].function",
            "Must be an object.",
            id="call-custom",
        ),
        pytest.param(
            [calling({"id": "c", "function": {"name": ""}})],
            "[0].tool_calls[0].function.name",
            NAMING,
            id="call-nameless",
        ),
        *(
            pytest.param(
                [calling_with(arguments)],
                "[0].tool_calls[0].function.arguments",
                ARGUMENTS,
                id=f"arguments-{id_}",
            )
            for id_, arguments in {
                "list": [1],
                "number": 5,
                "flag": False,
                "deeper-than-the-stack": deep(100_000),
            }.items()
        ),
        pytest.param(
            [assistant(function_call="now")],
            "[0].function_call",
            "Must be an object.",
            id="function-call-text",
        ),
        pytest.param(
            [assistant(function_call={})], "[0].function_call.name", NAMING, id="function-call-nameless"
        ),
        pytest.param(
            [assistant(function_call={"name": "a", "arguments": 5})],
            "[0].function_call.arguments",
            ARGUMENTS,
            id="function-call-arguments",
        ),
    ],
)
def test_bad_messages(messages: Any, path: str, message: str) -> None:
    with pytest.raises(ma.ValidationError) as raised:
        read_messages(messages)
    assert find_first(raised.value.messages) == (path, message)
