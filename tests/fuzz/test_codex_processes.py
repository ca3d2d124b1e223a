"""The real server, on processes whose lines are altered on their way: an answer each, in time, no leak."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from tests.fuzz.effort import seeds
from tests.fuzz.judge import judge_reply
from tests.support.meddled import when
from tests.support.places import WARM, Place, run_place
from tests.support.processes import is_running

pytestmark = pytest.mark.real

TRIES = 18
PLACES = 3
#: Two processes may not start in time, and then the model be silent for a while.
BOUND_S = 30
#: What suffered may well come late; what did not has to come in time, on a machine that is busy, too.
PATIENT = {
    "PROXY_PARK_TTL_S": "1",
    "PROXY_RPC_TIMEOUT_MS": "2500",
    "PROXY_START_TIMEOUT_MS": "6000",
    "PROXY_FIRST_EVENT_TIMEOUT_MS": "6000",
    "PROXY_STREAM_IDLE_TIMEOUT_MS": "2500",
}
#: A line that is the first to be altered; behind it others are.
MOMENTS: tuple[dict[str, Any], ...] = (
    *({"after": "initialize"}, {"after": "account/read"}, {"after": "thread/start"}),
    *({"after": "thread/inject_items"}, {"after": "turn/start"}, {"after": "item/started"}),
    *({"after": "item/agentMessage/delta"}, {"after": "rawResponseItem/completed"}),
    *({"after": "rawResponse/completed"}, {"after": "item/tool/call"}, {"after": "turn/completed"}),
    *({"after": "thread/tokenUsage/updated"}, {"after": "account/rateLimits/updated"}),
)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
SCRIPTS: tuple[list[dict[str, Any]], ...] = (
    [{"say": ["one ", "two ", "three"]}],
    [{"think": ["Hm."]}, {"say": ["one"]}, {"limits": {"primary": {"used-percent": 40}}}],
    [{"say": ["Look. "]}, {"call": {"name": "f", "arguments": '{"a":1}'}}],
    [{"call": {"name": "f", "arguments": '{"a":1}'}}, {"call": {"name": "f", "arguments": '{"a":"b"}'}}],
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Place]]:
    with ExitStack() as stack:
        folders = [tmp_path_factory.mktemp(f"mangled-{number}") for number in range(PLACES)]
        start = [(folder, "stand-in", "", True) for folder in folders]
        yield [stack.enter_context(run_place(*each, **WARM, **PATIENT)) for each in start]


def test_processes_that_babble(places: list[Place]) -> None:
    shares = [[*seeds(TRIES)][number::PLACES] for number in range(PLACES)]
    with ThreadPoolExecutor(PLACES) as executor:
        list(executor.map(try_seeds, places, shares))


def try_seeds(place: Place, share: list[int]) -> None:
    for seed in share:
        try_one(place, random.Random(seed), seed)
    lines = place.meddled.gateway.lines()
    assert [line for line in lines if "exception" in line or line.get("status") == 500] == []
    place.recover()


def try_one(place: Place, rng: random.Random, seed: int) -> None:
    plan = when("mangle", seed, **rng.choice(MOMENTS))
    path, body = build_request(rng)
    about = f"seed {seed}, {plan}, {path} {json.dumps(body)}"
    with place.meddled.arm(plan):
        began_s = time.monotonic()
        reply = requests.post(place.meddled.gateway.base_url + path, json=body, timeout=2 * BOUND_S)
        took_s = time.monotonic() - began_s
        code = judge_reply(reply.status_code, reply.content, body, about)
        # What an altered process knows by now, nobody can say.
        for pid in place.meddled.struck:
            if is_running(pid):
                place.meddled.kill_codex(pid)
    assert took_s < BOUND_S, about
    assert code != "internal_error", about


def build_request(rng: random.Random) -> tuple[str, dict[str, Any]]:
    text = json.dumps(rng.choice(SCRIPTS))
    function = {"name": "f", "parameters": PARAMETERS, "strict": rng.random() < 0.3}
    body = {"model": "scripted-model", "stream": rng.random() < 0.6}
    if rng.random() < 0.5:
        said = [{"role": "user", "content": text}]
        tools: list[dict[str, Any]] = [{"type": "function", "function": function}]
        return "/v1/chat/completions", body | {"messages": said, "tools": tools, "n": rng.choice((1, 1, 2))}
    return "/v1/responses", body | {"input": text, "tools": [{"type": "function", **function}]}
