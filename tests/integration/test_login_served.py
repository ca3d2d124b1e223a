"""A login through the real server on the real codex: two workers, a client that leaves, a reload."""

import json
import pathlib
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from app.settings import PAGE_TOKEN
from tests.support.gateway import SERVE_COUNTED, Gateway, run_gateway, wait_until
from tests.support.issuer import USER_CODE, Issuer, write_codex, write_provider
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

TOKEN = "a-token-that-was-printed"
SCRIPT = [{"say": ["told"]}]


@pytest.fixture
def start(tmp_path: pathlib.Path, issuer: Issuer, model: ScriptedModel) -> Iterator[Callable[..., Gateway]]:
    provider = write_provider(tmp_path, issuer, model.base_url)
    environ = {"CODEX_BIN": write_codex(tmp_path, issuer), "PROXY_CODEX_CONFIG_FILE": provider}
    environ |= {PAGE_TOKEN: TOKEN, "PROXY_WARM_PROCESSES": "1"}
    with ExitStack() as stack:

        def run(**more: str) -> Gateway:
            return stack.enter_context(run_gateway(tmp_path, command=SERVE_COUNTED, **(environ | more)))

        yield run


def change(gateway: Gateway, path: str) -> requests.Response:
    headers = {"authorization": f"Bearer {TOKEN}", "connection": "close"}
    url = f"{gateway.base_url}/ui/{path}"
    response = requests.post(url, json={}, headers=headers, timeout=30, stream=path == "login")
    assert response.status_code == 200, response.text
    return response


def read_steps(response: requests.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines(chunk_size=1):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def read_code(steps: Iterator[dict[str, Any]]) -> None:
    step = next(steps)
    assert (step["type"], step["user_code"]) == ("code", USER_CODE)


def count(gateway: Gateway) -> dict[str, int]:
    counted: dict[str, int] = requests.get(f"{gateway.base_url}/counts", timeout=10).json()
    return counted


def ask_often(gateway: Gateway) -> set[int]:
    """What turns come to, on whichever worker."""
    return {gateway.chat(SCRIPT).status_code for _ in range(8)}


def test_every_worker_follows(start: Callable[..., Gateway], issuer: Issuer) -> None:
    gateway = start(WEB_CONCURRENCY="2")
    assert ask_often(gateway) == {502}
    issuer.approve()
    steps = read_steps(change(gateway, "login"))
    read_code(steps)
    assert list(steps) == [{"type": "done"}]
    assert ask_often(gateway) == {200}
    change(gateway, "logout")
    assert ask_often(gateway) == {502}
    assert (USER_CODE in gateway.log, "refresh-1" in gateway.log) == (False, False)


def test_a_client_that_leaves_takes_the_login_with_it(start: Callable[..., Gateway], issuer: Issuer) -> None:
    gateway = start(PROXY_MAX_PROCESSES="1")

    def leave(times: int) -> None:
        response = change(gateway, "login")
        read_code(read_steps(response))
        response.close()
        wait_until(lambda: gateway.log.count('"outcome":"cancelled"') == times)
        # There is one process, and whoever asks has it: the login has given it back.
        wait_until(lambda: gateway.chat(SCRIPT).status_code == 502)

    leave(1)
    # Nothing but what a first login brings.
    rested = wait_until(lambda: find_rest(gateway))
    leave(2)
    wait_until(lambda: all(now <= rested[name] for name, now in count(gateway).items()))
    issuer.approve()
    assert ask_often(gateway) == {502}


def test_a_second_login_ends_the_first(start: Callable[..., Gateway], issuer: Issuer) -> None:
    """As a page that was reloaded has it: there is one process, and the first login has it."""
    gateway = start(PROXY_MAX_PROCESSES="1")
    first = read_steps(change(gateway, "login"))
    read_code(first)
    second = read_steps(change(gateway, "login"))
    read_code(second)
    message = "Another login was begun, which ends this one."
    assert list(first) == [{"type": "failed", "message": message}]
    issuer.approve()
    assert list(second) == [{"type": "done"}]


def find_rest(gateway: Gateway) -> dict[str, int] | None:
    """What the worker holds, if that is what it held a moment ago."""
    before, now = count(gateway), count(gateway)
    return now if before == now else None


def test_a_reload_ends_it(start: Callable[..., Gateway]) -> None:
    gateway = start()
    before = gateway.worker_pids
    steps = read_steps(change(gateway, "login"))
    read_code(steps)
    gateway.process.send_signal(signal.SIGHUP)
    message = "The gateway is stopping; log in again in a moment."
    assert list(steps) == [{"type": "failed", "message": message}]
    wait_until(lambda: not gateway.worker_pids & before)
