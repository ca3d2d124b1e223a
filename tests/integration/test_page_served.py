"""The first page under the real server: who watches, at several workers, and when they stop."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import signal
import socket
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.gateway import Gateway, run_gateway, wait_until, write_stand_in

pytestmark = pytest.mark.real

WARM = 2


@pytest.fixture
def gateway(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    settings = {"CODEX_BIN": write_stand_in(tmp_path), "PROXY_WARM_PROCESSES": str(WARM)}
    with run_gateway(tmp_path, WEB_CONCURRENCY="2", PROXY_SOCKET_TIMEOUT_MS="500", **settings) as gateway:
        yield gateway


@contextlib.contextmanager
def watch(gateway: Gateway) -> Iterator[Iterator[dict[str, Any]]]:
    """What the live view is told, frame by frame."""
    with requests.get(f"{gateway.base_url}/ui/live", stream=True, timeout=20) as response:
        lines = (line for line in response.iter_lines() if line.startswith(b"data: "))
        yield (json.loads(line.removeprefix(b"data: ")) for line in lines)


def count_ended(gateway: Gateway) -> int:
    return sum(line.get("route") == "/ui/live" for line in gateway.lines())


def read_token(gateway: Gateway) -> str:
    [token] = re.findall(r"^Page: \S+/#token=(\S+)$", gateway.log, re.MULTILINE)
    return str(token)


def log_out(gateway: Gateway, token: str) -> int:
    headers = {"authorization": f"Bearer {token}", "connection": "close"}
    return requests.post(f"{gateway.base_url}/ui/logout", json={}, headers=headers, timeout=20).status_code


def test_any_worker_tells_of_all(gateway: Gateway) -> None:
    """Whichever answered, and whichever is asked; the processes of both."""
    answers = [gateway.chat([{"say": ["Hi"]}]) for _ in range(6)]
    asked = {answer.headers["x-request-id"] for answer in answers}
    for _ in range(4):
        with watch(gateway) as told:
            listed: set[str] = set()
            idle = 0
            while listed != asked or idle < 2 * WARM:
                frame = next(told)
                listed |= {entry["request_id"] for entry in frame.get("data", ())}
                idle = frame.get("idle", idle)


def test_who_reads_nothing_is_let_go(gateway: Gateway) -> None:
    """What there is to tell first is more than a client that reads nothing has room for."""
    for _ in range(60):
        gateway.chat([{"say": ["Hi"]}])
    address = urllib.parse.urlsplit(gateway.base_url)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect((address.hostname, address.port))
            client.sendall(b"GET /ui/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: count_ended(gateway) == 3, 15)


def test_a_stop_ends_every_stream(gateway: Gateway) -> None:
    with watch(gateway) as first, watch(gateway) as second:
        assert [next(each)["type"] for each in (first, second)] == ["history", "history"]
        gateway.process.send_signal(signal.SIGTERM)
        # Each comes to its proper end, which `requests` would complain of otherwise.
        assert all(
            {frame["type"] for frame in each} <= {"requests", "now", "sample"} for each in (first, second)
        )
    assert gateway.process.wait(10) == 0


def test_the_token_that_was_printed(gateway: Gateway) -> None:
    """It is every worker's, a reload leaves it as it is, and it stands in no line of the log."""
    token = read_token(gateway)
    assert {log_out(gateway, token) for _ in range(6)} == {200}
    before = gateway.worker_pids
    gateway.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(gateway.worker_pids) == 2 and not gateway.worker_pids & before, 20)
    assert [log_out(gateway, token), log_out(gateway, f"{token}x")] == [200, 403]
    assert token not in json.dumps(gateway.lines())


def test_to_ask_about_the_account_ends_no_parked_turn(tmp_path: pathlib.Path) -> None:
    """The only process waits for a tool's result: whoever opens the page is told what is known without it."""
    settings = {"CODEX_BIN": write_stand_in(tmp_path), "PROXY_MAX_PROCESSES": "1"}
    with run_gateway(tmp_path, **settings) as gateway:
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
        script = [{"call": {"name": "look", "arguments": "{}"}}, {"then": [{"say": ["Done."]}]}]
        asked = {"role": "user", "content": json.dumps(script)}
        called = gateway.chat("", messages=[asked], tools=tools).json()["choices"][0]["message"]
        status = requests.get(f"{gateway.base_url}/ui/status", timeout=20).json()
        result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "x"}
        answer = gateway.chat("", messages=[asked, called, result], tools=tools)
        assert status["codex"]["is_ready"]
        assert (answer.status_code, answer.headers["x-proxy-continuation"]) == (200, "parked"), answer.text
