"""Tool blocks in text, under the real server: the cut reaches the model, the process lives on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gateway import Gateway, wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.sse import read_frames

pytestmark = pytest.mark.real

USE = (
    "<use_tool>\n<name>localSearch</name>\n<query>Klavier 🎹</query>\n"
    '<salientTerms>["日本"]</salientTerms>\n</use_tool>'
)
ARGUMENTS = '{"query":"Klavier 🎹","salientTerms":["日本"]}'
SYSTEM = {"role": "system", "content": "Call tools as <use_tool> blocks."}


def converse(script: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [SYSTEM, {"role": "user", "content": json.dumps(script)}]


def test_a_block_cuts_the_turn_and_not_the_process(gateway: Gateway, model: ScriptedModel) -> None:
    """The model stops costing money; story 2.9 AC 1, 3, 9."""
    before, pids = model.closed_early, gateway.codex_pids
    script = [{"say": ["Let me look. ", *USE]}, {"say": ["tail "] * 600, "pause_s": 0.05}]
    response = gateway.chat("", messages=converse(script), stream=True)
    frames = read_frames(response.content)
    choices = [frame["choices"][0] for frame in frames[:-1]]
    contents = [choice["delta"]["content"] for choice in choices if "content" in choice["delta"]]
    calls = [choice["delta"]["tool_calls"][0] for choice in choices if "tool_calls" in choice["delta"]]
    assert "".join(contents) == f"Let me look. {USE}"
    assert contents[-1] == USE
    assert [call["function"]["arguments"] for call in calls] == ["", ARGUMENTS]
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert model.wait_for(lambda scripted: scripted.closed_early > before, 2)
    assert gateway.codex_pids >= pids
    wait_until(
        lambda: any(line.get("tool_buffer_flushed.use_tool.complete") == 1 for line in gateway.lines())
    )


def test_mode_all_waits_for_its_grace_and_no_longer(stand_in: Callable[..., Gateway]) -> None:
    """Two blocks a moment apart are one answer; then silence ends it, long before the model would."""
    gateway = stand_in(PROXY_STOP_AFTER_TOOLS_MODE="all", PROXY_STOP_AFTER_TOOLS_GRACE_MS="600")
    script = [{"say": [USE]}, {"wait": 0.2}, {"say": ["\n", USE]}, {"wait": 20}, {"say": ["late"]}]
    body = gateway.chat("", messages=converse(script)).json()
    [choice] = body["choices"]
    assert choice["message"]["content"] == USE + USE
    assert (len(choice["message"]["tool_calls"]), choice["finish_reason"]) == (2, "tool_calls")
    [line] = wait_until(lambda: [line for line in gateway.lines() if line.get("tool_calls") == 2])
    assert line["duration_ms"] < 10_000


def test_held_text_is_kept_alive_and_let_go(stand_in: Callable[..., Gateway]) -> None:
    """While a block is held the client gets comments; at the deadline it gets the text, then the error."""
    gateway = stand_in(PROXY_SSE_KEEPALIVE_MS="200", PROXY_STREAM_IDLE_TIMEOUT_MS="1500")
    script = [{"say": ["a <use_tool><open"]}, {"wait": 20}]
    text = gateway.chat("", messages=converse(script), stream=True).text
    assert ": keepalive" in text
    frames = read_frames(text.encode())
    contents = [frame["choices"][0]["delta"]["content"] for frame in frames[:-2]]
    assert "".join(contents) == "a <use_tool><open"
    assert frames[-2]["error"]["code"] == "backend_timeout"
