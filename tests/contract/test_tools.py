"""The client's tools: strict ones, how many calls an answer has, `functions`, and tools by text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.lib.events import (
    BackendEvent,
    ResponseDone,
)
from app.lib.orders import RefuseCall
from app.lib.request import ToolTransport
from app.settings import Settings
from tests.contract.conftest import OBSIDIAN, OPENAI, Answer, Answers, Post
from tests.contract.declared import STRICT, TOOLS, F, G
from tests.support.scripted_backend import USAGE, ScriptedBackend, call, end, say
from tests.support.sse import DONE, read_deltas

ONE = '{"a":1}'
F_CALLED = Answer(None, "tool_calls", (("f", ONE),))
F_BLOCK = "<use_tool>\n<name>f</name>\n<a>1</a>\n</use_tool>"
SENTINEL = [pytest.param(Settings(tool_transport=ToolTransport.SENTINEL), id="sentinel")]
F_TEXT = '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>'
G_TEXT = '<tool_call>{"name":"g","arguments":"{}"}</tool_call>'


def respond(*events: list[BackendEvent]) -> list[BackendEvent]:
    """One response of the model's in a turn that goes on."""
    return [*(event for batch in events for event in batch), ResponseDone(0, USAGE)]


BAD = '{"a":"one"}'


def test_strict_calls_are_corrected_unseen(answers: Answers, backend: ScriptedBackend) -> None:
    """D5: every call of the batch is refused, and nothing is shown before all of one hold."""
    batch = respond(call("f", BAD, "c1"), call("g", "{}", "c2"))
    worse = respond(call("f", BAD, "c3"), call("nothing", "{}", "c4"))
    good = respond(call("f", ONE, "c5"), call("g", "{}", "c6"))
    backend.script = [say("Let me see. "), batch, worse, good]
    calls = (("f", ONE), ("g", "{}"))
    assert answers(tools=STRICT) == [Answer("Let me see. ", "tool_calls", calls)]
    orders = [order for order in backend.turns[0].orders if isinstance(order, RefuseCall)]
    assert [(order.choice, order.call_id) for order in orders] == [(0, "c1"), (0, "c2"), (0, "c3"), (0, "c4")]
    assert ["`f`" in orders[0].message, "not run" in orders[1].message] == [True, True]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(call("f", BAD), "`f`", id="mismatch"),
        pytest.param(call("f", '{"a":1,"b":2}'), "`f`", id="a-property-too-many"),
        pytest.param(call("f", "{"), "`f`", id="no-json"),
        pytest.param(call("h", "{}"), "`h`", id="an-unknown-tool"),
    ],
)
def test_strict_calls_that_stay_wrong(
    post: Post, backend: ScriptedBackend, bad: list[BackendEvent], said: str
) -> None:
    """D5: two repairs, then an error that says what was wrong, and is not worth trying again."""
    backend.script = [respond(bad)] * 3
    response = post(tools=STRICT)
    error = response.get_json()["error"]
    assert (response.status_code, error["code"], response.headers["x-should-retry"]) == (
        502,
        "invalid_tool_call",
        "false",
    )
    assert (said in error["message"], len(backend.turns[0].orders)) == (True, 2)
    role, *brought = read_deltas(post(tools=STRICT, stream=True).data)
    assert (role[1]["role"], brought) == ("assistant", [{"error": error}, DONE])


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(BAD, id="mismatch"), pytest.param("{", id="no-json"), pytest.param("", id="none")],
)
def test_other_calls_go_out_as_they_are(answers: Answers, backend: ScriptedBackend, arguments: str) -> None:
    backend.script = [call("f", arguments), end()]
    assert answers(tools=TOOLS) == [Answer(None, "tool_calls", (("f", arguments or "{}"),))]


@pytest.mark.parametrize("headers", [pytest.param(OBSIDIAN, id="xml"), pytest.param(OPENAI, id="json")])
@pytest.mark.parametrize(
    ("gateway_settings", "asked", "count", "ignored"),
    [
        pytest.param(Settings(), {}, 2, None, id="unsaid"),
        pytest.param(Settings(), {"parallel_tool_calls": True}, 2, None, id="wanted"),
        pytest.param(Settings(), {"parallel_tool_calls": False}, 1, None, id="unwanted"),
        pytest.param(Settings(parallel_tool_calls=False), {}, 1, None, id="pinned-to-one"),
        pytest.param(
            Settings(parallel_tool_calls=False),
            {"parallel_tool_calls": True},
            1,
            "parallel_tool_calls",
            id="wanted-in-vain",
        ),
        pytest.param(
            Settings(parallel_tool_calls=True),
            {"parallel_tool_calls": False},
            2,
            "parallel_tool_calls",
            id="unwanted-in-vain",
        ),
    ],
)
@pytest.mark.parametrize("tools", [pytest.param(TOOLS, id="lenient"), pytest.param(STRICT, id="strict")])
def test_how_many_calls_an_answer_has(
    answers: Answers,
    post: Post,
    backend: ScriptedBackend,
    tools: list[Any],
    asked: dict[str, Any],
    count: int,
    ignored: str | None,
    headers: dict[str, str],
) -> None:
    backend.script = [call("f", ONE), call("g", "{}", "call_1"), end()]
    request: dict[str, Any] = {"tools": tools, "headers": headers, **asked}
    [answer] = answers(**request)
    assert answer.calls == (("f", ONE), ("g", "{}"))[:count]
    assert post(**request).headers.get("x-proxy-ignored-params") == ignored


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({}, id="auto"),
        pytest.param({"function_call": {"name": "f"}}, id="named"),
    ],
)
def test_functions(post: Post, answers: Answers, backend: ScriptedBackend, choice: dict[str, Any]) -> None:
    """Story 2.9 AC 11: a client from before `tools` reads one `function_call`, and that as the reason."""
    calls = [*call("f", ONE), *call("g", "{}", "call_1")]
    backend.script = [say(ONE) if choice else calls, end()]
    assert answers(functions=[F, G], **choice) == [Answer(None, "function_call", (("f", ONE),))]
    [told] = post(functions=[F, G], **choice).get_json()["choices"]
    assert told["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "function_call": {"name": "f", "arguments": ONE},
    }
    brought = read_deltas(post(functions=[F, G], **choice, stream=True).data)
    assert brought[1:] == [
        (0, {"function_call": {"name": "f", "arguments": ""}}, None),
        (0, {"function_call": {"arguments": ONE}}, None),
        (0, {}, "function_call"),
        DONE,
    ]


def test_functions_in_obsidian_mode(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [call("f", ONE), end()]
    expected = [Answer(F_BLOCK, "function_call", (("f", ONE),))]
    assert answers(functions=[F, G], headers=OBSIDIAN) == expected


def test_functions_that_need_no_call(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [say(F_TEXT), end()]
    assert answers(functions=[F, G], function_call="none") == [Answer(F_TEXT, "stop")]


@pytest.mark.parametrize("gateway_settings", SENTINEL)
def test_by_text_the_tools_stand_in_a_manifest(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    post(tools=TOOLS)
    prompt = backend.prompts[0]
    manifest = prompt.items[0]["content"][0]["text"]
    assert (prompt.tools, prompt.items[0]["role"], len(prompt.items)) == ((), "developer", 2)
    listed = [json.loads(line) for line in manifest.splitlines() if line.startswith("{")]
    assert listed == [F, G | {"parameters": {"type": "object", "properties": {}}}]


@pytest.mark.parametrize("gateway_settings", SENTINEL)
def test_by_text_a_tool_that_must_not_be_called_is_not_listed(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    post(tools=TOOLS, tool_choice="none")
    manifest = backend.prompts[0].items[0]["content"][0]["text"]
    assert ("Do not call" in manifest, "Does f." in manifest) == (True, False)


@pytest.mark.parametrize("gateway_settings", [*SENTINEL, pytest.param(Settings(), id="native")])
@pytest.mark.parametrize(
    ("said", "request_", "expected"),
    [
        pytest.param([*F_TEXT], {}, F_CALLED, id="one"),
        pytest.param(["Hm. ", F_TEXT, " tail"], {}, Answer("Hm. ", "tool_calls", (("f", ONE),)), id="a-tail"),
        pytest.param(
            [F_TEXT, "\n", G_TEXT], {}, Answer(None, "tool_calls", (("f", ONE), ("g", "{}"))), id="in-a-row"
        ),
        pytest.param([F_TEXT, G_TEXT], {"parallel_tool_calls": False}, F_CALLED, id="one-of-two"),
        pytest.param(
            [F_TEXT, G_TEXT],
            {"headers": OBSIDIAN},
            Answer(F_BLOCK, "tool_calls", (("f", ONE), ("g", "{}"))),
            id="as-blocks",
        ),
        pytest.param(
            ['<tool_call>{"name":"h","arguments":"{}"}</tool_call>!'],
            {},
            Answer('<tool_call>{"name":"h","arguments":"{}"}</tool_call>!', "stop"),
            id="an-unknown-tool",
        ),
        pytest.param(["<tool_call>", "oops"], {}, Answer("<tool_call>oops", "stop"), id="never-closed"),
    ],
)
def test_calls_by_text(
    answers: Answers, backend: ScriptedBackend, said: list[str], request_: dict[str, Any], expected: Answer
) -> None:
    """Contract §1: `<tool_call>` blocks that name a declared tool are calls, in either transport."""
    backend.script = [say(*said), end()]
    assert answers(tools=TOOLS, **request_) == [expected]


@pytest.mark.parametrize("gateway_settings", SENTINEL)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('<tool_call>{"name":"f","arguments":"{\\"a\\":null}"}</tool_call>', id="mismatch"),
        pytest.param(F_TEXT.replace('"f"', '"h"'), id="an-unknown-tool"),
        pytest.param("<tool_call>f()</tool_call>", id="unreadable"),
    ],
)
def test_a_strict_call_by_text_that_does_not_hold(post: Post, backend: ScriptedBackend, text: str) -> None:
    """D5: by text there is no repair."""
    backend.script = [say("Hm. "), say(text), end()]
    response = post(tools=STRICT)
    assert (response.status_code, response.get_json()["error"]["code"]) == (502, "invalid_tool_call")
    brought = read_deltas(post(tools=STRICT, stream=True).data)
    assert brought[1:] == [(0, {"content": "Hm. "}, None), response.get_json(), DONE]


@pytest.mark.parametrize("gateway_settings", SENTINEL)
def test_past_calls_by_text(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    past = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ONE}}
    post(
        tools=TOOLS,
        messages=[
            {"role": "user", "content": "Do."},
            {"role": "assistant", "content": None, "tool_calls": [past]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
    )
    assert [item["content"][0]["text"] for item in backend.prompts[0].items[1:]] == [
        "Do.",
        f"[function_call id=c1 call_id=c1 name=f arguments={ONE}]",
        "[function_call_output call_id=c1 output=done]",
    ]
