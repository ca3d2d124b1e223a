"""Codex processes that are lost while idle, owned or parked, or never come: others do their work."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.support.gateway import wait_until
from tests.support.meddled import Plan, when
from tests.support.places import ANSWERED, BROKEN, BROKEN_OFF, SCRIPT, Place, everywhere, try_everywhere
from tests.support.told import Told, read_body

pytestmark = pytest.mark.real

SAID = "item/agentMessage/delta"
CALLED = {"after": "rawResponse/completed"}
GARBAGE = '}{ garbage, "not" json'


def test_processes_killed_while_idle(warm: list[Place]) -> None:
    def attempt(place: Place) -> Told:
        for pid in place.meddled.gateway.codex_pids:
            place.meddled.kill_codex(pid)
        return place.ask()

    assert try_everywhere(warm, attempt) == everywhere(warm, ANSWERED)


@pytest.mark.parametrize(
    ("script", "said", "told"),
    [
        pytest.param([{"wait": 60}], "turn/start", BROKEN, id="before-the-first-byte"),
        pytest.param([{"say": ["one "]}, {"wait": 60}], SAID, BROKEN_OFF, id="inside-the-text"),
    ],
)
def test_a_process_killed_while_owned(warm: list[Place], script: Any, said: str, told: Told) -> None:
    def attempt(place: Place) -> Told:
        with ThreadPoolExecutor(1) as executor:
            asked = executor.submit(place.ask, script)
            place.meddled.kill_codex(wait_until(lambda: place.meddled.find_inside(said)))
            return asked.result()

    assert try_everywhere(warm, attempt) == everywhere(warm, told)


TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Tells.", "parameters": {"type": "object", "properties": {}}},
}


def call_tool(place: Place) -> list[dict[str, Any]]:
    """Have the model call a tool; the conversation with its result."""
    script = [{"call": {"name": "f", "arguments": "{}"}}, {"then": SCRIPT}]
    called = place.meddled.gateway.chat(script, tools=[TOOL]).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "a result"}
    return [{"role": "user", "content": json.dumps(script)}, called, result]


def tell_result(place: Place, messages: list[dict[str, Any]]) -> tuple[str, Told]:
    """How the conversation went on, and what the client is told."""
    response = place.meddled.gateway.chat("", messages=messages, tools=[TOOL])
    return response.headers["x-proxy-continuation"], read_body(response.status_code, response.json())


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(when("raw", GARBAGE, **CALLED), id="garbage"),
        pytest.param(when("half", **CALLED), id="half-a-line"),
        pytest.param(when("silence", **CALLED), id="silence"),
        pytest.param(when("deaf", **CALLED), id="reads-nothing"),
        # What it said before, and nobody has read, is no sign that it goes on.
        pytest.param(when("hold", CALLED["after"], after="item/started", also="deaf"), id="a-late-word"),
        pytest.param(when("flood", **CALLED), id="endless-flood"),
    ],
)
def test_a_fault_while_parked(warm: list[Place], plan: Plan) -> None:
    """A turn that waits for a tool's result is told again elsewhere, and its answer is the same."""

    def attempt(place: Place) -> Told:
        with place.meddled.arm(plan):
            messages = call_tool(place)
            wait_until(lambda: place.meddled.struck)
        return tell_result(place, messages)[1]

    assert try_everywhere(warm, attempt) == [ANSWERED] * len(warm)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_process_killed_while_parked(warm: list[Place], is_killed: bool) -> None:
    def attempt(place: Place) -> Told:
        messages = call_tool(place)
        parked = wait_until(lambda: place.meddled.find_inside("rawResponse/completed"))
        if is_killed:
            place.meddled.kill_codex(parked)
        continuation, told = tell_result(place, messages)
        assert (continuation == "parked") is not is_killed
        return told

    assert try_everywhere(warm, attempt) == [ANSWERED] * len(warm)


def test_processes_that_never_start_open_a_breaker(warm: list[Place]) -> None:
    """Five in a row: then everyone is told at once that it is not ready; it heals by itself."""
    place = warm[0]
    gateway = place.meddled.gateway
    with place.meddled.arm(when("die", every=True)):
        for pid in gateway.codex_pids:
            place.meddled.kill_codex(pid)
        assert place.ask() == BROKEN
        wait_until(lambda: place.ask() == BROKEN and not is_ready(place))
        began_s = time.monotonic()
        response = gateway.chat(SCRIPT)
        assert time.monotonic() - began_s < 1
        assert (response.status_code, response.json()["error"]["code"]) == BROKEN[::2]
        assert int(response.headers["retry-after"]) > 0
        assert len(place.meddled.struck) >= 5
    wait_until(lambda: is_ready(place), 40)
    place.recover()


def is_ready(place: Place) -> bool:
    return requests.get(f"{place.meddled.gateway.base_url}/readyz", timeout=10).status_code == 200
