"""One turn, one answer: what the official client adds up from a stream equals the body, in either mode."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from app.lib.events import FinishReason, MessageDone, Retrying, Tick
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.called import TOOLS
from tests.contract.conftest import OBSIDIAN, OPENAI
from tests.support.scripted_backend import (
    ScriptedBackend,
    Step,
    call,
    end,
    say,
    signal,
    tell_in_chat,
    tell_in_responses,
    think,
)

USE = "<use_tool>\n<name>f</name>\n<a>é字🙂</a>\n</use_tool>"
TEXT_CALL = '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>'
ONE = '{"a": 1,  "b":"é字🙂"}'
LENGTH, FILTER = FinishReason.LENGTH, FinishReason.CONTENT_FILTER
STRICT = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}]
NAMED = {"type": "function", "function": {"name": "f"}}
IN_A_MESSAGE = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Hm.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ONE}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
                ],
            }
        }
    ]
}
PROGRESS = {"type": "function_call", "call_id": "c1", "name": "f", "status": "in_progress", "arguments": ""}

SCRIPTS: dict[str, tuple[dict[str, Any], list[Step]]] = {
    "text": ({}, [say("Hel"), say("lo"), end()]),
    "text-and-length": ({}, [say("Hel"), end(LENGTH)]),
    "nothing": ({}, [end()]),
    "nothing-but-a-filter": ({}, [end(FILTER)]),
    "a-call": ({}, [call("f", ONE), end()]),
    "a-call-without-arguments": ({}, [call("f", ""), end()]),
    "a-call-behind-text": ({}, [say("Look. "), call("f", ONE), end()]),
    "a-call-behind-reasoning": ({}, [think("Hm."), call("f", ONE), end()]),
    "a-call-and-length": ({}, [call("f", ONE), [*end(LENGTH)[1:]]]),
    "a-call-before-text": ({}, [call("f", ONE), say("So."), end()]),
    "a-call-under-way-then-done": ({}, [signal(PROGRESS), call("f", ONE, "c1"), end()]),
    "two-calls": ({}, [call("f", ONE), call("g", "{}", "call_1"), end()]),
    "two-equal-calls": ({}, [call("f", ONE), call("f", ONE, "call_1"), end()]),
    "two-calls-one-wanted": (
        {"parallel_tool_calls": False},
        [call("f", ONE), call("g", "{}", "call_1"), end()],
    ),
    "calls-in-a-message": ({}, [signal(IN_A_MESSAGE), end()]),
    "text-and-its-message": ({}, [say("Hm."), signal(IN_A_MESSAGE), end()]),
    "fragments-in-chat": ({}, [signal(*tell_in_chat("f", ONE)), end()]),
    "fragments-in-responses": ({}, [signal(*tell_in_responses("f", ONE)), end()]),
    "fragments-in-turns": (
        {},
        [
            *(
                signal(*pair)
                for pair in zip(tell_in_chat("f", ONE), tell_in_chat("g", ONE, "call_1", 1), strict=True)
            ),
            end(),
        ],
    ),
    "fragments-then-the-whole": ({}, [signal(*tell_in_chat("f", ONE[:5])), call("f", ONE), end()]),
    "a-block": ({}, [say("Look: ", *USE, " tail"), end()]),
    "blocks": ({}, [say(USE, "\n", USE.replace("f<", "g<"), " tail"), end()]),
    "an-open-block": ({}, [say("<use_tool>", "open"), end()]),
    "a-block-and-its-message": ({}, [say(*USE), [MessageDone(0, "msg_0", USE)], end()]),
    "a-block-in-a-message": ({}, [[MessageDone(0, "m", f"Look: {USE} tail")], end()]),
    "a-block-then-a-call": ({}, [say(USE), call("g", "{}"), end()]),
    "a-call-then-a-block": ({}, [call("g", "{}"), say(USE), end()]),
    "blocks-of-our-own": ({}, [say(TEXT_CALL, "\n", TEXT_CALL, " tail"), end()]),
    "an-unknown-block-of-our-own": ({}, [say(TEXT_CALL.replace('"f"', '"h"')), end()]),
    "an-unseen-retry": ({}, [[Retrying(0, "…")], call("f", ONE), [Tick(0)], end()]),
    "a-named-call": ({"tool_choice": NAMED}, [say(*'{"a":1}'), end()]),
    "a-required-call": (
        {"tool_choice": "required"},
        [say('{"calls":[{"name":"f","arguments":{}},{"name":"g","arguments":{}}]}'), end()],
    ),
    "a-named-call-cut-short": ({"tool_choice": NAMED}, [say('{"a"'), end(LENGTH)]),
    "no-call-allowed": ({"tool_choice": "none"}, [say(USE), end()]),
    "a-strict-call": ({"tools": STRICT}, [call("f", "[]"), end()[:1], call("f", "{}", "c2"), end()]),
    "stop": ({"stop": "lo"}, [say("Hel", "l", "o"), end()]),
    "stop-and-calls": ({"stop": "lo"}, [say("He"), call("f", '{"a":"lo"}'), end()]),
    "max-tokens": ({"max_tokens": 1}, [say("é字🙂"), end()]),
    "max-tokens-before-a-call": ({"max_tokens": 1}, [say("12345"), call("f", ONE), end()]),
    "one-choice-calls": (
        {"n": 2},
        [say("a") + call("f", ONE, choice=1), end(choice=1), say("b"), end()],
    ),
    "one-choice-has-a-block": ({"n": 2}, [say("a") + say(*USE, choice=1), say("b"), end(), end(choice=1)]),
    "all-choices-call": (
        {"n": 3},
        [call("f", ONE, choice=index) + say("late", choice=index) + end(choice=index) for index in range(3)],
    ),
    "every-choice-ends-otherwise": (
        {"n": 3},
        [call("f", ONE, choice=2), end(choice=2), say("a"), end(LENGTH), end(FILTER, choice=1)],
    ),
}


@pytest.mark.parametrize(
    "gateway_settings",
    [
        pytest.param(Settings(), id="first"),
        pytest.param(Settings(stop_mode=StopMode.ALL), id="all"),
        pytest.param(Settings(stop_after_tools=False, suppress_tail=False), id="flowing-on"),
    ],
)
@pytest.mark.parametrize("headers", [pytest.param(OBSIDIAN, id="xml"), pytest.param(OPENAI, id="json")])
@pytest.mark.parametrize("script", SCRIPTS)
def test_parity(sdk: openai.OpenAI, backend: ScriptedBackend, script: str, headers: dict[str, str]) -> None:
    """Story 2.9 AC 6: stream and body are one answer."""
    asked, backend.script = SCRIPTS[script]
    request: Any = {
        "model": "gpt-5.5",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": TOOLS,
        "extra_headers": headers,
        **asked,
    }
    body = sdk.chat.completions.create(**request)
    with sdk.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
        events.until_done()
        # `get_final_completion` would be this, but raises where an answer was cut short.
        folded: Any = events._state.current_completion_snapshot
    assert to_answer(folded) == to_answer(body)


def to_answer(completion: Any) -> dict[str, Any]:
    """What of a completion is not every answer's own: ids are random, and a body counts no places."""
    told = completion.to_dict()
    return {
        "usage": told["usage"],
        "choices": [
            {
                "index": choice["index"],
                "finish_reason": choice["finish_reason"],
                "content": choice["message"]["content"] or None,
                "reasoning_content": choice["message"].get("reasoning_content"),
                "calls": [
                    (place, call["type"], call["function"]["name"], call["function"]["arguments"])
                    for place, call in enumerate(choice["message"].get("tool_calls") or ())
                ],
            }
            for choice in told["choices"]
        ],
    }
