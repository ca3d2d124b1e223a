"""The nginx site we ship, in a real nginx: streams, departures, limits, errors in JSON, what stays closed."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from tests.e2e.conftest import KEY, Served, StartFront
from tests.e2e.front import Front, find_free_port
from tests.e2e.upstream import Upstream
from tests.support.gateway import wait_until

pytestmark = pytest.mark.real

CHAT = "/v1/chat/completions"
VERSIONS = ["--http1.1", "--http2"]
ENVELOPE = {"message", "type", "param", "code"}
MB = 1024 * 1024


def build_body(script: Any, stream: bool = False) -> bytes:
    message = {"role": "user", "content": json.dumps(script)}
    return json.dumps({"model": "scripted-model", "stream": stream, "messages": [message]}).encode()


def connect(front: Front) -> http.client.HTTPSConnection:
    """Sends a path as it is given; `requests` would tidy it up first."""
    context = ssl.create_default_context(cafile=str(front.certificate))
    return http.client.HTTPSConnection("localhost", front.https_port, context=context, timeout=20)


def ask(
    front: Front, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(front)
    given = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"} | (headers or {})
    try:
        connection.request(method, path, body, given)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


@contextmanager
def curl(front: Front, version: str, script: Any, stream: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """A client of either HTTP that runs beside the test; gone at its end."""
    address = f"{front.base_url}{CHAT}"
    headers = ["-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
    body = build_body(script, stream).decode()
    command = ["curl", "-sN", version, "--cacert", str(front.certificate), *headers, "-d", body, address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_nginx_accepts_the_site(start_front: StartFront) -> None:
    checked = start_front(find_free_port()).check()
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_arrive_as_they_are_said(served: Served, version: str) -> None:
    with curl(served.front, version, [{"say": ["one"]}, {"wait": 0.5}, {"say": ["two"]}]) as client:
        assert client.stdout is not None
        times = {
            text: time.monotonic()
            for line in client.stdout
            for text in ("one", "two")
            if f'"content":"{text}"'.encode() in line
        }
    assert times["two"] - times["one"] > 0.3


def test_headers_of_a_stream(served: Served) -> None:
    response, body = ask(served.front, "POST", CHAT, build_body([{"say": ["x"]}], stream=True))
    assert response.status == 200
    expected = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-cache, no-transform",
        "Transfer-Encoding": "chunked",
        "Content-Encoding": None,
        "Server": "nginx",
        "Strict-Transport-Security": "max-age=31536000",
    }
    assert {name: response.headers[name] for name in expected} == expected
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stream", [pytest.param(True, id="stream"), pytest.param(False, id="non-stream")])
def test_a_client_that_leaves_is_noticed(served: Served, version: str, stream: bool) -> None:
    """Through nginx too its turn is interrupted."""
    before = served.pipe_log.count("turn/interrupt")
    turns = served.pipe_log.count("turn/start")
    with curl(served.front, version, [{"say": ["x"]}, {"hang": True}], stream):
        wait_until(lambda: served.pipe_log.count("turn/start") > turns)
    wait_until(lambda: served.pipe_log.count("turn/interrupt") > before, 5)
    assert ask(served.front, "POST", CHAT, build_body([{"say": ["x"]}]))[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/metrics/",
        "/metrics?x=1",
        "//metrics",
        "/./metrics",
        "/v1/../metrics",
        "/%6detrics",
        "/v1/..%2fmetrics",
        "/__test",
        "/__test/",
        "/__test/tool-buffer-metrics",
        "/%5f%5ftest/tool-buffer-metrics",
    ],
)
def test_what_is_for_the_box_itself_is_closed(served: Served, path: str) -> None:
    response, body = ask(served.front, "GET", path)
    assert (response.status, json.loads(body)["error"]["code"]) == (404, "not_found")
    assert set(json.loads(body)["error"]) == ENVELOPE


@pytest.mark.parametrize("path", ["/metrics", "/__test/tool-buffer-metrics"])
def test_it_is_open_to_the_box(served: Served, path: str) -> None:
    """So that it is nginx which closes it."""
    headers = {"Authorization": f"Bearer {KEY}"} if "test" in path else {}
    assert requests.get(f"{served.gateway.base_url}{path}", headers=headers, timeout=10).status_code == 200


@pytest.mark.parametrize(
    ("size", "is_chunked"),
    [
        pytest.param(16 * MB + 1, False, id="above-the-gateway's-limit"),
        pytest.param(18 * MB, False, id="above-nginx's"),
        pytest.param(18 * MB, True, id="chunked"),
    ],
)
def test_a_body_over_the_limit_is_413_in_json(served: Served, size: int, is_chunked: bool) -> None:
    body: Any = iter([b" " * MB] * (size // MB)) if is_chunked else b" " * size
    response, answer = ask(served.front, "POST", CHAT, body)
    assert (response.status, json.loads(answer)["error"]["code"]) == (413, "request_too_large")


def test_a_body_within_the_limit_passes(served: Served) -> None:
    script = build_body([{"say": ["x"]}])
    response, _ = ask(served.front, "POST", CHAT, script + b" " * (16 * MB - len(script)))
    assert response.status == 200


def test_a_body_that_is_refused_unread_costs_no_answer(served: Served) -> None:
    """The gateway would close under nginx, which is still sending: a 503, now and then."""
    seen = [ask(served.front, "POST", "/v1/models", b" " * (8 * MB))[0].status for _ in range(10)]
    assert seen == [405] * 10


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        pytest.param("TRACE", {}, 405, id="method"),
        pytest.param("GET", {"x-long": "x" * 40_000}, 431, id="header-too-long"),
    ],
)
def test_what_nginx_refuses_is_json(
    served: Served, method: str, headers: dict[str, str], status: int
) -> None:
    response, body = ask(served.front, method, "/v1/models", headers=headers)
    assert (response.status, response.headers["content-type"]) == (status, "application/json")
    assert set(json.loads(body)["error"]) == ENVELOPE
    assert response.headers["x-request-id"]


def test_plain_http_on_the_tls_port_is_refused_in_json(served: Served) -> None:
    response = requests.get(served.front.base_url.replace("https:", "http:"), timeout=10)
    assert (response.status_code, set(response.json()["error"])) == (400, ENVELOPE)


def test_a_gateway_that_is_down_is_503_in_json(start_front: StartFront) -> None:
    front = start_front(find_free_port())
    response, body = ask(front, "POST", CHAT, b"{}", {"x-request-id": "my-id-1"})
    assert (response.status, json.loads(body)["error"]["code"]) == (503, "gateway_unavailable")
    expected = {
        "Content-Type": "application/json",
        "Retry-After": "5",
        "X-Request-Id": "my-id-1",
        "Access-Control-Allow-Origin": "*",
        "Strict-Transport-Security": "max-age=31536000",
    }
    assert {name: response.headers[name] for name in expected} == expected


def test_errors_of_the_gateway_are_its_own(served: Served) -> None:
    error = {"message": "busy", "codexErrorInfo": "serverOverloaded"}
    response, body = ask(served.front, "POST", CHAT, build_body([{"error": error}]))
    assert (response.status, json.loads(body)["error"]["code"]) == (503, "backend_unavailable")
    assert len(response.headers.get_all("retry-after", [])) == 1


def test_a_request_is_never_sent_twice(dying: Upstream, start_front: StartFront) -> None:
    response, body = ask(start_front(dying.port), "POST", CHAT, b"{}")
    assert (response.status, json.loads(body)["error"]["code"]) == (503, "gateway_unavailable")
    assert len(dying.requests) == 1


def test_what_the_gateway_is_told(dying: Upstream, start_front: StartFront) -> None:
    """A client cannot pretend to be somebody else."""
    front = start_front(dying.port)
    ask(front, "POST", CHAT, b"{}", {"x-forwarded-for": "192.0.2.1", "x-forwarded-proto": "http"})
    [(head, body)] = dying.requests
    expected = {
        "Host": f"localhost:{front.https_port}",
        "X-Forwarded-For": "127.0.0.1",
        "X-Forwarded-Proto": "https",
        "Authorization": f"Bearer {KEY}",
        "Connection": None,
    }
    assert {name: head[name] for name in expected} == expected
    assert body == b"{}"


def test_only_whole_bodies_reach_the_gateway(dying: Upstream, start_front: StartFront) -> None:
    front = start_front(dying.port)
    slow = connect(front)
    slow.putrequest("POST", CHAT)
    slow.putheader("Content-Length", "4")
    slow.endheaders(b"sl")
    ask(front, "POST", CHAT, b"fast")
    slow.send(b"ow")
    assert slow.getresponse().status == 503
    slow.close()
    assert [body for _, body in dying.requests] == [b"fast", b"slow"]


def test_an_address_has_so_many_requests_at_once(hanging: Upstream, start_front: StartFront) -> None:
    front = start_front(hanging.port)
    crowd = [connect(front) for _ in range(64)]
    for each in crowd:
        each.request("GET", "/")
    wait_until(lambda: len(hanging.requests) == 64)
    response, body = ask(front, "GET", "/")
    assert (response.status, json.loads(body)["error"]["code"]) == (429, "too_many_connections")
    assert response.headers["retry-after"]
    for each in crowd:
        each.close()


def test_the_request_id_passes(served: Served) -> None:
    headers = {"x-request-id": "my-id-2"}
    response, _ = ask(served.front, "POST", CHAT, build_body([{"say": ["x"]}]), headers)
    assert response.headers.get_all("x-request-id") == ["my-id-2"]
    assert ask(served.front, "GET", "/v1/models")[0].headers["x-request-id"].startswith("req_")
    assert wait_until(
        lambda: [line for line in served.gateway.lines() if line.get("request_id") == "my-id-2"]
    )


def test_the_log_has_the_request_and_no_secrets(served: Served) -> None:
    ask(served.front, "GET", "/v1/models?key=secret-in-a-query", headers={"x-request-id": "my-id-3"})

    def find_line() -> dict[str, Any]:
        lines = map(json.loads, served.front.access_log.read_text().splitlines())
        return next((line for line in lines if line["request_id"] == "my-id-3"), {})

    line = wait_until(find_line)
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/models", 200)
    log = served.front.access_log.read_text()
    assert "secret-in-a-query" not in log
    assert KEY not in log


def test_http_is_sent_to_https(served: Served) -> None:
    url = f"{served.front.http_url}/v1/models?a=b"
    response = requests.get(url, allow_redirects=False, timeout=10)
    assert (response.status_code, response.headers["location"]) == (301, "https://localhost/v1/models?a=b")


def test_certificates_can_be_renewed(served: Served) -> None:
    (served.front.challenges / "token").write_text("proof")
    url = f"{served.front.http_url}/.well-known/acme-challenge/token"
    assert requests.get(url, allow_redirects=False, timeout=10).text == "proof"


def test_a_reload_of_the_gateway_costs_no_request(served: Served) -> None:
    before = served.gateway.worker_pids
    served.gateway.process.send_signal(signal.SIGHUP)
    seen = set()

    def ask_until_reloaded() -> bool:
        seen.add(ask(served.front, "POST", CHAT, build_body([{"say": ["x"]}]))[0].status)
        return bool(served.gateway.worker_pids) and not served.gateway.worker_pids & before

    wait_until(ask_until_reloaded, 20)
    assert seen == {200}


def test_tls_1_2_is_taken_with_good_ciphers_only(served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.front.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", served.front.https_port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        cipher = secured.cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-")
