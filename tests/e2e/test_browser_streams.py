"""Tool blocks as a chat client in a real browser reads them: whole, once, and never half."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.browser import Tab
from tests.e2e.conftest import KEY, OpenTab, read_pipe_log
from tests.support.cuts import every_cut
from tests.support.gateway import Gateway, wait_until
from tests.support.replay import Recording

pytestmark = pytest.mark.real

HERE = pathlib.Path(__file__).parent
CLIENT = (HERE / "chat_client.js").read_text("utf-8")
RECORDING = Recording(HERE.parent / "fixtures" / "proto-replay" / "req-HevrLsVQESL3K1M3_3dHi.jsonl")
LEAD = "I will look through your notes first.\n\n"
OPENER, CLOSER = "<use_tool>", "</use_tool>"
INSIDE = '\n<name>localSearch</name>\n<query>日本語 🎹 a<b</query>\n<salientTerms>["plan"]</salientTerms>\n'
BLOCK = OPENER + INSIDE + CLOSER
TAIL = "\n\nThat is what I did."
#: The recorded answer, and what of it was said up to a delta inside its block.
RECORDED = RECORDING.deltas()
BEGUN = RECORDING.break_behind('Terms>["pl').deltas()
TOOL = {"type": "function", "function": {"name": "localSearch", "parameters": {"type": "object"}}}

Seen = dict[str, Any]
Script = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Client:
    """A page of some origin whose script calls the gateway."""

    tab: Tab
    gateway: Gateway
    base_url: str

    def ask(self, script: Script, mode: str | None = "obsidian-xml", leave_at: str = "", **more: Any) -> Seen:
        """One streamed answer as the page saw it; with `leave_at` it aborts when the stream holds that."""
        message = {"role": "user", "content": json.dumps(script)}
        body = {"model": "scripted-model", "stream": True, "messages": [message]} | more
        url = f"{self.base_url}/v1/chat/completions"
        asked = {"url": url, "key": KEY, "mode": mode, "body": body, "leaveAt": leave_at}
        seen: Seen = self.tab.page.evaluate(CLIENT, asked)
        return seen


@pytest.fixture(scope="module", params=["own-origin", "foreign-origin", "through-nginx"])
def client(request: pytest.FixtureRequest, keep_tab: OpenTab, standing: Gateway) -> Client:
    base_url, origin = standing.base_url, standing.base_url
    if request.param == "foreign-origin":
        origin = request.getfixturevalue("foreign_page").origin
    if request.param == "through-nginx":
        base_url = origin = request.getfixturevalue("served").front.base_url
    # Of the gateway's own things, one that asks for nothing itself; the browser asks for an icon.
    tab = keep_tab(base_url, origin, overlooks=r"/favicon\.ico", ignore_https_errors=True)
    tab.page.goto(f"{origin}/livez")
    return Client(tab, standing, base_url)


def say_cut(deltas: list[str]) -> Script:
    return [{"say": deltas, "pause_s": 0.002}]


def cut_inside_the_tags() -> Iterator[list[str]]:
    """The answer with its block cut in two at every place of its tags, and all of it one by one."""
    for parts in every_cut(OPENER):
        yield [LEAD, *parts, INSIDE + CLOSER + TAIL]
    for parts in every_cut(CLOSER):
        yield [LEAD + OPENER + INSIDE, *parts, TAIL]
    yield list(LEAD + BLOCK + TAIL)


def test_a_block_cut_inside_its_tags_is_seen_once(client: Client) -> None:
    """Stories 2.9 AC 6, 2.12 AC 5: whole and verbatim, and no reader ever saw a part of it."""
    for deltas in cut_inside_the_tags():
        seen = client.ask(say_cut(deltas))
        assert (seen["texts"], seen["finishes"], seen["end"]) == ({"0": LEAD + BLOCK}, ["tool_calls"], "done")
        assert {state.partition("<")[1:] for state in seen["states"]} <= {("", ""), ("<", BLOCK[1:])}, deltas
        assert (seen["raw"].count("<use_tool"), seen["calls"]) == (1, ["localSearch"]), deltas


def test_the_recorded_answer_is_seen_with_one_block(client: Client) -> None:
    """Story 2.12 AC 5: request HevrLsVQESL3K1M3_3dHi."""
    seen = client.ask(say_cut(RECORDED))
    lead, block = "".join(RECORDED).split(OPENER, 1)
    assert seen["texts"] == {"0": lead + OPENER + block.partition(CLOSER)[0] + CLOSER}
    assert (seen["raw"].count("<use_tool"), seen["finishes"], seen["end"]) == (1, ["tool_calls"], "done")


@pytest.mark.parametrize(
    ("mode", "blocks"), [pytest.param("obsidian-xml", 1, id="xml"), pytest.param("openai-json", 0, id="json")]
)
def test_a_structured_call_is_seen_once(client: Client, mode: str, blocks: int) -> None:
    """Story 2.9 AC 6: as a block and as structure, or as structure alone."""
    call = {"name": "localSearch", "arguments": '{"query":"a < b & 日本語","salientTerms":[]}'}
    seen = client.ask([{"say": [LEAD]}, {"call": call}], mode, tools=[TOOL])
    assert (seen["texts"]["0"].count("<use_tool>"), seen["texts"]["0"].count("</use_tool>")) == (
        blocks,
        blocks,
    )
    assert seen["texts"]["0"].startswith(LEAD)
    assert (seen["calls"], seen["finishes"], seen["end"]) == (["localSearch"], ["tool_calls"], "done")


def test_each_choice_is_seen_with_its_own_block(client: Client) -> None:
    """Story 2.9 AC 6: choices that stream side by side."""
    seen = client.ask(say_cut([LEAD, "<use", "_tool>" + INSIDE + "</use_", "tool>", TAIL]), n=2)
    assert seen["texts"] == {"0": LEAD + BLOCK, "1": LEAD + BLOCK}
    assert (seen["calls"], seen["finishes"]) == (["localSearch"] * 2, ["tool_calls"] * 2)


@pytest.mark.parametrize(
    "step", [pytest.param({"drop": True}, id="stream"), pytest.param({"die": 1}, id="codex")]
)
def test_what_breaks_off_inside_the_block_is_seen_once(client: Client, step: dict[str, Any]) -> None:
    """Stories 2.9 AC 6, 2.12 AC 2, 5: what was held is shown, then the error; it is no call."""
    seen = client.ask([{"say": BEGUN, "pause_s": 0.002, "open": True}, step])
    assert (seen["texts"], seen["error"]) == ({"0": "".join(BEGUN)}, "backend_unavailable")
    assert (seen["raw"].count("<use_tool"), seen["calls"], seen["finishes"]) == (1, [], [])


def test_a_reader_who_leaves_inside_the_block_saw_none_of_it(client: Client) -> None:
    """Stories 2.9 AC 6, 2.12 AC 5: and codex stops, so that the gateway rests."""
    before = read_pipe_log(client.gateway).count("turn/interrupt")
    seen = client.ask([{"say": BEGUN, "open": True}, {"hang": True}], leave_at=": keepalive")
    assert (seen["texts"], seen["calls"], seen["end"]) == ({"0": LEAD}, [], "left")
    assert "use_tool" not in seen["raw"]
    line = wait_until(lambda: find_last_aborted(client.gateway, seen["id"]))
    assert line["tool_buffer_aborted.use_tool.client_left"] == 1
    wait_until(lambda: read_pipe_log(client.gateway).count("turn/interrupt") == before + 1)


def find_last_aborted(gateway: Gateway, request_id: str) -> dict[str, Any]:
    """The log's line of a request, once it has ended."""
    told = [line for line in gateway.lines() if line.get("request_id") == request_id]
    return next((line for line in told if line["logger"] == "access"), {})
