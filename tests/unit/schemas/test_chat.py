"""Chat bodies, good and bad."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.errors import InvalidRequest
from app.lib.models import EFFORTS
from app.lib.request import JsonFormat, Message, Role, TextPart, ToolTransport, TurnRequest
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.schemas.chat import IGNORED, STOP_RULE, STOPS_RULE, ChatRequest, ChatRules, ChatSchema
from app.schemas.loading import find_first, load_body
from app.schemas.tools import CALL_RULE, CHOICE_RULE, DEPTH_RULE

SCHEMA = ChatSchema(ChatRules())
HI = {"role": "user", "content": "Hi"}
BODY = {"model": "gpt-5.5", "messages": [HI]}
NOW = {"type": "function", "function": {"name": "now"}}
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}

BOUNDS = "Must be greater than or equal to 1 and less than or equal to 5."
LEAST = "Must be greater than or equal to 1."
LENGTH = "Length must be between 1 and 256."
NO_AUDIO = "Audio is not served here."


def load(**changes: Any) -> ChatRequest:
    request: ChatRequest = load_body(SCHEMA, BODY | changes)
    return request


def json_schema(**nested: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", **nested}}


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"properties": schema}
    return schema


@pytest.mark.parametrize(
    ("changes", "param", "message"),
    [
        pytest.param({"model": None}, "model", "Field may not be null.", id="model-null"),
        pytest.param({"model": ""}, "model", LENGTH, id="model-empty"),
        pytest.param({"model": "x" * 257}, "model", LENGTH, id="model-long"),
        pytest.param({"model": 5}, "model", "Not a valid string.", id="model-number"),
        pytest.param({"messages": None}, "messages", "Field may not be null.", id="messages-null"),
        pytest.param({"messages": [HI, "Hi"]}, "messages[1]", "Must be an object.", id="message-text"),
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
        pytest.param(
            {"reasoning": {"summary": "long"}},
            "reasoning.summary",
            "Must be one of: auto, concise, detailed, none.",
            id="summary-unknown",
        ),
        pytest.param({"tools": NOW}, "tools", "Must be a list.", id="tools-object"),
        pytest.param({"functions": ["now"]}, "functions[0]", "Must be an object.", id="functions-text"),
        pytest.param({"tools": [NOW], "tool_choice": "any"}, "tool_choice", CHOICE_RULE, id="choice-unknown"),
        pytest.param(
            {"tool_choice": "required"}, "tool_choice", "No tools are declared.", id="nothing-to-call"
        ),
        pytest.param(
            {"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
            "`x` is not among the declared tools.",
            id="choice-undeclared",
        ),
        pytest.param({"function_call": "required"}, "function_call", CALL_RULE, id="function-call-unknown"),
        pytest.param(
            {"functions": [{"name": "now"}], "function_call": {"name": "x"}},
            "function_call",
            "`x` is not among the declared tools.",
            id="function-call-undeclared",
        ),
        pytest.param(
            {"parallel_tool_calls": "no"}, "parallel_tool_calls", "Not a valid boolean.", id="parallel-text"
        ),
        pytest.param({"response_format": "json"}, "response_format", "Must be an object.", id="format-text"),
        pytest.param({"stop": ""}, "stop", STOP_RULE, id="stop-empty"),
        pytest.param({"stop": "x" * 1001}, "stop", STOP_RULE, id="stop-long"),
        pytest.param({"stop": ["a", ""]}, "stop[1]", STOP_RULE, id="stop-empty-among-others"),
        pytest.param({"stop": [5]}, "stop[0]", STOP_RULE, id="stop-number"),
        pytest.param({"stop": ["a"] * 5}, "stop", STOPS_RULE, id="stops-many"),
        pytest.param({"stop": {"a": "b"}}, "stop", STOPS_RULE, id="stop-object"),
        *(
            pytest.param({name: value}, name, message, id=f"{name}-{value}")
            for name in ("max_tokens", "max_completion_tokens")
            for value, message in (
                (0, LEAST),
                (-1, LEAST),
                (1.5, "Not a valid integer."),
                ("9", "Not a valid integer."),
                (True, "Not a valid integer."),
            )
        ),
        pytest.param({"modalities": ["text", "audio"]}, "modalities", NO_AUDIO, id="audio-wanted"),
        pytest.param({"modalities": "text"}, "modalities", "Must be a list.", id="modalities-text"),
        pytest.param({"audio": {"voice": "x"}}, "audio", NO_AUDIO, id="audio"),
        pytest.param(
            {"tools": [NOW, {"type": "function", "name": "a", "parameters": nest(101)}]},
            "tools[1].parameters",
            DEPTH_RULE,
            id="tool-deep",
        ),
        pytest.param(
            {"response_format": json_schema(schema=nest(5000))},
            "response_format.json_schema.schema",
            DEPTH_RULE,
            id="format-deep",
        ),
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
REGISTRY = ToolRegistry((ToolSpec("now"),))


def plain_with(**changes: Any) -> ChatRequest:
    beside = {
        "stream": False,
        "include_usage": False,
        "declares_tools": False,
        "legacy": False,
        "ignored": (),
    }
    rest = {key: changes.pop(key, value) for key, value in beside.items()}
    return ChatRequest(TurnRequest(**{"model": "gpt-5.5", "history": HELLO, **changes}), **rest)


PLAIN = plain_with()
EFFECTIVE = (
    "audio",
    "function_call",
    "functions",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "modalities",
    "n",
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "response_format",
    "stop",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, PLAIN, id="plain"),
        pytest.param({"some_future_key": {"a": 1}, "x": None}, PLAIN, id="unknown-keys"),
        pytest.param(dict.fromkeys((*EFFECTIVE, *IGNORED)), PLAIN, id="null-is-unset"),
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
        *(
            pytest.param(
                {"reasoning": {"summary": summary}}, plain_with(summary=meant), id=f"summary-{summary}"
            )
            for summary, meant in (
                ("auto", "auto"),
                ("concise", "concise"),
                ("detailed", "detailed"),
                ("none", "none"),
                (None, "auto"),
            )
        ),
        *(
            pytest.param({name: 0}, plain_with(ignored=(name,)), id=f"ignored-{name}")
            for name in sorted(IGNORED)
        ),
        pytest.param(
            {"user": "me", "temperature": 0.5, "max_tokens": 9, "seed": False},
            plain_with(max_tokens=9, ignored=("max_tokens=estimated", "seed", "temperature", "user")),
            id="ignored-in-one-order",
        ),
        pytest.param({"stop": "a"}, plain_with(stop=("a",)), id="one-stop"),
        pytest.param({"stop": ["a", "b"] * 2}, plain_with(stop=("a", "b", "a", "b")), id="most-stops"),
        pytest.param({"stop": "x" * 1000}, plain_with(stop=("x" * 1000,)), id="longest-stop"),
        pytest.param({"stop": []}, PLAIN, id="no-stops"),
        *(
            pytest.param({name: 1}, plain_with(max_tokens=1, ignored=(f"{name}=estimated",)), id=name)
            for name in ("max_tokens", "max_completion_tokens")
        ),
        pytest.param(
            {"max_tokens": 9, "max_completion_tokens": 7},
            plain_with(max_tokens=7, ignored=("max_completion_tokens=estimated", "max_tokens")),
            id="the-newer-limit-wins",
        ),
        pytest.param({"modalities": ["text"]}, PLAIN, id="text-wanted"),
        pytest.param(
            {"modalities": ["text", "image"]}, plain_with(ignored=("modalities",)), id="pictures-wanted"
        ),
        pytest.param({"response_format": {"type": "text"}}, PLAIN, id="format-text"),
        pytest.param(
            {"response_format": {"type": "json_object"}},
            plain_with(json_format=JsonFormat(), ignored=("response_format=instructed",)),
            id="format-object",
        ),
        pytest.param(
            {"response_format": json_schema(schema=STRICT, strict=True)},
            plain_with(json_format=JsonFormat(STRICT, True)),
            id="format-strict",
        ),
        pytest.param(
            {"response_format": json_schema(schema=STRICT)},
            plain_with(json_format=JsonFormat(STRICT)),
            id="format-strict-unsaid",
        ),
        pytest.param(
            {"response_format": json_schema(schema={"type": "object"})},
            plain_with(json_format=JsonFormat({"type": "object"}), ignored=("response_format=instructed",)),
            id="format-loose",
        ),
        pytest.param(
            {"response_format": {"type": "json_object"}, "tools": [NOW], "tool_choice": "required"},
            plain_with(
                json_format=JsonFormat(),
                tools=ToolRegistry((ToolSpec("now"),), ToolChoice(ChoiceMode.REQUIRED)),
                declares_tools=True,
                ignored=("response_format",),
            ),
            id="format-of-an-answer-that-must-be-a-call",
        ),
    ],
)
def test_good_bodies(changes: dict[str, Any], expected: ChatRequest) -> None:
    assert load(**changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"tools": [NOW]}, plain_with(tools=REGISTRY, declares_tools=True), id="tools"),
        pytest.param({"tools": []}, PLAIN, id="no-tools"),
        pytest.param({"tools": [], "tool_choice": "auto"}, PLAIN, id="auto"),
        pytest.param(
            {"tool_choice": "none"},
            plain_with(tools=ToolRegistry((), ToolChoice(ChoiceMode.NONE))),
            id="none-of-none",
        ),
        pytest.param(
            {"functions": [{"name": "now"}]},
            plain_with(tools=REGISTRY, declares_tools=True, legacy=True, parallel=False),
            id="functions",
        ),
        pytest.param({"functions": []}, PLAIN, id="no-functions"),
        pytest.param(
            {"functions": [{"name": "now"}], "tools": []},
            plain_with(tools=REGISTRY, declares_tools=True, legacy=True, parallel=False),
            id="functions-beside-no-tools",
        ),
        pytest.param(
            {"functions": [{"name": "now"}], "function_call": {"name": "now"}},
            plain_with(
                tools=ToolRegistry((ToolSpec("now"),), ToolChoice(ChoiceMode.NAMED, "now")),
                declares_tools=True,
                legacy=True,
                parallel=False,
            ),
            id="function-call",
        ),
        pytest.param(
            {"functions": [{"name": "now", "description": "Later."}, {"name": "a"}], "tools": [NOW]},
            plain_with(tools=ToolRegistry((ToolSpec("now"), ToolSpec("a"))), declares_tools=True),
            id="tools-count-before-functions",
        ),
        pytest.param(
            {"tools": [NOW], "tool_choice": "none", "function_call": "auto"},
            plain_with(
                tools=ToolRegistry((ToolSpec("now"),), ToolChoice(ChoiceMode.NONE)), declares_tools=True
            ),
            id="tool-choice-counts-before-function-call",
        ),
        pytest.param(
            {"tools": [NOW], "tool_choice": "required", "max_tokens": 9, "stop": "x"},
            plain_with(
                tools=ToolRegistry([ToolSpec("now")], ToolChoice(ChoiceMode.REQUIRED)),
                declares_tools=True,
                max_tokens=9,
                stop=("x",),
                ignored=("max_tokens", "stop"),
            ),
            id="a-demanded-call-has-no-limits",
        ),
        pytest.param({"parallel_tool_calls": True}, PLAIN, id="parallel"),
        pytest.param({"parallel_tool_calls": False}, plain_with(parallel=False), id="not-parallel"),
        pytest.param(
            {"functions": [{"name": "now"}], "parallel_tool_calls": True},
            plain_with(
                tools=REGISTRY,
                declares_tools=True,
                legacy=True,
                parallel=False,
                ignored=("parallel_tool_calls",),
            ),
            id="functions-are-never-parallel",
        ),
    ],
)
def test_tools(changes: dict[str, Any], expected: ChatRequest) -> None:
    assert load(**changes) == expected


@pytest.mark.parametrize(
    ("rules", "changes", "expected"),
    [
        pytest.param(ChatRules(max_choices=9), {"n": 9}, plain_with(choices=9), id="choices"),
        pytest.param(
            ChatRules(enforces_max_tokens=False),
            {"max_tokens": 9, "max_completion_tokens": 9},
            plain_with(ignored=("max_completion_tokens", "max_tokens")),
            id="no-limit",
        ),
        pytest.param(ChatRules(parallel=False), {}, plain_with(parallel=False), id="never-parallel"),
        pytest.param(
            ChatRules(parallel=True),
            {"parallel_tool_calls": False},
            plain_with(ignored=("parallel_tool_calls",)),
            id="always-parallel",
        ),
        pytest.param(
            ChatRules(parallel=True),
            {"functions": [{"name": "now"}]},
            plain_with(tools=REGISTRY, declares_tools=True, legacy=True, parallel=False),
            id="but-for-functions",
        ),
        pytest.param(
            ChatRules(transport=ToolTransport.SENTINEL),
            {"tools": [NOW], "response_format": json_schema(schema=STRICT, strict=True)},
            plain_with(
                tools=REGISTRY,
                declares_tools=True,
                json_format=JsonFormat(STRICT, True),
                ignored=("response_format=instructed",),
            ),
            id="a-format-beside-calls-as-text",
        ),
    ],
)
def test_the_operators_rules(rules: ChatRules, changes: dict[str, Any], expected: ChatRequest) -> None:
    assert load_body(ChatSchema(rules), BODY | changes) == expected


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
