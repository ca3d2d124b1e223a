"""The pool under the real server: who gets a process, when, and what happens when there is none."""

import json
import os
import pathlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import codex_cli_bin
import pytest
import requests

from tests.integration.test_continuing import TOOLS, Talk, ask, call
from tests.integration.test_server import open_stream
from tests.support.gateway import Gateway, run_gateway, wait_until, write_provider, write_stand_in
from tests.support.processes import is_running
from tests.support.scripted_model import ScriptedModel
from tests.support.sse import split_frames
from tests.support.token_server import TokenServer, write_login

pytestmark = pytest.mark.real

StartGateway = Callable[..., Gateway]


def read_pipe(gateway: Gateway) -> list[dict[str, Any]]:
    """What went over the pipes, from the stand-in's log."""
    path = gateway.state_dir / "empty" / "pipe.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def count_sent(gateway: Gateway, method: str) -> int:
    return sum(line["msg"].get("method") == method for line in read_pipe(gateway))


def takes_requests(gateway: Gateway) -> bool:
    try:
        return requests.get(f"{gateway.base_url}/livez", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_requests_wait_in_the_order_of_their_arrival(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="1")
    ended: list[int] = []

    def read(number: int, client: socket.socket) -> None:
        with client:
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        ended.append(number)

    with ThreadPoolExecutor(8) as executor:
        for number in range(8):
            client = open_stream(gateway, [{"wait": 0.15}, {"say": ["x"]}], stream=False)
            # Behind the reply to this, the worker has the one before: in its turn, or in the line.
            assert takes_requests(gateway)
            executor.submit(read, number, client)
    assert ended == list(range(8))


def test_a_line_that_is_full_turns_requests_away_at_once(stand_in: StartGateway) -> None:
    gateway = stand_in({"log": "pipe.jsonl"}, PROXY_MAX_PROCESSES="1", PROXY_MAX_QUEUE="1")

    def send(number: int) -> tuple[requests.Response, float]:
        began_s = time.monotonic()
        return gateway.chat(f"{number}"), time.monotonic() - began_s

    with ThreadPoolExecutor(5) as executor:
        first = executor.submit(gateway.chat, [{"wait": 2}, {"say": ["x"]}])
        wait_until(lambda: count_sent(gateway, "turn/start"))
        replies = sorted(executor.map(send, range(4)), key=lambda reply: reply[0].status_code)
        assert first.result().status_code == 200
    (served, _), *refused = replies
    assert served.status_code == 200
    assert [each.json()["error"]["code"] for each, _ in refused] == ["gateway_busy"] * 3
    assert all(each.status_code == 429 and int(each.headers["retry-after"]) > 0 for each, _ in refused)
    assert max(took_s for _, took_s in refused) < 1.5


def test_only_so_many_turns_start_at_once(stand_in: StartGateway) -> None:
    gateway = stand_in(
        {"log": "pipe.jsonl", "on": {"turn/start": "late:0.6"}},
        PROXY_WARM_PROCESSES="4",
        PROXY_MAX_STARTING="2",
    )
    wait_until(lambda: len(gateway.codex_pids) == 4)
    with ThreadPoolExecutor(6) as executor:
        assert [each.status_code for each in executor.map(gateway.chat, ["hi"] * 6)] == [200] * 6
    starting, most = 0, 0
    ids = set()
    for line in read_pipe(gateway):
        message = line["msg"]
        if message.get("method") == "turn/start":
            ids.add((line["pid"], message["id"]))
            starting += 1
        elif (line["pid"], message.get("id")) in ids and "result" in message:
            starting -= 1
        most = max(most, starting)
    assert most == 2


def test_a_process_that_grew_is_replaced(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_PROCESS_MAX_RSS_MB="1")
    [first] = gateway.codex_pids
    # A new one may serve, however large: or spares would be started and ended without end.
    threading.Event().wait(1.5)
    assert gateway.codex_pids == {first}
    assert gateway.chat("hi").status_code == 200
    wait_until(lambda: not is_running(first))
    assert gateway.chat("hi").status_code == 200


def test_a_burst_beyond_the_processes_is_served(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="4", PROXY_WARM_PROCESSES="2")
    with ThreadPoolExecutor(40) as executor:
        texts = list(executor.map(lambda number: gateway.chat(f"{number}").json(), range(40)))
    assert [each["choices"][0]["message"]["content"] for each in texts] == [f"echo: {n}" for n in range(40)]
    assert len(gateway.codex_pids) <= 4


def is_ready(gateway: Gateway) -> bool:
    return requests.get(f"{gateway.base_url}/readyz", timeout=10).status_code == 200


@pytest.mark.parametrize("warm", ["0", "1"])
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param({"boot": "die"}, 503, id="at-boot"),
        pytest.param({"on": {"thread/start": "die"}}, 503, id="at-a-thread"),
        pytest.param({"on": {"initialize": "error"}}, 502, id="refusing-hello"),
    ],
)
def test_a_binary_that_keeps_dying_is_left_alone_and_heals(
    stand_in: StartGateway, tmp_path: pathlib.Path, warm: str, fault: dict[str, Any], status: int
) -> None:
    gateway = stand_in(fault, ready=False, PROXY_WARM_PROCESSES=warm)
    gateway.wait_listening()
    seen = [gateway.chat("hi") for _ in range(6)]
    assert {each.status_code for each in seen} <= {status, 503}
    wait_until(lambda: gateway.chat("hi").json()["error"]["message"].startswith("Codex processes keep"))
    began_s = time.monotonic()
    refused = gateway.chat("hi", stream=True)
    assert (refused.status_code, time.monotonic() - began_s < 0.5) == (503, True)
    assert int(refused.headers["retry-after"]) >= 1
    assert not is_ready(gateway)
    write_stand_in(tmp_path)
    wait_until(lambda: is_ready(gateway), 20)
    wait_until(lambda: gateway.chat("hi").status_code == 200)


@pytest.mark.parametrize(
    ("environ", "script", "message"),
    [
        pytest.param(
            {"PROXY_FIRST_EVENT_TIMEOUT_MS": "400"},
            [{"hang": True}],
            "Codex was silent for 0.4 s.",
            id="first",
        ),
        pytest.param(
            {"PROXY_STREAM_IDLE_TIMEOUT_MS": "400"},
            [{"say": ["x"]}, {"hang": True}],
            "Codex was silent for 0.4 s.",
            id="silence",
        ),
        pytest.param(
            {"PROXY_FIRST_EVENT_TIMEOUT_MS": "700"},
            [{"retry": "Reconnecting"}, {"wait": 0.3}] * 20,
            "Codex was silent for 0.7 s.",
            id="retries-without-end",
        ),
        pytest.param(
            {"PROXY_TIMEOUT_MS": "600"},
            [{"say": ["x "] * 100, "pause_s": 0.05}],
            "The turn took longer than 0.6 s.",
            id="all-of-it",
        ),
    ],
)
def test_a_deadline_ends_in_an_interrupt(
    stand_in: StartGateway, environ: dict[str, str], script: Any, message: str
) -> None:
    gateway = stand_in({"log": "pipe.jsonl"}, PROXY_COMMIT_AFTER_MS="400", **environ)
    pids = gateway.codex_pids
    response = gateway.chat(script)
    assert (response.status_code, response.json()["error"]["message"]) == (504, message)
    wait_until(lambda: count_sent(gateway, "turn/interrupt") == 1)
    assert (gateway.chat("next").status_code, gateway.codex_pids) == (200, pids)


def test_a_stop_takes_no_more_requests_and_lets_those_end_that_run(stand_in: StartGateway) -> None:
    gateway = stand_in()
    running = gateway.chat([{"say": ["a"]}, {"wait": 2}, {"say": ["b"]}], stream=True)
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: not takes_requests(gateway), 2)
    assert split_frames(running.text)[-1] == "data: [DONE]"
    assert gateway.process.wait(10) == 0


def test_a_reload_cuts_no_stream_that_ends_in_time(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_GRACEFUL_TIMEOUT_MS="7000")
    before = gateway.worker_pids
    short = gateway.chat([{"say": ["a"]}, {"wait": 1.2}, {"say": ["b"]}], stream=True)
    long = gateway.chat([{"say": ["a"]}, {"hang": True}], stream=True)
    gateway.process.send_signal(signal.SIGHUP)
    wait_until(lambda: gateway.worker_pids - before)
    assert gateway.chat("meanwhile").status_code == 200
    frames = split_frames(short.text)
    assert ('"content":"b"' in frames[-3], frames[-1]) == (True, "data: [DONE]")
    frames = split_frames(long.text)
    assert json.loads(frames[-2].removeprefix("data: "))["error"]["code"] == "gateway_stopping"
    assert frames[-1] == "data: [DONE]"
    wait_until(lambda: not any(is_running(pid) for pid in before))
    wait_until(lambda: len(gateway.worker_pids) == 1)


def test_two_workers_answer_the_same(stand_in: StartGateway) -> None:
    """A follow-up that lands on the other worker is told anew there."""
    gateway = stand_in(WEB_CONCURRENCY="2")

    def converse(number: int) -> tuple[str, list[str]]:
        talk = Talk(gateway, ask([call("Paris"), {"then": [{"say": [f"Told {number}."]}]}]), tools=TOOLS)
        talk.give(talk.call(), "18")
        tiers = [talk.go_on()[0]]
        talk.messages.append({"role": "user", "content": f"more {number}"})
        return talk.messages[-2]["content"], [*tiers, talk.go_on()[1]["content"]]

    talked = [converse(number) for number in range(16)]
    assert [text for text, _ in talked] == [f"Told {number}." for number in range(16)]
    assert [more for _, [_, more] in talked] == [f"echo: more {number}" for number in range(16)]
    tiers = {tier for _, [tier, _] in talked}
    assert ("parked" in tiers, len(tiers) > 1) == (True, True)


def test_no_child_outlives_a_killed_worker(tmp_path: pathlib.Path, model: ScriptedModel) -> None:
    """The real binary: idle, running and parked, it notices the closed pipe."""
    provider = write_provider(tmp_path, model.base_url)
    with run_gateway(tmp_path, PROXY_CODEX_CONFIG_FILE=provider, PROXY_WARM_PROCESSES="1") as gateway:
        Talk(gateway, ask([call("Paris")]), tools=TOOLS).call()
        running = gateway.chat([{"say": ["x"]}, {"wait": 60}], stream=True)
        next(running.iter_content(10))
        children = wait_until(lambda: gateway.codex_pids if len(gateway.codex_pids) == 3 else set())
        [worker] = gateway.worker_pids
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not any(is_running(pid) for pid in children), 5)


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


def test_one_process_of_all_refreshes_the_login(tmp_path: pathlib.Path, tokens: TokenServer) -> None:
    """Ten minutes ahead, and nobody is replaced for it: the others read the file."""
    auth = write_login(tmp_path / "state" / "codex-home", ends_in_s=500)
    binary = tmp_path / "codex"
    binary.write_text(
        f"#!/bin/sh\nexport CODEX_REFRESH_TOKEN_URL_OVERRIDE={tokens.url}\n"
        f'exec {codex_cli_bin.bundled_codex_path()} "$@"\n'
    )
    binary.chmod(0o755)
    with run_gateway(tmp_path, CODEX_BIN=str(binary), WEB_CONCURRENCY="2", PROXY_DEMO="true") as gateway:
        wait_until(lambda: "refreshed-1" in auth.read_text())
        pids = wait_until(lambda: gateway.codex_pids if len(gateway.codex_pids) >= 4 else set())
        assert gateway.chat("hi", model="demo").status_code == 200
        # Two rounds of the keeper: long enough for a second refresh, or for somebody to be replaced.
        threading.Event().wait(2.5)
        assert (tokens.asked, pids - gateway.codex_pids) == (["first"], set())
        write_login(tmp_path / "state" / "codex-home", ends_in_s=3600, account="another")
        wait_until(lambda: not pids & gateway.codex_pids)
