"""Conversations of every kind a client may send, up to the items codex is given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.conftest import OBSIDIAN, Post
from tests.support.scripted_backend import ScriptedBackend, end, say

Item = dict[str, Any]

PNG = "data:image/png;base64,iVBORw0KGgo="
ARGUMENTS = '{"a": 1}'
USER = {"role": "user", "content": "Do."}


def assistant(*ids: str, content: str | None = None) -> Item:
    calls = [
        {"id": id_, "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}} for id_ in ids
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def tool(id_: str, content: Any, **more: str) -> Item:
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


def spoken(role: str, text: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def called(call_id: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": ARGUMENTS}


def came_to(call_id: str, output: Any) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


DO = spoken("user", "Do.")


@pytest.mark.parametrize(
    ("messages", "items"),
    [
        pytest.param(
            [USER, assistant("c1"), tool("c1", "done")],
            [DO, called("c1"), came_to("c1", "done")],
            id="a-call-and-its-result",
        ),
        pytest.param(
            [USER, assistant("c1", content=""), tool("c1", "")],
            [DO, called("c1"), came_to("c1", "")],
            id="nothing-said",
        ),
        pytest.param(
            [USER, assistant("c1", content="Hm."), tool("c1", "done")],
            [DO, spoken("assistant", "Hm."), called("c1"), came_to("c1", "done")],
            id="words-beside-a-call",
        ),
        pytest.param(
            [USER, assistant("c1"), tool("c1", "done", name="f")],
            [DO, called("c1"), came_to("c1", "done")],
            id="a-result-with-a-name",
        ),
        pytest.param(
            [USER, tool("c9", "done")],
            [DO, spoken("user", "[function_call_output call_id=c9 output=done]")],
            id="a-result-of-no-call",
        ),
        pytest.param(
            [tool("c9", "done")],
            [spoken("user", "[function_call_output call_id=c9 output=done]")],
            id="nothing-but-a-result",
        ),
        pytest.param(
            [USER, assistant("c1", "c2"), tool("c2", "two")],
            [DO, called("c1"), called("c2"), came_to("c2", "two")],
            id="a-call-without-a-result",
        ),
        pytest.param(
            [USER, assistant("c1", "c1"), tool("c1", "one"), tool("c1", "two")],
            [DO, called("c1"), called("call_1"), came_to("c1", "one"), came_to("call_1", "two")],
            id="one-id-twice",
        ),
        pytest.param(
            [USER, assistant("c1"), tool("c1", "one"), assistant("c1"), tool("c1", "two")],
            [DO, called("c1"), came_to("c1", "one"), called("call_1"), came_to("call_1", "two")],
            id="one-id-again",
        ),
        pytest.param(
            [USER, assistant("c1"), tool("c1", "one"), tool("c1", "again")],
            [
                DO,
                called("c1"),
                came_to("c1", "one"),
                spoken("user", "[function_call_output call_id=c1 output=again]"),
            ],
            id="a-result-twice",
        ),
        pytest.param(
            [{"role": "assistant", "content": "You are Copilot."}, USER],
            [spoken("developer", "You are Copilot."), DO],
            id="a-leading-assistant",
        ),
        pytest.param(
            [{"role": "system", "content": "Be."}, {"role": "assistant", "content": "You are."}, USER],
            [spoken("developer", "Be."), spoken("developer", "You are."), DO],
            id="a-leading-assistant-behind-a-system-message",
        ),
        pytest.param(
            [
                USER,
                {
                    "role": "assistant",
                    "content": None,
                    "function_call": {"name": "f", "arguments": ARGUMENTS},
                },
                {"role": "function", "name": "f", "content": "done"},
            ],
            [DO, called("call_1"), came_to("call_1", "done")],
            id="legacy",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}],
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}],
                }
            ],
            id="parts",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "See:"},
                        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
                    ],
                }
            ],
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "See:"},
                        {"type": "input_image", "image_url": PNG},
                    ],
                }
            ],
            id="an-image",
        ),
        pytest.param(
            [USER, assistant("c1"), tool("c1", [{"type": "image_url", "image_url": {"url": PNG}}])],
            [DO, called("c1"), came_to("c1", [{"type": "input_image", "image_url": PNG}])],
            id="an-image-from-a-tool",
        ),
        pytest.param(
            [USER, tool("c9", [{"type": "image_url", "image_url": {"url": PNG}}])],
            [
                DO,
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "[function_call_output call_id=c9 output=]"},
                        {"type": "input_image", "image_url": PNG},
                    ],
                },
            ],
            id="an-image-from-no-call",
        ),
    ],
)
def test_conversations(post: Post, backend: ScriptedBackend, messages: list[Item], items: list[Item]) -> None:
    """Contract §2; calls and results keep together, and whatever has no partner is said in words."""
    backend.script = [say("Hi"), end()]
    assert post(messages=messages).status_code == 200
    assert list(backend.prompts[0].items) == items


def test_five_hundred_messages(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    rounds = [[USER, assistant(f"c{n}"), tool(f"c{n}", str(n)), assistant(content="ok")] for n in range(125)]
    messages = [message for turn in rounds for message in turn]
    assert (len(messages), post(messages=messages).status_code) == (500, 200)
    answered = [came_to(f"c{n}", str(n)) for n in range(125)]
    assert [item for item in backend.prompts[0].items if item["type"] == "function_call_output"] == answered
    assert len(backend.prompts[0].items) == 500


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        pytest.param(
            [USER, {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": ""}}]}],
            "messages[1].content[0].type",
            id="audio",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "file", "file": {}}]}],
            "messages[0].content[1].type",
            id="file",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}],
            "messages[0].content[0].image_url",
            id="a-remote-image",
        ),
        pytest.param(
            [USER, tool("c1", [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])],
            "messages[1].content[0].image_url",
            id="an-image-of-our-disk",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}],
                }
            ],
            "messages[0].content[0].image_url",
            id="an-image-that-is-none",
        ),
        pytest.param(
            [USER, {"role": "tool", "content": "done"}],
            "messages[1].tool_call_id",
            id="a-result-without-an-id",
        ),
        pytest.param([USER, {"role": "robot", "content": "beep"}], "messages[1].role", id="role"),
        pytest.param([USER, {"role": "user"}], "messages[1].content", id="no-content"),
        pytest.param([], "messages", id="none"),
    ],
)
def test_what_cannot_be_said(post: Post, backend: ScriptedBackend, messages: list[Item], param: str) -> None:
    response = post(messages=messages)
    error = response.get_json()["error"]
    assert (response.status_code, error["param"], backend.turns) == (400, param, [])


def test_instructions_of_a_leading_assistant_ask_for_blocks(post: Post, backend: ScriptedBackend) -> None:
    """Copilot 3.1.x: what stands behind a block is dropped, as its system prompt says how to write one."""
    block = "<use_tool><name>f</name></use_tool>"
    backend.script = [say(block, " tail"), end()]
    lead = {"role": "assistant", "content": "Write <use_tool> blocks."}
    shown = [
        post(messages=messages, headers=headers).get_json()["choices"][0]["message"]["content"]
        for messages, headers in (([lead, USER], None), ([USER], OBSIDIAN), ([USER], None))
    ]
    assert shown == [block, block, f"{block} tail"]
