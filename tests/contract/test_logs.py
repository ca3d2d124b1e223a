"""What is written down: a line a request, what is said meanwhile under its id, and no word of anybody's."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from app.lib.errors import BackendUnavailable
from app.lib.events import BackendEvent, Placed
from app.lib.placement import Origin, Tier
from app.lib.request import ToolTransport
from app.settings import Settings
from tests.contract.conftest import BODY, OBSIDIAN, Ask, Post
from tests.support.gateway import ROOT
from tests.support.scripted_backend import Anew, ScriptedBackend, Step, end, say

Capture = pytest.CaptureFixture[str]
ReadLines = Callable[[], list[dict[str, Any]]]

DEBUG = Settings(log_level="DEBUG")
TOOLS = [{"type": "function", "function": {"name": "f"}}]
FUNCTIONS = [{"name": "f"}]
HALF_BLOCK = "<use_tool><a"
BLOCK = "<use_tool><name>f</name></use_tool>"
TEXT_CALL = '<tool_call>{"name":"f","arguments":{"a":1,}}</tool_call>'


@pytest.fixture
def read_lines(app: flask.Flask, capfd: Capture) -> ReadLines:
    """The lines as they left the process."""
    return lambda: [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def warn(text: str) -> list[BackendEvent]:
    """As a backend does, in whatever room: nobody hands it the request's id."""
    logging.getLogger("app.backend.turn").warning(text)
    return []


@pytest.mark.parametrize(
    ("gateway_settings", "request_", "expected"),
    [
        pytest.param(Settings(), {}, {}, id="no-tools"),
        pytest.param(Settings(), {"tools": []}, {}, id="a-list-of-no-tools"),
        pytest.param(
            Settings(),
            {"tools": TOOLS},
            {"tools": 1, "tool_names": ["f"], "transport": "native"},
            id="native",
        ),
        pytest.param(
            Settings(tool_transport=ToolTransport.SENTINEL),
            {"tools": TOOLS},
            {"tools": 1, "tool_names": ["f"], "transport": "sentinel"},
            id="sentinel",
        ),
        pytest.param(
            Settings(),
            {"functions": FUNCTIONS},
            {"tools": 1, "tool_names": ["f"], "transport": "native"},
            id="functions",
        ),
        pytest.param(
            Settings(),
            {"tools": [{"type": "function", "function": {"name": f"f{number}"}} for number in range(60)]},
            {"tools": 60, "tool_names": [f"f{number}" for number in range(50)], "transport": "native"},
            id="many",
        ),
    ],
)
def test_how_tools_were_offered(
    post: Post,
    backend: ScriptedBackend,
    read_lines: ReadLines,
    request_: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    backend.script = [say("Hi"), end()]
    post(**request_)
    [line] = read_lines()
    assert {name: line[name] for name in ("tools", "tool_names", "transport") if name in line} == expected


def test_what_is_said_meanwhile_has_the_requests_id(
    post: Post, backend: ScriptedBackend, read_lines: ReadLines
) -> None:
    """Before the answer, in it and at its end; and once it is over, it is over."""
    backend.script = Anew(lambda: iter([warn("in it"), say("Hi"), warn("in it"), end()]))
    for request_id, stream in (("first", False), ("second", True)):
        post(headers={"x-request-id": request_id}, stream=stream)
        warn("between")
    told = [(line["message"], line.get("request_id")) for line in read_lines()]
    one, other = (
        [("in it", request_id), ("in it", request_id), ("request", request_id), ("between", None)]
        for request_id in ("first", "second")
    )
    assert told == one + other


def test_a_client_that_left_is_accounted_for_under_its_id(
    post: Post, backend: ScriptedBackend, read_lines: ReadLines
) -> None:
    backend.script = [say(HALF_BLOCK), say("b"), end()]
    response = post(stream=True, headers=OBSIDIAN | {"x-request-id": "mine"}, buffered=False)
    response.close()
    told = [(line["logger"], line["request_id"], line.get("error")) for line in read_lines()]
    assert told == [("app.tool_buffers", "mine", None), ("access", "mine", "client_closed_request")]


def test_what_is_said_in_the_background_has_the_requests_id(
    app: flask.Flask, client: FlaskClient, backend: ScriptedBackend, read_lines: ReadLines
) -> None:
    """Two at once, each in a thread of its own, which no request's context reaches."""
    both = threading.Barrier(2)

    def play() -> Iterator[Step]:
        both.wait(5)
        yield warn("in it")
        both.wait(5)
        yield warn("in it")
        yield end()

    backend.script = Anew(play)
    body = {"model": "gpt-5.5", "input": "Hi", "background": True}
    for request_id in ("first", "second"):
        client.post("/v1/responses", json=body, headers={"x-request-id": request_id}, buffered=True)
    app.extensions["background"].wait(5)
    told = [(line["message"], line["request_id"], line.get("background")) for line in read_lines()]
    expected = [
        told_of
        for request_id in ("first", "second")
        for told_of in [
            ("in it", request_id, None),
            ("in it", request_id, None),
            ("request", request_id, None),
            ("request", request_id, True),
        ]
    ]
    assert sorted(told, key=str) == sorted(expected, key=str)


def test_an_id_of_the_clients_and_ours_are_one_on_every_line(
    post: Post, backend: ScriptedBackend, read_lines: ReadLines
) -> None:
    """In and out: the reply's header, its line, its warnings."""
    backend.script = [say(HALF_BLOCK), end()]
    replies = [
        post(headers=OBSIDIAN | asked).headers["x-request-id"] for asked in ({}, {"x-request-id": "a b"})
    ]
    assert [line["request_id"] for line in read_lines()] == [replies[0]] * 2 + [replies[1]] * 2
    assert replies[0] != replies[1]


LINES = {
    "DEBUG": ["debug", "warning", "info", "error", "info"],
    "INFO": ["warning", "info", "error", "info"],
    "WARNING": ["warning", "error"],
    "ERROR": ["error"],
}


@pytest.mark.parametrize(
    ("gateway_settings", "level"),
    [pytest.param(Settings(log_level=level), level, id=level) for level in LINES],
)
def test_the_level(post: Post, backend: ScriptedBackend, read_lines: ReadLines, level: str) -> None:
    """A block that begins, one that is broken off, a fault of our own, and a line for each request."""
    backend.script = [say(HALF_BLOCK), end()]
    post(headers=OBSIDIAN)
    backend.script = [ZeroDivisionError("oops")]
    post()
    assert [line["level"] for line in read_lines()] == LINES[level]


BODIES = Settings(log_level="DEBUG", logs_bodies=True, api_keys=("a-key-of-the-gateways",))
SAID = "my question with sk-proj-0123456789abcdef and a-key-of-the-gateways"
ANSWERED = "their answer with Bearer abc.def-9"


@pytest.mark.parametrize(
    ("gateway_settings", "is_told"),
    [
        pytest.param(BODIES, True, id="wanted"),
        pytest.param(Settings(log_level="DEBUG", api_keys=BODIES.api_keys), False, id="at-debug-alone"),
        pytest.param(Settings(logs_bodies=True, api_keys=BODIES.api_keys), False, id="not-at-info"),
        pytest.param(Settings(api_keys=BODIES.api_keys), False, id="unasked"),
    ],
)
@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
def test_words(
    client: FlaskClient, backend: ScriptedBackend, capfd: Capture, is_told: bool, stream: bool
) -> None:
    """Only where the operator says so twice; and even then no secret among them."""
    backend.script = [say(ANSWERED), end()]
    body = BODY | {"stream": stream, "messages": [{"role": "user", "content": SAID}]}
    headers = {"authorization": "Bearer a-key-of-the-gateways", "x-request-id": "mine"}
    assert client.post("/v1/chat/completions", json=body, headers=headers, buffered=True).status_code == 200
    log = capfd.readouterr().err
    told = [word in log for word in ("my question with", "their answer with")]
    secrets = ["sk-proj-0123456789abcdef", "a-key-of-the-gateways", "abc.def-9"]
    assert (told, [secret for secret in secrets if secret in log]) == ([is_told] * 2, [])
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["request_id"] for line in lines} == {"mine"}


@pytest.mark.parametrize("gateway_settings", [pytest.param(BODIES, id="wanted")])
def test_much_is_told_in_part(client: FlaskClient, backend: ScriptedBackend, read_lines: ReadLines) -> None:
    """A line must not grow with what clients send; how much it was is told."""
    backend.script = [BackendUnavailable("Gone.")]
    body = json.dumps(BODY | {"messages": [{"role": "user", "content": "é" * 100_000}]}, ensure_ascii=False)
    headers = {"authorization": "Bearer a-key-of-the-gateways"}
    client.post(
        "/v1/chat/completions",
        data=body.encode(),
        content_type="application/json",
        headers=headers,
        buffered=True,
    )
    [line] = [line for line in read_lines() if line["message"] == "request" and "body" in line]
    assert (line["bytes"], len(line["body"].encode()) <= 64 * 1024 + 2) == (len(body.encode()), True)


def read_documented() -> list[str]:
    """The fields that the page tells of; one that ends in `.…` or `_…` begins so."""
    page = (
        (ROOT / "docs" / "monitoring.md").read_text("utf-8").split("## The log")[1].split("## One request")[0]
    )
    cells = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(log_level="DEBUG", logs_bodies=True), id="all")]
)
def test_the_page_tells_of_every_field(
    app: flask.Flask, post: Post, ask: Ask, backend: ScriptedBackend, read_lines: ReadLines
) -> None:
    """docs/monitoring.md: whatever a line has stands there, and what stands there a line may have."""
    backend.script = [[Placed(Tier.WARM, Origin.NEW)], say("<use_tool><a", BLOCK), end()]
    post(headers=OBSIDIAN, stream=True)
    backend.script = [say(TEXT_CALL), end()]
    post(tools=TOOLS)
    echoed = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ask(input=[echoed, {"role": "user", "content": "Hi"}], background=True)
    app.extensions["background"].wait(5)
    backend.script = [ZeroDivisionError("oops")]
    post()
    seen = {name for line in read_lines() for name in line}
    documented = read_documented()
    prefixes = tuple(name.removesuffix("…") for name in documented if name.endswith("…"))
    assert {name for name in seen if not name.startswith(prefixes)} - {*documented} == set()
    # On lines of codex processes, of stores that fail, of logins.
    elsewhere = {"codex_pid", "exit", "stderr", "store", "outcome"}
    assert {name for name in documented if not name.endswith("…")} - seen == elsewhere
