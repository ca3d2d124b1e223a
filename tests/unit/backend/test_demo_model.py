"""What the demo model says to a Responses request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.backend.demo_model import Call, decide, estimate_tokens


def a_tool(name: str, description: str = "", **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def a_message(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def a_result(output: Any, call_id: str = "c1") -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


WEATHER = a_tool("get_weather", "Current weather for a place", city="string")
TIME = a_tool("getTime", "The clock of a zone", zone="string")
STOCK = a_tool("lookup", "Finds the price of a company share", company="string")
HELLO = "Hello from the gateway's scripted demo model, through the real Codex binary: "
WEATHER_CLOSING = " That is what I, the scripted demo model, was told by your tool."


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([a_message("hi")], HELLO + "you said “hi”.", id="greeting"),
        pytest.param("hi", HELLO + "you said “hi”.", id="plain-string"),
        pytest.param([], HELLO + "you said nothing yet.", id="nothing-said"),
        pytest.param(
            [a_message("one"), a_message("x", "assistant"), a_message("two")],
            HELLO + "you said “two”. I remember 1 earlier turn, which was “one”.",
            id="one-earlier-turn",
        ),
        pytest.param(
            [a_message("one"), a_message("two"), a_message("three")],
            HELLO + "you said “three”. I remember 2 earlier turns, the first of which was “one”.",
            id="two-earlier-turns",
        ),
        pytest.param(
            [a_message("be brief", "developer"), a_message("hi")],
            HELLO + "you said “hi”. I was also given instructions: “be brief”.",
            id="instructions",
        ),
        pytest.param([a_message("say exactly: a  b\n")], "a  b\n", id="say-exactly"),
        pytest.param([a_message("Please repeat after me: yes")], "yes", id="repeat-after-me"),
        pytest.param(
            [a_message("q"), *a_result("sunny")],
            "get_weather answered: “sunny”." + WEATHER_CLOSING,
            id="tool-result",
        ),
        pytest.param(
            [a_message("q"), *a_result([{"type": "input_text", "text": "sunny"}])],
            "get_weather answered: “sunny”." + WEATHER_CLOSING,
            id="tool-result-in-parts",
        ),
        pytest.param(
            [a_message("q"), *a_result("w" * 500)],
            f"get_weather answered: “{'w' * 399}…”." + WEATHER_CLOSING,
            id="tool-result-cut",
        ),
        pytest.param(
            [a_message("q"), a_result("lost", "c9")[1]],
            "The tool answered: “lost”." + WEATHER_CLOSING,
            id="tool-result-of-an-unknown-call",
        ),
        pytest.param(
            [a_message("one"), *a_result("sunny"), a_message("two")],
            HELLO + "you said “two”. I remember 1 earlier turn, which was “one”.",
            id="results-of-an-earlier-turn",
        ),
    ],
)
def test_text(items: Any, expected: str) -> None:
    reply = decide({"input": items, "tools": []})
    assert (reply.text, reply.calls, reply.thought) == (expected, (), "")


def test_long_words_of_the_person_are_cut() -> None:
    body = {"input": [a_message("a" * 999), a_message("b" * 999)], "instructions": "c" * 999}
    assert len(decide(body).text) < 600


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("call get_weather for Paris", ["get_weather"], id="by-name"),
        pytest.param("GET-WEATHER please", ["get_weather"], id="other-spelling"),
        pytest.param("get weather now", ["get_weather"], id="as-words"),
        pytest.param("getweather", ["get_weather"], id="as-one-word"),
        pytest.param("use getTime", ["getTime"], id="camel-case"),
        pytest.param("use gettime", ["getTime"], id="camel-case-in-lower-case"),
        pytest.param("use get_weather and then get time", ["get_weather", "getTime"], id="two-named"),
        pytest.param("What is the weather in Oslo?", ["get_weather"], id="fits-by-name-word"),
        pytest.param("what price has this company?", ["lookup"], id="fits-by-description"),
        pytest.param("what are the prices of companies' shares?", ["lookup"], id="fits-in-the-plural"),
        pytest.param("which company?", [], id="one-word-is-not-enough"),
        pytest.param("hello, how are you?", [], id="small-talk"),
        pytest.param("say exactly: get_weather", [], id="say-exactly-calls-nothing"),
    ],
)
def test_choice_of_tools(text: str, names: list[str]) -> None:
    reply = decide({"input": [a_message(text)], "tools": [WEATHER, TIME, STOCK]})
    assert [call.name for call in reply.calls] == names
    assert bool(reply.text) is not bool(names)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        pytest.param("none", [], id="none"),
        pytest.param("auto", ["get_weather"], id="auto"),
        pytest.param({"type": "function", "name": "lookup"}, ["lookup"], id="named"),
        pytest.param({"type": "function", "name": "unknown"}, ["get_weather"], id="named-unknown"),
    ],
)
def test_tool_choice(choice: Any, names: list[str]) -> None:
    body = {"input": "the weather?", "tools": [WEATHER, STOCK], "tool_choice": choice}
    assert [call.name for call in decide(body).calls] == names


def test_required_choice_calls_something() -> None:
    body = {"input": "hello", "tools": [WEATHER, STOCK], "tool_choice": "required"}
    assert len(decide(body).calls) == 1


def test_longer_name_is_not_mistaken_for_its_beginning() -> None:
    tools = [WEATHER, a_tool("get_weather_history"), a_tool("get")]
    reply = decide({"input": "call get_weather_history", "tools": tools})
    assert reply.calls == (Call("get_weather_history", "{}"),)


def test_arguments_come_from_the_question_without_the_tools_names() -> None:
    reply = decide({"input": "I want you to call get_weather for Paris", "tools": [WEATHER]})
    assert reply.calls == (Call("get_weather", '{"city": "Paris"}'),)


def test_results_are_put_into_words_instead_of_calling_again() -> None:
    body = {"input": [a_message("call get_weather"), *a_result("sunny")], "tools": [WEATHER]}
    assert decide(body).calls == ()


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
JSON_ANSWER = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": SCHEMA}}


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([a_message("the weather in Paris")], id="a-fitting-tool-gives-way"),
        pytest.param([a_message("call get_weather for Paris"), *a_result("rain")], id="after-a-result"),
    ],
)
def test_json_schema_is_answered_with_json_only(items: Any) -> None:
    reply = decide({"input": items, "tools": [WEATHER], "text": JSON_ANSWER})
    assert (json.loads(reply.text), reply.calls) == ({"city": "Paris"}, ())


def test_named_tool_is_called_before_json_is_due() -> None:
    reply = decide({"input": "call get_weather for Paris", "tools": [WEATHER], "text": JSON_ANSWER})
    assert [call.name for call in reply.calls] == ["get_weather"]


@pytest.mark.parametrize(
    ("body", "thought"),
    [
        pytest.param({"input": "hi"}, "", id="not-asked"),
        pytest.param({"input": "hi", "reasoning": {"effort": None}}, "", id="null-effort"),
        pytest.param({"input": "hi", "reasoning": {"effort": "minimal"}}, "", id="minimal"),
        pytest.param({"input": "hi", "reasoning": {"effort": "none"}}, "", id="none"),
        pytest.param(
            {"input": "hi", "reasoning": {"effort": "low"}},
            "The question is “hi”. I will answer in words.",
            id="low",
        ),
        pytest.param({"input": "Why?"}, "The question is “Why?”. I will answer in words.", id="why"),
        pytest.param(
            {"input": "go step by step"},
            "The question is “go step by step”. I will answer in words.",
            id="step-by-step",
        ),
        pytest.param(
            {"input": "think, get_weather", "tools": [WEATHER]},
            "The question is “think, get_weather”. I will call get_weather.",
            id="before-a-call",
        ),
        pytest.param(
            {"input": [a_message("think"), *a_result("sunny")]},
            "The question is “think”. I will put what the tool answered into words.",
            id="after-a-result",
        ),
    ],
)
def test_thought(body: dict[str, Any], thought: str) -> None:
    assert decide(body).thought == thought


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("a", 1, id="rounded-up"),
        pytest.param("abcd", 1, id="four-bytes"),
        pytest.param("äöü", 2, id="bytes-not-characters"),
    ],
)
def test_estimate_of_tokens(text: str, tokens: int) -> None:
    assert (estimate_tokens(text), decide({"input": text}).input_tokens) == (tokens, tokens)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "name", "output", "format", "schema", "call_id"]
            ),
            inner | st.sampled_from(["user", "function", "function_call_output", "json_schema", "x"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)
BODY_KEYS = ["input", "tools", "reasoning", "text", "tool_choice", "instructions"]


# Neither a loaded machine nor hypothesis's first character table is a finding.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.dictionaries(st.sampled_from(BODY_KEYS), JSON_VALUES))
def test_any_body_gets_a_reply(body: dict[str, Any]) -> None:
    reply = decide(body)
    assert reply.text or reply.calls
