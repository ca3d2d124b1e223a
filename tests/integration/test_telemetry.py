"""Usage, metrics, logs and traces under the real server: over two workers, deaths, reloads, broken stores."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from app.backend.last_words import MAX_BYTES, TAIL_BYTES
from app.lib.keys import Role, name_keys
from app.store.usage import FILE_NAME
from tests.integration.conftest import build_client
from tests.support.gateway import (
    ROOT,
    Gateway,
    run_gateway,
    wait_until,
    write_stand_in,
)
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

StartGateway = Callable[..., Gateway]
Samples = dict[str, float]

KEY, ADMIN = "sk-me-0123456789", "sk-admin-0123456789"
#: As logs and usage name the first.
NAME = name_keys((KEY,), "env", Role.CLIENT)[0].name
[MY_NAME] = (key.name for key in name_keys((KEY,), "env", Role.CLIENT))
AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}
AS_CLIENT = {"authorization": f"Bearer {KEY}"}
PAIR = {"WEB_CONCURRENCY": "2", "PROXY_API_KEY": KEY, "PROXY_ADMIN_KEY": ADMIN, "PROXY_WARM_PROCESSES": "1"}
CHAT = "/v1/chat/completions"
#: Of each answer of the stand-in's.
OUTPUT_TOKENS = 20
METERS = "state/meters/*"


def ask(gateway: Gateway, script: Any, key: str = KEY, **more: Any) -> requests.Response:
    """A chat request on a connection of its own, read to the end unless `unread`."""
    is_unread = more.pop("unread", False)
    text = script if isinstance(script, str) else json.dumps(script)
    body = {"model": "scripted-model", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {key}", "connection": "close"} | more.pop("headers", {})
    return requests.post(
        f"{gateway.base_url}{CHAT}", json=body | more, headers=headers, timeout=30, stream=is_unread
    )


def get(gateway: Gateway, path: str, **asked: Any) -> requests.Response:
    headers = AS_ADMIN | {"connection": "close"}
    return requests.get(f"{gateway.base_url}{path}", params=asked, headers=headers, timeout=30)


def read_total(gateway: Gateway, key: str = NAME) -> dict[str, int]:
    """What a key used; the routes that tell it are asked with another one."""
    response = get(gateway, "/v1/usage", key=key)
    assert response.status_code == 200, response.text
    return response.json()["total"]


def read_numbers(gateway: Gateway, key: str = NAME) -> list[int]:
    return [entry["number"] for entry in get(gateway, "/v1/usage/raw", key=key, limit=1000).json()["data"]]


def read_metrics(gateway: Gateway) -> Samples:
    """By name and labels, of all workers."""
    response = requests.get(f"{gateway.base_url}/metrics", headers={"connection": "close"}, timeout=30)
    samples: Samples = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = ",".join(value for _, value in sorted(sample.labels.items()))
            name = sample.name.removeprefix("codex_") + (f"{{{labels}}}" if labels else "")
            assert name not in samples, f"told twice: {name}"
            samples[name] = sample.value
    return samples


ANSWERED = f"requests_total{{scripted-model,{CHAT},200}}"
OUTPUT = "tokens_total{output,scripted-model}"


@contextlib.contextmanager
def only(gateway: Gateway, worker: int) -> Iterator[None]:
    """While this worker serves alone; none of the others is stopped in the middle of a transaction."""
    others = gateway.worker_pids - {worker}
    wait_until(lambda: stop_between_writes(gateway, others))
    try:
        yield
    finally:
        send_signal(others, signal.SIGCONT)


def stop_between_writes(gateway: Gateway, workers: set[int]) -> bool:
    send_signal(workers, signal.SIGSTOP)
    with contextlib.closing(connect(gateway)) as usage:
        try:
            usage.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            send_signal(workers, signal.SIGCONT)
            return False
        usage.execute("ROLLBACK")
    return True


def send_signal(pids: set[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def connect(gateway: Gateway) -> sqlite3.Connection:
    return sqlite3.connect(gateway.state_dir / "usage" / FILE_NAME, isolation_level=None, timeout=0)


@pytest.fixture(scope="module")
def start_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartGateway]:
    """Gateways of two workers on the stand-in; their temporary files are in a folder of their own."""
    with contextlib.ExitStack() as stack:

        def start(folder: pathlib.Path | None = None, **environ: str) -> Gateway:
            folder = folder or tmp_path_factory.mktemp("pair")
            binary = write_stand_in(folder)
            settings = PAIR | {"CODEX_BIN": binary} | environ
            gateway = stack.enter_context(run_gateway(folder, **settings))
            wait_until(lambda: len(gateway.worker_pids) == 2)
            for worker in gateway.worker_pids:
                with only(gateway, worker):  # it learns of the models there are
                    wait_until(lambda: ask(gateway, "hello", ADMIN).ok)
            return gateway

        yield start


@pytest.fixture(scope="module")
def pair(start_pair: StartGateway) -> Gateway:
    return start_pair()


def test_usage_is_right_over_two_workers(pair: Gateway) -> None:
    """Each tells at once what it served itself, and of the other's within a moment; nothing twice."""
    before, numbers = read_total(pair)["requests"], read_numbers(pair)
    for count, worker in enumerate(sorted(pair.worker_pids), 1):
        with only(pair, worker):
            assert ask(pair, "hi", stream=True).status_code == 200
            mine = read_total(pair)["requests"] - before
        # What the other one served is there for certain, if it is this one's turn to wait for it.
        wait_until(lambda count=count: read_total(pair)["requests"] - before == count)
        assert mine in (1, count)
    assert len(read_numbers(pair)) == len(set(read_numbers(pair))) == len(numbers) + 2


def settle(gateway: Gateway) -> Samples:
    """The metrics, once they and the usage tell of every answer that is in the log."""

    def look() -> Samples:
        lines = [line for line in gateway.lines() if (line.get("route"), line.get("status")) == (CHAT, 200)]
        told = read_metrics(gateway)
        kept = read_total(gateway)["requests"]
        is_all = (told[ANSWERED], kept) == (len(lines), sum(line["key"] == NAME for line in lines))
        return told if is_all else {}

    return wait_until(look)


def test_many_requests_at_once_are_counted_once(pair: Gateway) -> None:
    """By the usage and by the meters, of both workers."""
    before, usage = settle(pair), read_total(pair)
    with ThreadPoolExecutor(8) as executor:
        replies = list(executor.map(lambda number: ask(pair, "hi", stream=number % 2 == 0), range(40)))
    assert [reply.status_code for reply in replies] == [200] * 40
    after, total = settle(pair), read_total(pair)
    assert {name: total[name] - usage[name] for name in ("requests", "errors", "output_tokens")} == {
        "requests": 40,
        "errors": 0,
        "output_tokens": 40 * OUTPUT_TOKENS,
    }
    names = ANSWERED, OUTPUT, f"request_seconds_count{{{CHAT}}}", f"streams_total{{{CHAT}}}", "streams_open"
    assert [after[name] - before.get(name, 0) for name in names] == [40, 40 * OUTPUT_TOKENS, 40, 20, 0]


def test_the_meters_of_a_dead_worker(pair: Gateway) -> None:
    """What it counted stays counted, what it had under way is gone; nothing goes down or counts twice."""
    mortal = min(pair.worker_pids)
    with only(pair, mortal):
        ask(pair, "hi")
        stream = ask(pair, [{"say": ["x"]}, {"hang": True}], stream=True, unread=True)
        chunks = stream.iter_content(1)  # kept: it closes the stream when it goes
        assert next(chunks)
    before = settle(pair)
    told = [before]

    def look() -> Samples:
        told.append(read_metrics(pair))
        return told[-1]

    wait_until(lambda: look()["processes{owned}"] == 1)
    os.kill(mortal, signal.SIGKILL)
    wait_until(lambda: look()["streams_open"] == 0)
    wait_until(lambda: look() and len(pair.worker_pids - {mortal}) == 2)
    wait_until(lambda: look()["process_starts_total"] > before["process_starts_total"])
    wait_until(lambda: look()["processes{owned}"] == 0)
    stream.close()
    same = (ANSWERED, OUTPUT, f"request_seconds_count{{{CHAT}}}", "parks_total")
    assert {name: {each[name] for each in told} for name in same} == {name: {before[name]} for name in same}
    starts = [each["process_starts_total"] for each in told]
    assert (before["streams_open"], starts) == (1, sorted(starts))


def test_ids_never_mix(pair: Gateway) -> None:
    """Many streams at once, in two workers: what is said while one is served is under its own id."""
    script = [{"request": {"method": "some/approval", "params": {}}}, {"wait": 0.05}] * 3
    ids = [f"req-{number}" for number in range(24)]

    def send(request_id: str) -> str:
        reply = ask(pair, [*script, {"say": [request_id]}], stream=True, headers={"x-request-id": request_id})
        assert request_id in reply.text
        return reply.headers["x-request-id"]

    with ThreadPoolExecutor(12) as executor:
        assert list(executor.map(send, ids)) == ids
    mine = wait_until(lambda: find_lines(pair, ids, 4 * len(ids)))
    told: dict[str, list[str]] = {}
    pids: dict[str, set[int]] = {}
    for line in mine:
        told.setdefault(line["request_id"], []).append(line["message"])
        pids.setdefault(line["request_id"], set()).add(line.get("codex_pid", 0))
    assert told == {request_id: ["declined some/approval"] * 3 + ["request"] for request_id in ids}
    # A process serves one request at a time: one that told of another's would name a second process.
    assert {len(each) for each in pids.values()} == {2}


def find_lines(gateway: Gateway, ids: list[str], count: int) -> list[dict[str, Any]]:
    found = [line for line in gateway.lines() if line.get("request_id") in ids]
    return found if len(found) == count else []


def test_what_is_no_request_is_accounted_for(pair: Gateway) -> None:
    """Its line and its entry have the id that the answer names; there is no more to tell."""
    host, _, port = pair.base_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"nonsense\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(10_000), b"")).decode()
    [request_id] = re.findall(r"x-request-id: (\S+)", answer)
    [line] = wait_until(lambda: find_lines(pair, [request_id], 1))
    assert (line["status"], line["error"]) == (400, "malformed_request")
    asked = {"key": "(none)", "limit": 1000}
    wait_until(lambda: request_id in get(pair, "/v1/usage/raw", **asked).text)


LIMITS = {
    "x-codex-primary-used-percent": "42",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "4000000000",
}
SECONDARY = {name.replace("primary", "secondary"): value for name, value in LIMITS.items()}
WINDOW = {"used_percent": 42, "window_minutes": 300, "resets_at": 4000000000}


def read_limits(gateway: Gateway) -> dict[str, Any]:
    limits = get(gateway, "/v1/usage").json()["account_limits"] or {}
    return {name: limits.get(name) for name in ("plan", "primary", "secondary")}


def test_limits_are_seen_from_another_worker(pair: Gateway) -> None:
    """What one tells adds to what another told."""
    expected: dict[str, Any] = {"plan": None, "primary": None, "secondary": None}
    for worker, headers, window in zip(
        sorted(pair.worker_pids), (LIMITS, SECONDARY), ("primary", "secondary"), strict=True
    ):
        with only(pair, worker):
            assert ask(pair, [{"limits": headers}, {"say": ["x"]}]).status_code == 200
            expected |= {window: WINDOW}
            assert read_limits(pair) == expected
    for worker in pair.worker_pids:
        with only(pair, worker):
            assert read_limits(pair) == expected


def test_nothing_is_lost_by_a_reload_and_a_restart(start_pair: StartGateway) -> None:
    """Sums, entries and limits of the usage; and the meters go on at a reload."""
    gateway = start_pair()
    ask(gateway, [{"limits": LIMITS}, {"say": ["x"]}])
    for _ in range(5):
        ask(gateway, "hi", stream=True)
    total = wait_until(lambda: read_total(gateway)["requests"] == 6 and read_total(gateway))
    numbers, limits = read_numbers(gateway), read_limits(gateway)
    wait_until(lambda: read_metrics(gateway)[ANSWERED] == 8)
    workers = gateway.worker_pids
    ask(gateway, "one more, and the word to reload on its heels")
    gateway.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not workers & gateway.worker_pids and len(gateway.worker_pids) == 2, 20)
    wait_until(lambda: read_metrics(gateway)["processes{idle}"] == 2)
    assert read_metrics(gateway)[ANSWERED] == 9
    more = {name: total[name] * 7 // 6 for name in total}
    assert (read_total(gateway), read_numbers(gateway)[1:], read_limits(gateway)) == (more, numbers, limits)
    assert len([*gateway.folder.glob(METERS)]) == 1
    ask(gateway, "one more, and the word to stop on its heels")
    assert gateway.stop() == 0
    again = start_pair(gateway.folder)
    most = {name: total[name] * 8 // 6 for name in total}
    assert (read_total(again), read_numbers(again)[2:], read_limits(again)) == (most, numbers, limits)


def find_meters(gateway: Gateway) -> list[int]:
    """The servers that have a folder of meters."""
    return [int(path.name) for path in gateway.folder.glob(METERS)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_stops_leaves_no_meters(tmp_path: pathlib.Path, how: int) -> None:
    with run_small(tmp_path) as gateway:
        assert find_meters(gateway) == [gateway.process.pid]
        gateway.stop(how)
        assert find_meters(gateway) == []


def test_a_server_removes_what_a_killed_one_left(tmp_path: pathlib.Path) -> None:
    """And what a living one has it leaves alone."""
    with run_small(tmp_path) as killed, run_small(tmp_path) as living:
        killed.kill()
        assert sorted(find_meters(killed)) == sorted((killed.process.pid, living.process.pid))
        with run_small(tmp_path) as next_one:
            assert sorted(find_meters(next_one)) == sorted((living.process.pid, next_one.process.pid))


@contextlib.contextmanager
def run_small(folder: pathlib.Path, **environ: str) -> Iterator[Gateway]:
    """One worker on the stand-in; several such may share a state folder."""
    own = folder / f"gateway-{time.monotonic_ns()}"
    own.mkdir()
    (folder / "state").mkdir(exist_ok=True)
    (own / "state").symlink_to(folder / "state")
    settings = {"CODEX_BIN": write_stand_in(own), "PROXY_WARM_PROCESSES": "1"}
    with run_gateway(own, **(settings | environ)) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One worker, for what breaks its store or its processes."""
    with run_small(tmp_path_factory.mktemp("single"), **(PAIR | {"WEB_CONCURRENCY": "1"})) as gateway:
        yield gateway


WAITS = "waits for the store"


def count_waits(gateway: Gateway) -> int:
    return gateway.log.count(WAITS)


def answer_quickly(gateway: Gateway, count: int = 5) -> float:
    """The longest that one of some answers took."""
    times = []
    for number in range(count):
        began_s = time.monotonic()
        assert ask(gateway, "hi", stream=number % 2 == 0).status_code == 200
        times.append(time.monotonic() - began_s)
    return max(times)


def test_a_locked_usage_file_slows_no_answer(single: Gateway) -> None:
    """By another process, for longer than anyone waits; what was asked meanwhile comes when it is free."""
    before, waits = read_total(single)["requests"], count_waits(single)
    with contextlib.closing(connect(single)) as other:
        other.execute("BEGIN IMMEDIATE")
        slowest_s = answer_quickly(single)
        refused = get(single, "/v1/usage")  # which has to wait
        slowest_s = max(slowest_s, answer_quickly(single))
        wait_until(lambda: count_waits(single) > waits)
        other.execute("ROLLBACK")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
    assert slowest_s < 1
    wait_until(lambda: get(single, "/v1/usage").ok)
    assert (read_total(single)["requests"] - before, count_waits(single) - waits) == (10, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_bytes(b"garbage!" * 4096), id="garbage"),
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: os.truncate(path, 5000), id="cut"),
    ],
)
def test_a_usage_file_that_is_spoilt_is_made_anew(
    single: Gateway, spoil: Callable[[pathlib.Path], None]
) -> None:
    """What it held is lost, or set aside; what comes is kept."""
    path = single.state_dir / "usage" / FILE_NAME
    answer_quickly(single, 1)
    wait_until(lambda: get(single, "/v1/usage").ok)
    spoil(path)
    assert answer_quickly(single) < 1
    wait_until(lambda: get(single, "/v1/usage").ok)
    assert ask(single, "kept", headers={"x-request-id": "kept"}).ok
    assert "kept" in [entry["request_id"] for entry in get(single, "/v1/usage/raw").json()["data"]]


def test_a_usage_folder_in_the_way_slows_no_answer(single: Gateway) -> None:
    """A file stands where it was; one warning, however long; then it is made anew, with what waited."""
    folder, waits = single.state_dir / "usage", count_waits(single)
    aside = folder.with_name("usage-aside")
    wait_until(lambda: put_in_the_way(folder, aside))
    slowest_s = answer_quickly(single)
    wait_until(lambda: count_waits(single) > waits)
    refused = get(single, "/v1/usage")
    slowest_s = max(slowest_s, answer_quickly(single))
    folder.unlink()
    wait_until(lambda: get(single, "/v1/usage").ok)
    assert (refused.status_code, slowest_s < 1, count_waits(single)) == (503, True, waits + 1)
    routes = [entry["route"] for entry in get(single, "/v1/usage/raw", limit=100).json()["data"]]
    assert routes.count(CHAT) == 10


def put_in_the_way(folder: pathlib.Path, aside: pathlib.Path) -> bool:
    """A file in a folder's place, unless somebody makes the folder anew at the very moment."""
    if folder.is_dir():
        folder.rename(aside)
    try:
        with open(folder, "x"):
            return True
    except FileExistsError:
        aside = aside.with_name(f"usage-{time.monotonic_ns()}")
        return False


def find_stderr(gateway: Gateway) -> dict[str, int]:
    """How long the files are into which processes write it."""
    paths = (gateway.state_dir / "processes").glob("*/stderr")
    return {path.parent.name: path.stat().st_size for path in paths if path.exists()}


SECRET = "sk-proj-0123456789abcdef"


def test_what_codex_writes_to_stderr_is_bounded_and_its_end_told(single: Gateway) -> None:
    """Megabytes, more than once; and the failure that they end in shows the last of them, without secrets."""
    flood = {"babble": "x" * 1000, "times": 3000, "until_cut": MAX_BYTES, "pause_s": 0.3}
    script = [{"say": ["a"]}, flood, flood]
    last = {"babble": f"thread main panicked at its wits end, with {SECRET}\n"}
    lengths: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        asked = executor.submit(ask, single, [*script, last, {"die": 7}], headers={"x-request-id": "babbler"})
        wait_until(lambda: lengths.append(max(find_stderr(single).values(), default=0)) or asked.done(), 15)
    assert asked.result().json()["error"]["code"] == "backend_unavailable"
    # Twice it was long, and twice it was cut; never was the second on top of the first.
    assert (max(lengths) <= 3_000_000 + TAIL_BYTES, count_falls(lengths)) == (True, 2)
    [died] = wait_until(lambda: [line for line in single.lines() if line.get("exit") == 7])
    assert died["message"] == "a codex process ended by itself"
    assert died["stderr"].endswith("panicked at its wits end, with [redacted]\n")
    assert len(died["stderr"]) <= 2000
    assert SECRET not in single.log


def count_falls(lengths: list[int]) -> int:
    return sum(before > MAX_BYTES > after for before, after in itertools.pairwise(lengths))


def test_a_process_that_never_says_hello_writes_no_more_than_that(tmp_path: pathlib.Path) -> None:
    """While whoever started it waits for it, too."""
    binary = pathlib.Path(write_stand_in(tmp_path))
    babbler = tmp_path / "babbler"
    babbler.write_text(
        '#!/bin/sh\ncase "$*" in *app-server*) head -c 3000000 /dev/zero >&2; exec sleep 60;; esac\n'
        f'exec {binary} "$@"\n'
    )
    babbler.chmod(0o755)
    settings = {"CODEX_BIN": str(babbler), "PROXY_WARM_PROCESSES": "1"}
    with run_gateway(tmp_path, ready=False, **settings) as gateway:
        wait_until(lambda: max(find_stderr(gateway).values(), default=0) == 3_000_000)
        wait_until(lambda: 0 < max(find_stderr(gateway).values(), default=0) < MAX_BYTES, 5)


def run_trace(gateway: Gateway, request_id: str) -> list[str]:
    command = [sys.executable, "-m", "app", "trace", request_id, str(gateway.log_path)]
    return subprocess.check_output(command, cwd=ROOT, text=True).splitlines()


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
def test_a_trace_tells_of_the_process_that_died(single: Gateway, stream: bool) -> None:
    """Among the lines of others, that it did so and what it said."""
    mine, other = f"mine-{stream}", f"other-{stream}"
    script = [{"say": ["x"]}, {"wait": 0.2}, {"babble": f"out of {mine}\n"}, {"die": 9}]
    ask(single, "hi", headers={"x-request-id": other})
    ask(single, script, stream=stream, headers={"x-request-id": mine})
    ask(single, "hi", headers={"x-request-id": f"{other}-too"})
    wait_until(lambda: f"out of {mine}\\n" in single.log)
    lines = run_trace(single, mine)
    told = [message for line in lines for message in MESSAGES if f" {message} {{" in line]
    assert sorted(told) == ["a codex process ended by itself", "a codex process is out of step", "request"]
    assert len(lines) == 3
    assert [line for line in lines if f"out of {mine}" in line and '"exit":9' in line]
    assert [line for line in run_trace(single, other) if " request {" not in line] == []


MESSAGES = ("request", "a codex process is out of step", "a codex process ended by itself")


@pytest.fixture
def limits(model: ScriptedModel, gateway: Gateway) -> dict[str, str]:
    """What upstream tells, by the real codex's own names; times are some way off."""
    now_s = int(time.time())
    return {
        "x-codex-primary-used-percent": "42.4",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(now_s + 3600),
        "x-codex-secondary-used-percent": "7",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(now_s + 360_000),
    }


def read_limit_headers(reply: requests.Response) -> dict[str, str]:
    prefix = "x-ratelimit-codex-"
    return {
        name.removeprefix(prefix): reply.headers[name] for name in reply.headers if name.startswith(prefix)
    }


def test_the_limits_of_the_account(gateway: Gateway, limits: dict[str, str]) -> None:
    """Through the real codex: on the reply and in the usage; the silence of the next one takes nothing."""
    reply = gateway.chat([{"limits": limits}, {"say": ["x"]}])
    headers = read_limit_headers(reply)
    resets = {name: int(headers.pop(f"{name}-reset").removesuffix("s")) for name in ("primary", "secondary")}
    assert headers == {
        "primary-used-percent": "42",
        "primary-window-minutes": "300",
        "secondary-used-percent": "7",
        "secondary-window-minutes": "10080",
    }
    assert (3590 <= resets["primary"] <= 3600, 359_990 <= resets["secondary"] <= 360_000) == (True, True)
    for script in (["hi"], [{"limits": {name: limits[name] for name in limits if "primary" in name}}]):
        assert gateway.chat([*script] if isinstance(script[0], dict) else "hi").status_code == 200
    told = get(gateway, "/v1/usage").json()["account_limits"]
    assert 0 <= time.time() - told.pop("told_at") < 30
    assert told == {
        "plan": None,
        "primary": {
            "used_percent": 42,
            "window_minutes": 300,
            "resets_at": int(limits["x-codex-primary-reset-at"]),
        },
        "secondary": {
            "used_percent": 7,
            "window_minutes": 10080,
            "resets_at": int(limits["x-codex-secondary-reset-at"]),
        },
    }


@pytest.mark.parametrize(
    ("full", "wait_s"),
    [pytest.param("primary", 3600, id="hours"), pytest.param("secondary", 360_000, id="days")],
)
@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
def test_a_used_up_account_says_when_it_is_back(
    gateway: Gateway, limits: dict[str, str], full: str, wait_s: int, stream: bool
) -> None:
    """At the end of the window that is full; no SDK is to try before."""
    limits |= {f"x-codex-{full}-used-percent": "100"}
    error = {"type": "usage_limit_reached", "plan_type": "plus"}
    reply = gateway.chat([{"http": 429, "error": error, "headers": limits}], stream=stream)
    told = reply.json()["error"]
    assert (reply.status_code, told["type"], told["code"], reply.headers["x-should-retry"]) == (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "false",
    )
    assert 0 <= wait_s - int(reply.headers["retry-after"]) <= 10
    assert read_limit_headers(reply)[f"{full}-used-percent"] == "100"


def test_the_sdk_is_told_that_there_is_nothing_left(gateway: Gateway, limits: dict[str, str]) -> None:
    script = [{"http": 429, "error": {"type": "usage_limit_reached"}, "headers": limits}]
    client = build_client(gateway).with_options(max_retries=5)
    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(
            model="scripted-model", messages=[{"role": "user", "content": json.dumps(script)}]
        )
    assert (raised.value.type, int(raised.value.response.headers["retry-after"]) > 3000) == (
        "insufficient_quota",
        True,
    )
