"""Requests as codex items."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.forced_call import build_forced
from app.lib.prompt import (
    OBJECT_RULE,
    SCHEMA_RULE,
    JsonMeans,
    Prompt,
    build_prompt,
    choose_means,
    mentions,
)
from app.lib.request import (
    HistoryItem,
    ImagePart,
    JsonFormat,
    Message,
    PastCall,
    PastOutput,
    Role,
    TextPart,
    ToolTransport,
    TurnRequest,
)
from app.lib.tool_manifest import FORBIDDEN, build_manifest
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec

PIXEL = "data:image/png;base64,AAAA"
NATIVE, SENTINEL = ToolTransport.NATIVE, ToolTransport.SENTINEL


def says(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))


def item(role: str, *parts: dict[str, str]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(parts)}


def text_in(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def text_out(text: str) -> dict[str, str]:
    return {"type": "output_text", "text": text}


def told(text: str) -> dict[str, Any]:
    return item("developer", text_in(text))


def called(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "now", "arguments": '{"x": 1}'}


def gave(call_id: str, output: str | list[dict[str, str]]) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


PICTURE = {"type": "input_image", "image_url": PIXEL}
HI, HELLO = says(Role.USER, "Hi"), says(Role.ASSISTANT, "Hello")
HI_ITEM, HELLO_ITEM = item("user", text_in("Hi")), item("assistant", text_out("Hello"))
CALL = PastCall("a", "now", '{"x": 1}')


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param(
            (says(Role.DEVELOPER, "Be brief."), HI, HELLO, says(Role.USER, "Bye")),
            (told("Be brief."), HI_ITEM, HELLO_ITEM, item("user", text_in("Bye"))),
            id="every-role",
        ),
        pytest.param(
            (Message(Role.USER, (TextPart("What is "), ImagePart(PIXEL), TextPart("?"))),),
            (item("user", text_in("What is "), PICTURE, text_in("?")),),
            id="parts-in-order",
        ),
        pytest.param((HI, Message(Role.ASSISTANT, ())), (HI_ITEM,), id="an-assistant-without-content"),
        pytest.param(
            (HI, HELLO, CALL, PastOutput("a", (TextPart("12:00"),))),
            (HI_ITEM, HELLO_ITEM, called("a"), gave("a", "12:00")),
            id="a-call-and-its-output",
        ),
        pytest.param((CALL, PastOutput("a", ())), (called("a"), gave("a", "")), id="an-empty-output"),
        pytest.param(
            (CALL, PastOutput("a", (TextPart("1"), TextPart("2")))),
            (called("a"), gave("a", [text_in("1"), text_in("2")])),
            id="an-output-of-texts",
        ),
        pytest.param(
            (CALL, PastOutput("a", (TextPart("1"), ImagePart(PIXEL)))),
            (called("a"), gave("a", [text_in("1"), PICTURE])),
            id="an-output-with-a-picture",
        ),
        pytest.param(
            (CALL, CALL, PastOutput("a", ()), PastOutput("b", (TextPart("1"),))),
            (
                called("a"),
                called("call_1"),
                gave("a", ""),
                item("user", text_in("[function_call_output call_id=b output=1]")),
            ),
            id="settled",
        ),
    ],
)
def test_items(history: tuple[HistoryItem, ...], expected: tuple[dict[str, object], ...]) -> None:
    request = TurnRequest("m", history)
    assert build_prompt(request) == Prompt(request, expected)


def test_calls_as_text() -> None:
    request = TurnRequest("m", (HI, HELLO, CALL, PastOutput("a", (TextPart("1"), ImagePart(PIXEL)))))
    expected = (
        HI_ITEM,
        HELLO_ITEM,
        item("assistant", text_out('[function_call id=a call_id=a name=now arguments={"x": 1}]')),
        item("user", text_in("[function_call_output call_id=a output=1]"), PICTURE),
    )
    assert build_prompt(request, SENTINEL) == Prompt(request, expected)


NOW, LATER = ToolSpec("now"), ToolSpec("later", strict=True)
AUTO = ToolRegistry((NOW, LATER))
NONE = ToolRegistry((NOW, LATER), ToolChoice(ChoiceMode.NONE))
ALLOWED = ToolRegistry((NOW, LATER), ToolChoice(allowed=frozenset(("later",))))
NAMED = ToolRegistry((NOW, LATER), ToolChoice(ChoiceMode.NAMED, "later"))
REQUIRED = ToolRegistry((NOW, LATER), ToolChoice(ChoiceMode.REQUIRED))


def ask(**keys: Any) -> TurnRequest:
    return TurnRequest("m", (says(Role.DEVELOPER, "Be brief."), HI), **keys)


ASKED = (told("Be brief."), HI_ITEM)


@pytest.mark.parametrize(
    ("registry", "offered"),
    [
        pytest.param(AUTO, (NOW, LATER), id="auto"),
        pytest.param(NONE, (), id="none"),
        pytest.param(ALLOWED, (LATER,), id="allowed"),
    ],
)
def test_tools_as_functions(registry: ToolRegistry, offered: tuple[ToolSpec, ...]) -> None:
    request = ask(tools=registry)
    assert build_prompt(request, NATIVE) == Prompt(request, ASKED, offered)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    "registry",
    [pytest.param(AUTO, id="auto"), pytest.param(ALLOWED, id="allowed")],
)
def test_tools_as_text(registry: ToolRegistry, parallel: bool) -> None:
    request = ask(tools=registry, parallel=parallel)
    manifest = told(build_manifest(registry, parallel))
    assert build_prompt(request, SENTINEL) == Prompt(request, (manifest, *ASKED))


def test_no_tools_as_text() -> None:
    request = ask(tools=NONE)
    assert build_prompt(request, SENTINEL) == Prompt(request, (told(FORBIDDEN), *ASKED))


@pytest.mark.parametrize("transport", ToolTransport)
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("registry", [pytest.param(NAMED, id="named"), pytest.param(REQUIRED, id="required")])
@pytest.mark.parametrize("wanted", [None, JsonFormat()])
def test_a_call_that_is_demanded(
    registry: ToolRegistry, parallel: bool, transport: ToolTransport, wanted: JsonFormat | None
) -> None:
    request = ask(tools=registry, parallel=parallel, json_format=wanted)
    forced = build_forced(registry, parallel)
    assert forced is not None
    expected = Prompt(request, (*ASKED, told(forced.instruction)), (), forced.output_schema, is_amended=True)
    assert build_prompt(request, transport) == expected


STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {key: value for key, value in STRICT.items() if key != "additionalProperties"}
LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}}
DEEP: dict[str, Any] = {}
for _ in range(100_000):
    DEEP = {"not": DEEP}
LOOSE_TOLD = f'{SCHEMA_RULE}\n\n{{"type":"object","properties":{{"a":{{"type":"string"}}}}}}'


@pytest.mark.parametrize(
    ("wanted", "rule", "means"),
    [
        pytest.param(JsonFormat(STRICT, True), None, JsonMeans.ENFORCED, id="strict"),
        pytest.param(JsonFormat(LOOSE, True), None, JsonMeans.ENFORCED, id="strict-by-the-clients-word"),
        pytest.param(JsonFormat(STRICT), None, JsonMeans.ENFORCED, id="strict-as-it-is"),
        pytest.param(JsonFormat(OPEN), None, JsonMeans.ENFORCED, id="only-not-closed"),
        pytest.param(JsonFormat(LOOSE), LOOSE_TOLD, JsonMeans.INSTRUCTED, id="loose"),
        pytest.param(JsonFormat(), OBJECT_RULE, JsonMeans.INSTRUCTED, id="any-object"),
        pytest.param(JsonFormat(strict=True), OBJECT_RULE, JsonMeans.INSTRUCTED, id="strict-about-nothing"),
        pytest.param(JsonFormat(DEEP), OBJECT_RULE, JsonMeans.INSTRUCTED, id="nothing-that-can-be-told"),
    ],
)
@pytest.mark.parametrize(
    "tools", [pytest.param(ToolRegistry(), id="no-tools"), pytest.param(AUTO, id="tools")]
)
def test_answers_in_json(wanted: JsonFormat, rule: str | None, means: JsonMeans, tools: ToolRegistry) -> None:
    request = ask(json_format=wanted, tools=tools)
    rules = () if rule is None else (told(rule),)
    schema = (wanted.schema if wanted.strict else STRICT) if means is JsonMeans.ENFORCED else None
    prompt = build_prompt(request)
    assert choose_means(request, NATIVE) == means
    assert (prompt.items, prompt.tools) == ((*ASKED, *rules), tools.callable)
    assert (prompt.output_schema, prompt.is_amended) == (schema, bool(rules))


@pytest.mark.parametrize(
    ("tools", "transport", "means"),
    [
        pytest.param(AUTO, NATIVE, JsonMeans.ENFORCED, id="functions"),
        pytest.param(AUTO, SENTINEL, JsonMeans.INSTRUCTED, id="calls-as-text"),
        pytest.param(NONE, SENTINEL, JsonMeans.ENFORCED, id="no-calls"),
        pytest.param(ToolRegistry(), SENTINEL, JsonMeans.ENFORCED, id="no-tools"),
        pytest.param(REQUIRED, NATIVE, JsonMeans.NEEDLESS, id="required"),
        pytest.param(NAMED, SENTINEL, JsonMeans.NEEDLESS, id="named"),
    ],
)
def test_choose_means(tools: ToolRegistry, transport: ToolTransport, means: JsonMeans) -> None:
    assert choose_means(ask(json_format=JsonFormat(STRICT, True), tools=tools), transport) == means


def test_a_format_leaves_room_for_calls_as_text() -> None:
    request = ask(json_format=JsonFormat(LOOSE, True), tools=AUTO)
    expected = Prompt(request, (told(build_manifest(AUTO)), *ASKED, told(LOOSE_TOLD)), is_amended=True)
    assert build_prompt(request, SENTINEL) == expected


@pytest.mark.parametrize("transport", ToolTransport)
def test_plain_answers_need_no_means(transport: ToolTransport) -> None:
    assert choose_means(ask(tools=REQUIRED), transport) is None


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param((says(Role.DEVELOPER, "Write <use_tool>."), HI), True, id="instructions"),
        pytest.param((Message(Role.DEVELOPER, (TextPart("a"), TextPart("<use_tool"))),), True, id="any-part"),
        pytest.param((Message(Role.DEVELOPER, (ImagePart(PIXEL),)), HI), False, id="a-picture"),
        pytest.param((says(Role.USER, "<use_tool>"),), False, id="the-user"),
        pytest.param((HI, says(Role.ASSISTANT, "<use_tool>")), False, id="the-model"),
        pytest.param(
            (HI, PastCall("a", "<use_tool", ""), PastOutput("a", (TextPart("<use_tool"),))),
            False,
            id="a-call",
        ),
    ],
)
@pytest.mark.parametrize("transport", ToolTransport)
def test_mentions(history: tuple[HistoryItem, ...], expected: bool, transport: ToolTransport) -> None:
    """Only the client's words count; the manifest of every row here speaks of `<tool_call>`."""
    prompt = build_prompt(TurnRequest("m", history, tools=AUTO), transport)
    assert mentions(prompt, ("<use_tool", "<tool_call")) is expected
