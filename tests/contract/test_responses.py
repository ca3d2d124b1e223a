"""POST /v1/responses: requests understood, answers as their stream tells them."""

from __future__ import annotations

from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from openai.types.responses import Response

from app.lib.errors import BackendUnavailable
from app.lib.events import SearchAction, SearchDone, SearchKind
from app.settings import Settings
from tests.contract.conftest import Ask, read_counters, strip, to_answer
from tests.contract.test_parity import SCRIPTS
from tests.support.scripted_backend import ScriptedBackend, call, end, say
from tests.support.sse import read_events

TOOLS = [{"type": "function", "name": name} for name in "fg"]
STRICT = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}]
NAMED = {"type": "function", "name": "f"}
#: How chat's requests are spelled here; what has no counterpart is left out.
SPELLINGS: dict[str, Any] = {"max_tokens": "max_output_tokens"}
UNSHARED = ("n", "stop")


def translate(asked: dict[str, Any]) -> dict[str, Any]:
    """A chat request's wishes in the words of Responses."""
    request: dict[str, Any] = {"tools": TOOLS}
    for name, value in asked.items():
        if name == "tools":
            request["tools"] = STRICT
        elif name == "tool_choice":
            request[name] = NAMED if isinstance(value, dict) else value
        else:
            request[SPELLINGS.get(name, name)] = value
    return request


@pytest.mark.parametrize(
    "gateway_settings",
    [
        pytest.param(Settings(), id="first"),
        pytest.param(Settings(stop_after_tools=False, suppress_tail=False), id="flowing-on"),
    ],
)
@pytest.mark.parametrize(
    "script", [name for name, (asked, _) in SCRIPTS.items() if not set(asked) & set(UNSHARED)]
)
def test_parity(ask: Ask, backend: ScriptedBackend, script: str) -> None:
    """The stream's items, put together from its deltas, are the body; for the turns chat is held to."""
    asked, backend.script = SCRIPTS[script]
    body = ask(**translate(asked)).get_json()
    events = read_events(ask(**translate(asked), stream=True).data)
    assert to_answer(events[-1]["response"]) == to_answer(body)
    assert [strip(item) for item in fold(events)] == [strip(item) for item in body["output"]]


def fold(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output as a client adds it up that looks at nothing but deltas and items done."""
    texts: dict[int, str] = {}
    done: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["type"].endswith((".output_text.delta", "_arguments.delta", "summary_text.delta")):
            texts[event["output_index"]] = texts.get(event["output_index"], "") + event["delta"]
        elif event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
    for index, item in done.items():
        parts = item.get("content", item.get("summary"))
        text = item["arguments"] if parts is None else "".join(part["text"] for part in parts)
        assert texts.get(index, "") == text
    return [done[index] for index in sorted(done)]


def test_the_whole_response(ask: Ask, backend: ScriptedBackend) -> None:
    """Every key that clients know, with what the request said."""
    backend.script = [say("Hello"), end()]
    nested = {"type": "function", "function": {"name": "g", "strict": False, "description": "Gs."}}
    body = ask(
        instructions="Be kind.",
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None}, nested],
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [NAMED]},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        reasoning={"effort": "low", "summary": "auto"},
        metadata={"a": "b"},
        temperature=0.2,
        max_output_tokens=100,
        parallel_tool_calls=False,
        unheard_of=1,
    ).get_json()
    spoken = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    item = body["output"][0]
    assert body == {
        "id": body["id"],
        "object": "response",
        "created_at": body["created_at"],
        "completed_at": body["completed_at"],
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.5",
        "output": [
            {
                "id": item["id"],
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [spoken],
            }
        ],
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 140,
        },
        "previous_response_id": None,
        "instructions": "Be kind.",
        "temperature": 0.2,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "truncation": "disabled",
        "max_output_tokens": 100,
        "max_tool_calls": None,
        "store": True,
        "background": False,
        "service_tier": "default",
        "metadata": {"a": "b"},
        "safety_identifier": None,
        "prompt_cache_key": None,
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": None,
                "parameters": {"type": "object"},
                "strict": None,
            },
            {"type": "function", "name": "g", "description": "Gs.", "parameters": None, "strict": False},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "format": {
                "type": "json_schema",
                "name": "n",
                "schema": {"type": "object"},
                "strict": None,
            }
        },
    }
    assert item["id"].startswith("msg_")
    assert body["id"].startswith("resp_")
    assert body["completed_at"] >= body["created_at"]


@pytest.mark.parametrize(
    ("changes", "param", "message"),
    [
        pytest.param({"input": None}, "input", "Missing data for required field.", id="no-input"),
        pytest.param(
            {"input": [{"type": "function_call_output", "output": "x"}]},
            "input[0].call_id",
            "Must be a non-empty string.",
            id="an-output-of-no-call",
        ),
        pytest.param(
            {"tools": [{"type": "file_search"}]},
            "tools[0].type",
            "Must be function; tools of type `file_search` are not served here.",
            id="a-hosted-tool",
        ),
        pytest.param(
            {"tools": [{"type": "web_search_preview"}]},
            "tools",
            "Codex's own web search is off here; the operator turns it on with PROXY_ALLOW_WEB_SEARCH=true.",
            id="web-search",
        ),
        pytest.param(
            {"background": True, "store": False},
            "background",
            "A background response has to be stored: leave `store` out.",
            id="background-unstored",
        ),
        pytest.param(
            {"include": ["message.output_text.logprobs"]},
            "include[0]",
            "Codex gives no log probabilities.",
            id="logprobs",
        ),
        pytest.param({"include": [1]}, "include[0]", "Must be a string.", id="include"),
        pytest.param(
            {"top_logprobs": 2}, "top_logprobs", "Codex gives no log probabilities.", id="top-logprobs"
        ),
        pytest.param(
            {"metadata": {"a": 1}}, "metadata", "Must be at most 16 pairs of strings.", id="metadata"
        ),
        pytest.param(
            {"conversation": "c"}, "conversation", "Conversations are not served here.", id="conversation"
        ),
        pytest.param(
            {"text": {"format": {"type": "grammar"}}},
            "text.format.type",
            "Must be one of: text, json_object, json_schema.",
            id="format",
        ),
        pytest.param(
            {"input": [{"type": "item_reference", "id": "x" * 257}]},
            "input[0].id",
            "Must not be longer than 256 characters.",
            id="a-long-id",
        ),
        pytest.param(
            {"input": [{"role": "assistant", "content": ""}]},
            "input",
            "Must say something.",
            id="nothing-said",
        ),
        pytest.param(
            {"input": [{"type": "reasoning", "summary": []}]},
            "input",
            "Must say something.",
            id="nothing-told",
        ),
        pytest.param(
            {"tool_choice": "required"}, "tool_choice", "No tools are declared.", id="nothing-to-require"
        ),
    ],
)
def test_bad_requests(ask: Ask, changes: dict[str, Any], param: str, message: str) -> None:
    response = ask(**changes)
    assert (response.status_code, response.get_json()) == (
        400,
        {
            "error": {
                "message": f"{param}: {message}",
                "type": "invalid_request_error",
                "param": param,
                "code": None,
            }
        },
    )


def test_what_has_no_effect_is_named(ask: Ask, backend: ScriptedBackend) -> None:
    backend.script = [end()]
    response = ask(
        temperature=1,
        truncation="auto",
        text={"verbosity": "low", "format": {"type": "json_object"}},
        include=["file_search_call.results", "a\r\nx-odd: 日本"],
        max_output_tokens=5,
        user="me",
        response_format={"type": "json_object"},
    )
    assert response.headers["x-proxy-ignored-params"] == (
        "include, include=file_search_call.results, max_output_tokens=estimated, response_format,"
        " temperature, text.format=instructed, text.verbosity, truncation, user"
    )


SEARCH = {"type": "web_search"}
ALLOWS_SEARCH = pytest.mark.parametrize("gateway_settings", [Settings(allows_web_search=True)])


@ALLOWS_SEARCH
def test_a_web_search_is_an_item(ask: Ask, backend: ScriptedBackend) -> None:
    backend.script = [[SearchDone(0, "ws", SearchAction(SearchKind.SEARCH, "sky"))], say("Blue."), end()]
    body = ask(tools=[SEARCH, *TOOLS]).get_json()
    action = {"type": "search", "query": "sky", "queries": ["sky"]}
    assert strip(body["output"][0]) == {"type": "web_search_call", "status": "completed", "action": action}
    assert body["tools"][0] == SEARCH


def allow(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


@ALLOWS_SEARCH
@pytest.mark.parametrize(
    ("tools", "choice", "searches", "functions"),
    [
        pytest.param([SEARCH], "auto", True, "", id="search-alone"),
        pytest.param(TOOLS, "auto", False, "fg", id="functions-alone"),
        pytest.param([SEARCH, *TOOLS], "auto", True, "fg", id="both"),
        pytest.param([SEARCH, *TOOLS], "none", False, "", id="none"),
        pytest.param([SEARCH, *TOOLS], "required", False, "", id="required-is-a-function"),
        pytest.param([SEARCH, *TOOLS], NAMED, False, "", id="a-function"),
        pytest.param([SEARCH, *TOOLS], allow("auto", NAMED), False, "f", id="allowed-one-function"),
        pytest.param([SEARCH, *TOOLS], allow("auto", NAMED, SEARCH), True, "f", id="allowed-both"),
        pytest.param([SEARCH, *TOOLS], allow("auto", SEARCH), True, "", id="allowed-search"),
    ],
)
def test_what_the_model_may_use(
    ask: Ask, backend: ScriptedBackend, tools: Any, choice: Any, searches: bool, functions: str
) -> None:
    """Task 6: nothing but the client's own choice decides about its functions; and about the search."""
    backend.script = [say('{"calls":[{"name":"f","arguments":{}}]}'), end()]
    response = ask(tools=tools, tool_choice=choice)
    prompt = backend.prompts[-1]
    assert (prompt.request.web_search, "".join(tool.name for tool in prompt.tools)) == (searches, functions)
    assert (response.get_json()["tool_choice"], "x-proxy-ignored-params" in response.headers) == (
        choice,
        False,
    )


@ALLOWS_SEARCH
@pytest.mark.parametrize(
    ("tools", "choice", "told"),
    [
        pytest.param([SEARCH], "required", "required", id="required"),
        pytest.param([SEARCH, *TOOLS], SEARCH, allow("required", SEARCH), id="by-name"),
    ],
)
def test_a_search_cannot_be_demanded(
    ask: Ask, backend: ScriptedBackend, tools: Any, choice: Any, told: Any
) -> None:
    """It is allowed then, alone, and the reply says that it was not more than that."""
    backend.script = [say("Blue."), end()]
    response = ask(tools=tools, tool_choice=choice)
    assert (response.get_json()["tool_choice"], response.headers["x-proxy-ignored-params"]) == (
        told,
        "tool_choice",
    )
    assert (backend.prompts[-1].request.web_search, backend.prompts[-1].tools) == (True, ())


def nest(levels: int) -> Any:
    return [nest(levels - 1)] if levels else []


@pytest.mark.parametrize(
    ("given", "key", "told"),
    [
        pytest.param({"temperature": 99}, "temperature", 1.0, id="too-hot"),
        pytest.param({"top_p": "1"}, "top_p", 1.0, id="text"),
        pytest.param({"presence_penalty": True}, "presence_penalty", 0.0, id="a-flag"),
        pytest.param({"frequency_penalty": -2}, "frequency_penalty", -2, id="the-least"),
        pytest.param({"service_tier": "auto"}, "service_tier", "default", id="no-tier-in-particular"),
        pytest.param(
            {"instructions": [{"role": "system", "content": "Hm.", "odd": nest(90)}]},
            "instructions",
            [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hm."}]}],
            id="instructions-built-anew",
        ),
        pytest.param({"service_tier": "gold"}, "service_tier", "default", id="an-unknown-tier"),
        pytest.param({"prompt_cache_key": 7}, "prompt_cache_key", None, id="a-number-for-a-text"),
        pytest.param(
            {"reasoning": {"effort": "ultra"}},
            "reasoning",
            {"effort": None, "summary": None},
            id="an-effort-of-codex-alone",
        ),
    ],
)
def test_what_a_response_repeats_can_be_read(
    ask: Ask, backend: ScriptedBackend, given: dict[str, Any], key: str, told: Any
) -> None:
    """What clients send of any kind at all never makes a response that their SDK refuses."""
    backend.script = [end()]
    body = ask(**given).get_json()
    assert body[key] == told
    Response.model_validate(body, strict=True)


def test_failures(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [BackendUnavailable("Gone.")]
    for stream in (True, False):
        early = ask(stream=stream)
        assert (early.status_code, early.get_json()["error"]["code"]) == (503, "backend_unavailable")
    backend.script = [say("Hel"), BackendUnavailable("Gone.")]
    assert ask().status_code == 503
    events = read_events(ask(stream=True).data)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    stored = client.get(f"/v1/responses/{events[-1]['response']['id']}").get_json()
    assert (stored["status"], stored["error"]["code"]) == ("failed", "server_error")


def test_what_is_logged(ask: Ask, backend: ScriptedBackend, logged: list[Any]) -> None:
    """The telemetry of the v2 document, in the request's one line."""
    block = '<tool_call>{"name":"f","arguments":{"a":1,}}</tool_call>'
    backend.script = [say(block), end()]
    echoed = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ask(input=[echoed, {"type": "function_call_output", "call_id": "c", "output": "1"}], tools=TOOLS)
    fields = next(record.fields for record in logged if record.name == "access")
    told = ("tool_names", "echoed_calls", "tool_calls", "tool_arguments_repaired.tool_call")
    assert {name: fields.get(name) for name in told} == {
        "tool_names": ("f", "g"),
        "echoed_calls": 1,
        "tool_calls": 1,
        "tool_arguments_repaired.tool_call": 1,
    }


def test_counters(app: flask.Flask, ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """The same, added up over every request of a worker, in either dialect."""
    backend.script = [say('<tool_call>{"name":"f","arguments":{"a":1,}}</tool_call>'), end()]
    echoed = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ask(input=[echoed], tools=TOOLS)
    chat = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}
    client.post("/v1/chat/completions", json=chat, buffered=True)
    backend.script = [each for number in range(3) for each in (call("f", "[]", f"c{number}"), end()[:1])]
    ask(tools=STRICT)
    assert read_counters(app, "codex_tool_", "codex_echoed", "codex_errors") == {
        "codex_tool_requests_total": 3,
        "codex_tool_calls_total{text}": 2,
        "codex_echoed_calls_total": 1,
        "codex_errors_total{invalid_tool_call,/v1/responses}": 1,
        "codex_tool_notes_total{tool_arguments_repaired,,tool_call}": 2,
        "codex_tool_notes_total{tool_call_faulty,mismatch,function}": 3,
        "codex_tool_notes_total{tool_calls_sent_back,,function}": 2,
        "codex_tool_buffer_started_total{openai-json,,tool_call}": 1,
        "codex_tool_buffer_started_total{,,tool_call}": 1,
        "codex_tool_buffer_flushed_total{openai-json,complete,tool_call}": 1,
        "codex_tool_buffer_flushed_total{,complete,tool_call}": 1,
    }
