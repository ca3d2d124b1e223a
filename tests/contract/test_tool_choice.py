"""`tool_choice`: the tools a model is offered, and the call that is demanded of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app.lib.orders import AskAgain
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.conftest import OBSIDIAN, OPENAI, Answer, Answers, Post
from tests.contract.declared import PARAMETERS, STRICT, TOOLS, F, G
from tests.support.scripted_backend import USAGE, Anew, ScriptedBackend, Step, end, say

ONE = '{"a":1}'
F_CALLED = Answer(None, "tool_calls", (("f", ONE),))
F_BLOCK = "<use_tool>\n<name>f</name>\n<a>1</a>\n</use_tool>"
F_TEXT = '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>'
NAMED = {"type": "function", "function": {"name": "f"}}


def allow(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def read_last_text(backend: ScriptedBackend) -> str:
    text: str = backend.prompts[-1].items[-1]["content"][0]["text"]
    return text


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        pytest.param({}, ["f", "g"], id="unsaid"),
        pytest.param({"tool_choice": "auto"}, ["f", "g"], id="auto"),
        pytest.param({"tool_choice": None}, ["f", "g"], id="null"),
        pytest.param({"tool_choice": "none"}, [], id="none"),
        pytest.param({"tool_choice": allow("auto", "g")}, ["g"], id="allowed-tools"),
        # A call that is demanded is the answer itself, so no tools are offered.
        pytest.param({"tool_choice": "required"}, [], id="required"),
        pytest.param({"tool_choice": NAMED}, [], id="named"),
        pytest.param({"tool_choice": allow("required", "g")}, [], id="allowed-tools-required"),
    ],
)
def test_the_tools_a_model_is_offered(
    post: Post, backend: ScriptedBackend, choice: dict[str, Any], offered: list[str]
) -> None:
    backend.script = [say("Hi"), end()]
    post(tools=TOOLS, **choice)
    assert [tool.name for tool in backend.prompts[0].tools] == offered


def test_a_tool_is_offered_as_it_was_declared(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    schema = PARAMETERS | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    post(
        tools=[
            {"type": "function", "function": F | {"parameters": schema, "strict": True}},
            G | {"type": "function"},
        ]
    )
    f, g = backend.prompts[0].tools
    assert (f.name, f.description, f.parameters, f.strict) == ("f", "Does f.", schema, True)
    assert (g.name, g.description, g.parameters, g.strict) == ("g", None, None, None)


@pytest.mark.parametrize("headers", [pytest.param(OBSIDIAN, id="xml"), pytest.param(OPENAI, id="json")])
@pytest.mark.parametrize("text", [pytest.param(F_BLOCK, id="use-tool"), pytest.param(F_TEXT, id="tool-call")])
def test_where_no_call_may_be_made_blocks_are_text(
    answers: Answers, backend: ScriptedBackend, text: str, headers: dict[str, str]
) -> None:
    backend.script = [say(*text, " tail"), end()]
    assert answers(tools=TOOLS, tool_choice="none", headers=headers) == [Answer(f"{text} tail", "stop")]


def test_blocks_of_other_tools_than_the_allowed_ones_are_text(
    answers: Answers, backend: ScriptedBackend
) -> None:
    backend.script = [say(f"{F_TEXT} and {F_BLOCK}"), end()]
    expected = [Answer(f"{F_TEXT} and {F_BLOCK}", "stop")]
    assert answers(tools=TOOLS, tool_choice=allow("auto", "g"), headers=OBSIDIAN) == expected


def build_way(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """A call of one of several tools, as the answer's schema spells it."""
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [name]}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


#: Who declares no parameters declares that there are none.
WAY_OF_G = build_way("g", {"type": "object", "properties": {}, "required": [], "additionalProperties": False})
ONE_OF_EACH = '{"calls":[{"name":"f","arguments":{"a":1}},{"name":"g","arguments":{}}]}'


@pytest.mark.parametrize(
    ("request_", "said", "calls"),
    [
        pytest.param({"tool_choice": NAMED}, ONE, [("f", ONE)], id="named"),
        pytest.param({"tool_choice": NAMED}, '{ "a" : 1 }', [("f", '{ "a" : 1 }')], id="named-verbatim"),
        pytest.param({"tool_choice": NAMED}, f"```json\n{ONE}\n```", [("f", ONE)], id="named-in-a-fence"),
        pytest.param({"tool_choice": "required"}, ONE_OF_EACH, [("f", ONE), ("g", "{}")], id="required"),
        pytest.param(
            {"tool_choice": "required", "parallel_tool_calls": False},
            '{"call":{"name":"f","arguments":{"a":1}}}',
            [("f", ONE)],
            id="required-one",
        ),
        pytest.param(
            {"tool_choice": "required", "parallel_tool_calls": False},
            ONE_OF_EACH,
            [("f", ONE)],
            id="required-one-of-two",
        ),
        pytest.param({"tool_choice": allow("required", "f")}, ONE, [("f", ONE)], id="allowed-tools"),
        pytest.param(
            {"tools": TOOLS[:1], "tool_choice": "required"}, ONE, [("f", ONE)], id="required-of-a-single-tool"
        ),
    ],
)
def test_a_call_that_is_demanded(
    answers: Answers, backend: ScriptedBackend, request_: dict[str, Any], said: str, calls: list[Any]
) -> None:
    """The answer is the call; nothing of it is text, and the prompt asks for it in so many words."""
    backend.script = [say(*said), end()]
    expected = [Answer(None, "tool_calls", tuple(calls))]
    assert answers(**({"tools": TOOLS} | request_)) == expected
    prompt = backend.prompts[0]
    assert (prompt.items[-1]["role"], '"name":"f"' in read_last_text(backend)) == ("developer", True)


def test_a_demanded_call_is_held_to_the_tools_own_schema(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say(ONE), end()]
    post(tools=TOOLS, tool_choice=NAMED)
    assert backend.prompts[0].output_schema == PARAMETERS
    post(tools=TOOLS, tool_choice="required")
    schema = backend.prompts[1].output_schema
    assert schema is not None
    assert schema["properties"]["calls"]["items"] == {"anyOf": [build_way("f", PARAMETERS), WAY_OF_G]}


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(stop_mode=StopMode.ALL), id="all")])
def test_a_demanded_call_as_a_block(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [say(ONE_OF_EACH), end()]
    g_block = "<use_tool>\n<name>g</name>\n</use_tool>"
    assert answers(tools=TOOLS, tool_choice="required", headers=OBSIDIAN) == [
        Answer(F_BLOCK + g_block, "tool_calls", (("f", ONE), ("g", "{}")))
    ]


def test_a_demanded_call_is_asked_for_again(answers: Answers, post: Post, backend: ScriptedBackend) -> None:
    """Unseen; what it cost is counted."""

    def play() -> Iterator[Step]:
        yield say("I would rather not.") + end()
        yield say('{"a":"one"', item_id="msg_1") + end()
        yield say(ONE, item_id="msg_2") + end()

    backend.script = Anew(play)
    assert answers(tools=STRICT, tool_choice=NAMED) == [F_CALLED]
    asked = [
        (order.choice, "`f`" in order.message)
        for order in backend.turns[0].orders
        if isinstance(order, AskAgain)
    ]
    assert (asked, len(backend.turns[0].orders)) == ([(0, True)] * 2, 2)
    usage = post(tools=STRICT, tool_choice=NAMED).get_json()["usage"]
    assert usage["prompt_tokens"] == 3 * USAGE.input_tokens


@pytest.mark.parametrize("choice", [pytest.param(NAMED, id="named"), pytest.param("required", id="required")])
def test_a_demanded_call_that_never_comes(post: Post, backend: ScriptedBackend, choice: Any) -> None:
    backend.script = [say("No.", item_id=f"msg_{number}") + end() for number in range(3)]
    response = post(tools=TOOLS, tool_choice=choice)
    refused = (response.status_code, response.get_json()["error"]["code"], response.headers["x-should-retry"])
    assert refused == (502, "invalid_tool_call", "false")
    assert len(backend.turns[0].orders) == 2
