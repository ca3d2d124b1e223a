"""The real gunicorn with its gevent worker, on a stand-in that misbehaves: hold, departure, drain, faults."""

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.support.gateway import Gateway, wait_until
from tests.support.processes import is_running
from tests.support.sse import split_frames

pytestmark = pytest.mark.real

StartGateway = Callable[..., Gateway]


def open_stream(gateway: Gateway, script: Any, stream: bool = True) -> socket.socket:
    """A request on a bare socket, so that the test decides when the client leaves."""
    host, _, port = gateway.base_url.removeprefix("http://").partition(":")
    message = {"role": "user", "content": json.dumps(script)}
    body = json.dumps({"model": "scripted-model", "stream": stream, "messages": [message]}).encode()
    client = socket.create_connection((host, int(port)), timeout=20)
    client.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    return client


def count_open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def find_line(gateway: Gateway, **fields: Any) -> dict[str, Any]:
    """The access line with these fields, once it is written."""

    def look() -> dict[str, Any]:
        matches = [line for line in gateway.lines() if fields.items() <= line.items()]
        return matches[-1] if matches else {}

    return wait_until(look, 5)


def test_headers_of_a_stream(brisk: Gateway) -> None:
    body = {"model": "scripted-model", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    response = requests.post(f"{brisk.base_url}/v1/chat/completions", json=body, timeout=10)
    assert response.status_code == 200
    expected = {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-cache, no-transform",
        "Connection": "keep-alive",
        "X-Accel-Buffering": "no",
        "Transfer-Encoding": "chunked",
    }
    assert {name: response.headers[name] for name in expected} == expected


def test_frames_arrive_as_they_are_said(brisk: Gateway) -> None:
    response = brisk.chat([{"say": ["one"]}, {"wait": 0.5}, {"say": ["two"]}], stream=True)
    times = {
        text: time.monotonic()
        for line in response.iter_lines(chunk_size=1)
        for text in ("one", "two")
        if f'"content":"{text}"'.encode() in line
    }
    assert times["two"] - times["one"] > 0.3


def test_a_long_think_gets_its_headers_and_keepalives(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_COMMIT_AFTER_MS="300", PROXY_SSE_KEEPALIVE_MS="200")
    began_s = time.monotonic()
    response = gateway.chat([{"wait": 1.5}, {"say": ["done"]}], stream=True)
    assert response.status_code == 200
    assert time.monotonic() - began_s < 1
    frames = split_frames(response.text)
    assert '"role":"assistant"' in frames[0]
    assert frames.count(": keepalive") >= 3
    assert frames[-1] == "data: [DONE]"


def test_an_error_after_the_commit_is_in_band(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_COMMIT_AFTER_MS="200")
    error = {"message": "busy", "codexErrorInfo": "serverOverloaded"}
    response = gateway.chat([{"wait": 1}, {"error": error}], stream=True)
    assert response.status_code == 200
    frames = split_frames(response.text)
    assert json.loads(frames[-2].removeprefix("data: "))["error"]["code"] == "backend_unavailable"
    assert frames[-1] == "data: [DONE]"


def test_an_error_before_the_commit_is_a_status(brisk: Gateway) -> None:
    error = {"message": "busy", "codexErrorInfo": "serverOverloaded"}
    response = brisk.chat([{"wait": 0.5}, {"error": error}], stream=True)
    assert response.status_code == 503
    assert response.headers["retry-after"]


@pytest.mark.parametrize(
    ("script", "stream"),
    [
        pytest.param([{"say": ["x"]}, {"hang": True}], True, id="in-a-stream"),
        pytest.param([{"say": ["x"]}, {"hang": True}], False, id="non-stream"),
        pytest.param([{"hang": True}], True, id="before-the-first-byte"),
    ],
)
def test_a_client_that_leaves_is_noticed(stand_in: StartGateway, script: Any, stream: bool) -> None:
    """Within two seconds; the turn is interrupted, the process lives on, nothing leaks."""
    log_name = "pipe.jsonl"
    gateway = stand_in({"log": log_name}, ready=False, PROXY_WARM_PROCESSES="0")
    gateway.wait_listening()
    pipe_log = gateway.state_dir / "empty" / log_name
    assert gateway.chat("warm up").status_code == 200
    pids, [worker] = gateway.codex_pids, gateway.worker_pids
    files = count_open_files(worker)
    client = open_stream(gateway, script, stream)
    wait_until(lambda: pipe_log.read_text().count('"method":"turn/start"') == 2)
    began_s = time.monotonic()
    client.close()
    wait_until(lambda: "turn/interrupt" in pipe_log.read_text(), 2)
    assert time.monotonic() - began_s < 2
    wait_until(lambda: count_open_files(worker) <= files)
    assert find_line(gateway, error="client_closed_request")["model"] == "scripted-model"
    assert gateway.chat("again").status_code == 200
    assert gateway.codex_pids == pids


def test_a_client_that_stops_reading_is_left(stand_in: StartGateway) -> None:
    gateway = stand_in({"log": "pipe.jsonl"}, PROXY_SOCKET_TIMEOUT_MS="500")
    client = open_stream(gateway, [{"repeat": {"say": ["x" * 1000], "times": 20_000}}, {"hang": True}])
    pipe_log = gateway.state_dir / "empty" / "pipe.jsonl"
    wait_until(lambda: "turn/interrupt" in pipe_log.read_text())
    assert gateway.chat("next").status_code == 200
    client.close()


def test_a_process_that_ignores_the_interrupt_is_killed(stand_in: StartGateway) -> None:
    gateway = stand_in({"ignore": ["turn/interrupt", "SIGTERM"]}, PROXY_INTERRUPT_TIMEOUT_MS="300")
    [stubborn] = gateway.codex_pids
    client = open_stream(gateway, [{"say": ["x"]}, {"hang": True}])
    assert client.recv(10)
    client.close()
    wait_until(lambda: not is_running(stubborn))
    assert gateway.chat("again").status_code == 200


def test_sigterm_lets_a_stream_end(stand_in: StartGateway) -> None:
    gateway = stand_in()
    response = gateway.chat([{"say": ["a"]}, {"wait": 1.5}, {"say": ["b"]}], stream=True)
    gateway.process.send_signal(signal.SIGTERM)
    frames = split_frames(response.text)
    assert '"content":"b"' in frames[-3]
    assert frames[-1] == "data: [DONE]"
    assert gateway.process.wait(10) == 0


def test_sigterm_ends_a_long_stream_with_a_last_frame(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_GRACEFUL_TIMEOUT_MS="7000")
    children = gateway.codex_pids
    response = gateway.chat([{"say": ["a"]}, {"hang": True}], stream=True)
    gateway.process.send_signal(signal.SIGTERM)
    frames = split_frames(response.text)
    assert json.loads(frames[-2].removeprefix("data: "))["error"]["code"] == "gateway_stopping"
    assert frames[-1] == "data: [DONE]"
    assert gateway.process.wait(10) == 0
    assert not any(is_running(pid) for pid in children)


def test_ctrl_c_leaves_no_child_behind(stand_in: StartGateway) -> None:
    """A terminal sends SIGINT to the whole group."""
    gateway = stand_in()
    everyone = gateway.codex_pids | gateway.worker_pids
    os.killpg(gateway.process.pid, signal.SIGINT)
    gateway.process.wait(10)
    wait_until(lambda: not any(is_running(pid) for pid in everyone))
    assert not list((gateway.state_dir / "processes").iterdir())
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_child_is_left_behind(stand_in: StartGateway, how: int) -> None:
    gateway = stand_in(PROXY_WARM_PROCESSES="3")
    children = wait_until(lambda: gateway.codex_pids if len(gateway.codex_pids) == 3 else set())
    workers = gateway.worker_pids
    gateway.stop(how)
    wait_until(lambda: not any(is_running(pid) for pid in children | workers))
    wait_until(lambda: not list((gateway.state_dir / "processes").iterdir()))


def test_a_worker_that_was_killed_is_replaced(stand_in: StartGateway) -> None:
    gateway = stand_in()
    children, [worker] = gateway.codex_pids, gateway.worker_pids
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not any(is_running(pid) for pid in children))
    wait_until(lambda: gateway.worker_pids - {worker})
    assert gateway.chat("hi").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        pytest.param([{"die": 3}], 503, "backend_unavailable", id="dies"),
        pytest.param([{"raw": "not json"}], 503, "backend_unavailable", id="garbage"),
        pytest.param([{"raw": "[1]"}], 503, "backend_unavailable", id="not-a-message"),
        pytest.param([{"half": '{"method": "turn'}, {"die": 0}], 503, "backend_unavailable", id="half-line"),
        pytest.param([{"huge": 3_000_000}, {"say": ["x"]}], 503, "backend_unavailable", id="line-too-long"),
        pytest.param([{"hang": True}], 504, "backend_timeout", id="hangs"),
        pytest.param([{"retry": "Reconnecting..."}, {"hang": True}], 504, "backend_timeout", id="retries-on"),
    ],
)
def test_faults_in_a_turn(brisk: Gateway, script: Any, status: int, code: str, stream: bool) -> None:
    """A typed error in bounded time, and the next request is served."""
    response = brisk.chat(script, stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert brisk.chat("next").status_code == 200


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param([{"say": ["x"]}, {"wait": 0.5}, {"die": 3}], "backend_unavailable", id="dies"),
        pytest.param(
            [{"say": ["x"]}, {"wait": 0.5}, {"raw": "not json"}], "backend_unavailable", id="garbage"
        ),
        # However it is cut into reads, what came before it is shown.
        pytest.param([{"say": ["x"]}, {"raw": "not json"}], "backend_unavailable", id="garbage-at-once"),
        pytest.param(
            [{"say": ["x"]}, {"wait": 0.5}, {"retry": "Reconnecting"}, {"say": ["x"]}],
            "answer_interrupted",
            id="retry",
        ),
        pytest.param([{"say": ["x"]}, {"hang": True}], "backend_timeout", id="hangs"),
    ],
)
def test_faults_after_text_was_shown(brisk: Gateway, script: Any, code: str) -> None:
    frames = split_frames(brisk.chat(script, stream=True).text)
    assert json.loads(frames[-2].removeprefix("data: "))["error"]["code"] == code
    assert frames[-1] == "data: [DONE]"
    assert sum('"content":"x"' in frame for frame in frames) == 1
    assert brisk.chat("next").status_code == 200


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([{"unknown_notification": 50}, {"say": ["x"]}], id="unknown-notifications"),
        pytest.param([{"reply_twice": True}, {"say": ["x"]}], id="replies-twice"),
        pytest.param([{"retry": "Reconnecting"}, {"say": ["x"]}], id="retry-before-text"),
        pytest.param([{"huge": 900_000}, {"say": ["x"]}], id="a-long-line"),
    ],
)
def test_oddities_change_nothing(brisk: Gateway, script: Any) -> None:
    response = brisk.chat(script)
    assert response.json()["choices"][0]["message"]["content"] == "x"


@pytest.mark.parametrize(
    "method",
    [
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/tool/call",
        "never/seen",
    ],
)
def test_what_codex_asks_is_declined(brisk: Gateway, method: str) -> None:
    response = brisk.chat([{"request": {"method": method, "params": {"command": "rm -rf /"}}}])
    assert "error" in json.loads(response.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        pytest.param({"boot": "die"}, 503, id="dies-at-boot"),
        pytest.param({"boot": "hang"}, 504, id="hangs-at-boot"),
        pytest.param({"boot": "garbage"}, 503, id="garbage-at-boot"),
        pytest.param({"on": {"initialize": "die"}}, 503, id="dies-at-hello"),
        pytest.param({"on": {"initialize": "error"}}, 502, id="refuses-hello"),
        pytest.param({"on": {"thread/start": "die"}}, 503, id="dies-at-thread"),
        pytest.param({"on": {"thread/start": "error"}}, 502, id="refuses-thread"),
        pytest.param({"on": {"thread/inject_items": "hang"}}, 504, id="history-never-answered"),
        pytest.param({"on": {"turn/start": "hang"}}, 504, id="turn-never-answered"),
        pytest.param({"on": {"turn/start": "garbage"}}, 503, id="garbage-for-a-turn"),
        pytest.param({"on": {"model/list": "error"}}, 502, id="refuses-models"),
        pytest.param({"account": None}, 502, id="logged-out"),
    ],
)
def test_faults_before_a_turn(stand_in: StartGateway, faults: dict[str, Any], status: int) -> None:
    gateway = stand_in(
        faults,
        ready=False,
        PROXY_WARM_PROCESSES="0",
        PROXY_START_TIMEOUT_MS="700",
        PROXY_RPC_TIMEOUT_MS="700",
    )
    gateway.wait_listening()
    response = gateway.chat("hi", stream=True)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    pids = gateway.codex_pids
    if status != 502:
        wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_codex_that_stops_reading(brisk: Gateway) -> None:
    """A history larger than the pipe meets a process that takes nothing: a deadline, not a hang."""
    assert brisk.chat([{"stop_reading": True}, {"say": ["x"]}]).status_code == 200
    assert brisk.chat("x" * 500_000).status_code == 504
    assert brisk.chat("next").status_code == 200


def test_overload_is_a_real_status(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="1", PROXY_QUEUE_TIMEOUT_MS="300")
    client = open_stream(gateway, [{"say": ["x"]}, {"hang": True}])
    assert client.recv(10)
    response = gateway.chat("hi", stream=True)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "gateway_busy")
    assert response.headers["retry-after"]
    client.close()
    wait_until(lambda: gateway.chat("hi").status_code == 200)


def test_overload_is_a_status_also_past_the_commit(stand_in: StartGateway) -> None:
    """Waiting in the queue is not thinking: no 200 goes out for a turn that never started."""
    gateway = stand_in(PROXY_MAX_PROCESSES="1", PROXY_QUEUE_TIMEOUT_MS="1500", PROXY_COMMIT_AFTER_MS="400")
    with open_stream(gateway, [{"say": ["x"]}, {"hang": True}]) as client:
        assert client.recv(10)
        assert gateway.chat("hi", stream=True).status_code == 429


def test_no_slot_is_lost_when_processes_cannot_start(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="2", PROXY_WARM_PROCESSES="0", ready=False)
    gateway.wait_listening()
    assert requests.get(f"{gateway.base_url}/livez", timeout=10).status_code == 200
    processes = gateway.state_dir / "processes"
    processes.rmdir()
    processes.write_text("in the way")
    seen = {gateway.chat("hi").status_code for _ in range(4)}
    processes.unlink()
    assert seen == {503}
    wait_until(lambda: gateway.chat("hi").status_code == 200)


def test_no_slot_is_lost_when_folders_vanish(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="2")
    [pid] = gateway.codex_pids
    shutil.rmtree(gateway.state_dir / "processes")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gateway.chat("hi").status_code == 200)
    with ThreadPoolExecutor(2) as executor:
        seen = list(executor.map(lambda _: gateway.chat([{"wait": 0.3}]).status_code, range(4)))
    assert seen == [200] * 4


def test_a_turn_that_fails_while_its_process_starts_lets_go_of_it(stand_in: StartGateway) -> None:
    gateway = stand_in(
        {"boot": "slow:2"},
        ready=False,
        PROXY_MAX_PROCESSES="1",
        PROXY_WARM_PROCESSES="0",
        PROXY_FIRST_EVENT_TIMEOUT_MS="300",
        PROXY_COMMIT_AFTER_MS="200",
    )
    gateway.wait_listening()
    assert gateway.chat("hi").status_code == 504
    wait_until(lambda: not gateway.codex_pids, 5)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"zz\r\n{}\r\n0\r\n\r\n", 400, id="bad-framing"),
        pytest.param(b"5\r\n{", 408, id="stalled"),
        pytest.param(b"1100001\r\n" + b" " * 0x1100001 + b"\r\n0\r\n\r\n", 413, id="too-large"),
    ],
)
def test_chunked_bodies(stand_in: StartGateway, body: bytes, status: int) -> None:
    gateway = stand_in(PROXY_SOCKET_TIMEOUT_MS="500")
    host, _, port = gateway.base_url.removeprefix("http://").partition(":")
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(head + body)
        assert client.recv(100).startswith(b"HTTP/1.1 %d " % status)
    assert "Traceback" not in gateway.log


def test_pipelined_data_does_not_hide_a_departure(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="1", PROXY_QUEUE_TIMEOUT_MS="3000")
    client = open_stream(gateway, [{"say": ["x"]}, {"hang": True}], stream=False)
    wait_until(lambda: gateway.chat("hi", n=0).status_code == 400)
    client.sendall(b"\r\n")
    client.close()
    assert gateway.chat("next").status_code == 200


def test_many_requests_never_mix(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="8")

    def ask(number: int) -> str:
        script = [{"say": [f"<{number}", ">"] * 20, "pause_s": 0.001}]
        return str(gateway.chat(script).json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(16) as executor:
        answers = list(executor.map(ask, range(64)))
    assert answers == [f"<{number}>" * 20 for number in range(64)]


def test_processes_are_replaced_after_their_turns(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_PROCESS_MAX_TURNS="3")
    [first] = gateway.codex_pids
    assert [gateway.chat("hi").status_code for _ in range(8)] == [200] * 8
    wait_until(lambda: not is_running(first))


def test_a_login_replaces_idle_processes(stand_in: StartGateway) -> None:
    gateway = stand_in()
    [before] = gateway.codex_pids
    (gateway.state_dir / "codex-home" / "auth.json").write_text("{}")
    assert gateway.chat("hi").status_code == 200
    wait_until(lambda: not is_running(before))


def test_one_line_per_request_and_no_words_of_the_client(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_API_KEY="sk-secret-1,sk-secret-2", PROXY_LOG_LEVEL="debug")
    headers = {"authorization": "Bearer sk-secret-2", "x-request-id": "my-id-1"}
    body = {"model": "scripted-model", "messages": [{"role": "user", "content": "a private word"}]}
    url = f"{gateway.base_url}/v1/chat/completions"
    assert requests.post(url, json=body, timeout=10).status_code == 401
    response = requests.post(url, json=body, headers=headers, timeout=10)
    assert (response.status_code, response.headers["x-request-id"]) == (200, "my-id-1")
    line = find_line(gateway, request_id="my-id-1")
    assert (line["status"], line["model"], line["output_tokens"]) == (200, "scripted-model", 20)
    assert find_line(gateway, status=401)["error"] == "invalid_api_key"
    assert "sk-secret" not in gateway.log
    assert "private word" not in gateway.log


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use_is_one_clear_line(stand_in: StartGateway, taken_port: int) -> None:
    gateway = stand_in(ready=False, PROXY_PORT=str(taken_port))
    assert gateway.process.wait(10) == 1
    assert gateway.log.splitlines() == [
        f"codex-gateway: cannot listen on 127.0.0.1:{taken_port}: Address already in use "
        "(set PROXY_HOST or PROXY_PORT)"
    ]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param(
            {"CODEX_BIN": "/nonexistent/codex"},
            "the codex binary /nonexistent/codex does not start",
            id="binary",
        ),
        pytest.param(
            {"CODEX_BIN": "/bin/false"}, "the codex binary /bin/false does not start", id="broken-binary"
        ),
        pytest.param({"PROXY_PORT": "http"}, "PROXY_PORT=http: must be a port number", id="setting"),
        pytest.param(
            {"PROXY_HOST": "0.0.0.0"}, "PROXY_HOST=0.0.0.0: an open gateway", id="open-to-the-world"
        ),
        pytest.param(
            {"PROXY_CODEX_CONFIG_FILE": "/nonexistent"}, "PROXY_CODEX_CONFIG_FILE=/nonexistent", id="config"
        ),
    ],
)
def test_what_is_in_the_way_is_one_clear_line(
    stand_in: StartGateway, environ: dict[str, str], expected: str
) -> None:
    gateway = stand_in(ready=False, **environ)
    assert gateway.process.wait(20) == 1
    [line] = gateway.log.splitlines()
    assert line.startswith(f"codex-gateway: {expected}")
