"""The real server, sent requests whose bytes suffered: each is answered or refused in time, nothing stays."""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.fuzz.effort import seeds
from tests.fuzz.mutations import cut, mangle
from tests.fuzz.test_requests import REQUESTS
from tests.support.gateway import SERVE_COUNTED, Gateway, run_gateway, wait_until, write_stand_in

pytestmark = pytest.mark.real

TRIES = 200
CLIENTS = 24
#: What a client is given that says nothing, twice over.
LET_GO_WITHIN_S = 10.0
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ", re.MULTILINE)
BODIES = [
    json.dumps(request["body"]).replace("gpt-5.5", "scripted-model").encode()
    for request in REQUESTS.values()
    # The stand-in says what it was told, and never calls a tool by itself: who demands a call is told so.
    if request["body"].get("tool_choice", "auto") == "auto" and not request["body"].get("background")
]
PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/models",
    "/v1/responses/resp_1",
    "/v1/usage",
    "/",
    "/metrics",
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("bytes")
    with run_gateway(
        folder,
        command=SERVE_COUNTED,
        ready=False,
        CODEX_BIN=write_stand_in(folder),
        PROXY_WARM_PROCESSES="2",
        PROXY_MAX_PROCESSES="2",
        PROXY_MAX_QUEUE="50",
        PROXY_PARK_TTL_S="1",
        PROXY_SOCKET_TIMEOUT_MS="500",
    ) as running:
        running.wait_listening()
        yield running


def test_bytes_that_suffered(gateway: Gateway) -> None:
    assert gateway.chat("Hi").status_code == 200
    before = settle(gateway)
    with ThreadPoolExecutor(CLIENTS) as executor:
        told = list(executor.map(lambda seed: try_one(gateway, seed), seeds(TRIES)))
    assert {b"200", b"400"} <= set(told), "most of it has to get past the door"
    faults = [line for line in gateway.lines() if "exception" in line or line.get("status", 0) >= 500]
    assert (faults, "Traceback" in gateway.log) == ([], False)
    assert gateway.chat("Hi").status_code == 200
    wait_until(lambda: is_within(count(gateway), before), 20)


def try_one(gateway: Gateway, seed: int) -> bytes:
    """The status of the first reply, if there was one."""
    rng = random.Random(seed)
    data = build_bytes(rng)
    about = f"seed {seed}: {data[:2000]!r}"
    began_s = time.monotonic()
    reply = exchange(gateway, data, rng)
    assert time.monotonic() - began_s < LET_GO_WITHIN_S, about
    statuses = STATUS.findall(reply)
    assert not reply or reply.startswith(b"HTTP/1.1 "), about
    assert [status for status in statuses if status >= b"500"] == [], f"{reply[:500]!r} to {about}"
    return statuses[0] if statuses else b""


def build_bytes(rng: random.Random) -> bytes:
    """One request or two, of which something is broken: head, body, how it is framed, or all of it."""
    body, path = rng.choice(BODIES), rng.choice((PATHS[0], PATHS[0], PATHS[1], rng.choice(PATHS)))
    method = rng.choice(("POST", "POST", "POST", "GET", "DELETE", "OPTIONS", "PUT", "HEAD"))
    what = rng.choice(("head", "body", "frame", "all", "none"))
    if what == "body":
        body = mangle(body, rng)
    if rng.random() < 0.4:
        framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in cut(body, rng)) + b"0\r\n\r\n"
        frame, length = mangle(framed, rng) if what == "frame" else framed, b"transfer-encoding: chunked"
    else:
        announced = rng.choice((0, 1, len(body) + 7, len(body) * 3, 10**12)) if what == "frame" else len(body)
        frame, length = body, b"content-length: %d" % announced
    close = rng.choice((b"close", b"close", b"close", b"keep-alive"))
    fields = [b"host: localhost", b"content-type: application/json", b"connection: " + close, length]
    head = b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *fields, b"", b""])
    data = (mangle(head, rng) if what == "head" else head) + frame
    return (mangle(data, rng) if what == "all" else data) * rng.choice((1, 1, 1, 2))


def exchange(gateway: Gateway, data: bytes, rng: random.Random) -> bytes:
    """Send it, in one go or in pieces, and read until the other side closes."""
    host, _, port = gateway.base_url.removeprefix("http://").rpartition(":")
    reply = b""
    with socket.create_connection((host, int(port)), timeout=LET_GO_WITHIN_S) as client:
        # What is refused may be closed upon while it still comes.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in cut(data, rng) if rng.random() < 0.3 and len(data) < 5000 else [data]:
                client.sendall(piece)
            if rng.random() < 0.5:
                client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(65536):
                reply += piece
    return reply


def count(gateway: Gateway) -> dict[str, int]:
    url = f"{gateway.base_url}/counts"
    counted: dict[str, int] = requests.get(url, headers={"connection": "close"}, timeout=10).json()
    return counted | {"codex": len(gateway.codex_pids)}


def settle(gateway: Gateway) -> dict[str, int]:
    wait_until(lambda: len(gateway.codex_pids) == 2)
    return count(gateway)


def is_within(now: dict[str, int], before: dict[str, int]) -> bool:
    return all(now[name] <= before[name] for name in before)
