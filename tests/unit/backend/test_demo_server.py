"""The demo model over real HTTP, on a port of its own."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from app.backend.demo_server import DemoServer

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TIME = {"type": "function", "name": "get_time", "description": "Time", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    server = DemoServer(word_pause_s=0)
    server.start()
    yield server.base_url
    server.close()


def ask(base_url: str, **body: Any) -> list[dict[str, Any]]:
    with requests.post(f"{base_url}/responses", json=body, timeout=10) as response:
        assert (response.status_code, response.headers["Content-Type"]) == (200, "text/event-stream")
        return parse_events(response.text)


def parse_events(text: str) -> list[dict[str, Any]]:
    frames = [frame.split("\n") for frame in text.strip().split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in frames]
    assert [f"event: {event['type']}" for event in events] == [name for name, _ in frames]
    return events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types in order, repeats folded."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def join_deltas(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")


def test_text_comes_word_by_word(base_url: str) -> None:
    events = ask(base_url, input="say exactly: one  two\nthree ")
    assert kinds(events) == [
        "created",
        "output_item.added",
        "output_text.delta",
        "output_item.done",
        "completed",
    ]
    deltas = [event["delta"] for event in events if "delta" in event]
    assert deltas == ["one", "  two", "\nthree", " "]
    item = events[-2]["item"]
    assert item["content"] == [{"type": "output_text", "text": "one  two\nthree ", "annotations": []}]
    assert events[-1]["response"]["output"] == [item]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_usage_has_every_detail(base_url: str) -> None:
    usage = ask(base_url, input="say exactly: 12345678")[-1]["response"]["usage"]
    assert usage == {
        "input_tokens": 6,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 8,
    }


def test_thought_comes_first(base_url: str) -> None:
    events = ask(base_url, input="hi", reasoning={"effort": "low", "summary": "auto"})
    assert kinds(events)[1:5] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "output_item.done",
    ]
    thought, message = events[-1]["response"]["output"]
    assert thought["summary"] == [
        {"type": "summary_text", "text": join_deltas(events, "reasoning_summary_text")}
    ]
    assert isinstance(thought["encrypted_content"], str)
    assert message["type"] == "message"
    assert events[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"] > 0


def test_a_thought_is_told_only_where_a_summary_is_wanted(base_url: str) -> None:
    events = ask(base_url, input="hi", reasoning={"effort": "low"})
    assert kinds(events)[1:3] == ["output_item.added", "output_item.done"]
    assert events[-1]["response"]["output"][0]["summary"] == []


def test_two_named_tools_are_called_in_one_response(base_url: str) -> None:
    events = ask(base_url, input="get_weather and get_time for Paris", tools=[WEATHER, TIME])
    calls = events[-1]["response"]["output"]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_time", {}),
    ]
    assert len({call["call_id"] for call in calls}) == 2
    assert kinds(events)[1:5] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert [event["output_index"] for event in events[1:-1]] == [0] * 4 + [1] * 4


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        pytest.param("POST", "/responses", {}, b"{", 400, id="no-json"),
        pytest.param("POST", "/responses", {}, b"[]", 400, id="no-object"),
        pytest.param("POST", "/responses", {}, b'"\xff"', 400, id="no-utf-8"),
        pytest.param("POST", "/responses", {}, b"[" * 100_000, 400, id="nested-without-end"),
        pytest.param("POST", "/responses", {}, b'{"input": "\\ud800"}', 400, id="half-a-character"),
        pytest.param("POST", "/responses", {"Host": "evil.example"}, b"{}", 403, id="rebound-host"),
        pytest.param("POST", "/responses", {"Origin": "https://evil.example"}, b"{}", 403, id="a-page"),
        pytest.param("POST", "/responses", {"Origin": "null"}, b"{}", 403, id="a-page-that-hides"),
        pytest.param("POST", "/chat/completions", {}, b"{}", 404, id="other-route"),
        pytest.param("GET", "/responses", {}, b"", 404, id="other-method"),
        pytest.param("BREW", "/models", {}, b"", 404, id="unheard-of-method"),
    ],
)
def test_refusals_are_json(
    base_url: str, method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    response = requests.request(method, base_url + path, headers=headers, data=body, timeout=10)
    assert response.status_code == status
    assert response.headers["Connection"] == "close"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("length", "status"),
    [
        pytest.param(str(64 * 1024 * 1024 + 1), 413, id="too-large"),
        pytest.param("9" * 5000, 413, id="too-large-to-read"),
        pytest.param("-1", 411, id="negative"),
        pytest.param("²", 411, id="superscript"),
        pytest.param(None, 411, id="missing"),
    ],
)
def test_length_is_checked_before_reading(base_url: str, length: str | None, status: int) -> None:
    address = urllib.parse.urlsplit(base_url)
    connection = http.client.HTTPConnection(address.netloc, timeout=10)
    try:
        connection.putrequest("POST", f"{address.path}/responses")
        if length is not None:
            connection.putheader("Content-Length", length.encode())
        connection.endheaders()
        assert connection.getresponse().status == status
    finally:
        connection.close()


def test_localhost_is_a_good_name(base_url: str) -> None:
    port = urllib.parse.urlsplit(base_url).port
    headers = {"Host": f"localhost:{port}"}
    with requests.post(f"{base_url}/responses", json={}, headers=headers, timeout=10) as response:
        assert response.status_code == 200


def test_client_that_leaves_ends_its_stream_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    server = DemoServer(word_pause_s=0.001)
    server.start()
    try:
        with leave_mid_stream(server.base_url):
            pass
        # A second stream proves that the server lives on.
        assert ask(server.base_url, input="say exactly: ok")[-1]["type"] == "response.completed"
    finally:
        server.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
    assert set(threading.enumerate()) <= before
    assert capfd.readouterr().err == ""


def leave_mid_stream(base_url: str) -> socket.socket:
    """Read a first piece of a long stream, then arrange for a reset on close."""
    address = urllib.parse.urlsplit(base_url)
    body = json.dumps({"input": "say exactly: " + "word " * 20_000}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    client = socket.create_connection((address.hostname, address.port), timeout=10)
    client.sendall(head.encode() + body)
    assert client.recv(100).startswith(b"HTTP/1.1 200")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return client


def test_close_ends_streams_and_thread_and_frees_the_port() -> None:
    before = set(threading.enumerate())
    server = DemoServer(word_pause_s=60)
    server.start()
    server.start()
    address = urllib.parse.urlsplit(server.base_url)
    with requests.post(
        f"{server.base_url}/responses", json={"input": "hi"}, stream=True, timeout=10
    ) as response:
        server.close()
        server.close()
        assert b"response.completed" not in response.content
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port), timeout=10)


def test_base_url_needs_a_running_server() -> None:
    with pytest.raises(RuntimeError):
        _ = DemoServer().base_url
