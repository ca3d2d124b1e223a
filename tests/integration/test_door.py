"""The door of the real gunicorn, on the stand-in: keys, limits, and clients that mean harm."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import resource
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
import requests

from app.lib.keys import AccessKey, KeyLimits, Role, build_entry, digest_key
from tests.support.gateway import ROOT, Gateway, run_gateway, wait_until, write_stand_in
from tests.support.replaced_files import turn_into_folder

pytestmark = pytest.mark.real

CHAT = "/v1/chat/completions"
MB = 1024 * 1024

#: In the environment, one that could be a word and one with signs that JSON escapes; in a file, as hashes.
ENV, ODD, ADMIN = "hunter2hunter2hunter2", 'odd-"\\-key-0123456789', "admin-0123456789abcdef"
OURS, OPS, LIMITED = (f"sk-cgw-{name}-0123456789abcdefghij" for name in ("alice", "ops", "limited"))
SECRETS = (ENV, ODD, ADMIN, OURS, OPS, LIMITED)


def build_file(*entries: tuple[str, str, Role, KeyLimits]) -> str:
    return "\n".join(
        build_entry(AccessKey(name, digest_key(key.encode()), role, limits))
        for name, key, role, limits in entries
    )


KEYS = build_file(
    ("alice", OURS, Role.CLIENT, KeyLimits()),
    ("ops", OPS, Role.ADMIN, KeyLimits()),
    ("limited", LIMITED, Role.CLIENT, KeyLimits(max_streams=1)),
)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With keys of every kind, a log of everything, and little patience for slow clients."""
    folder = tmp_path_factory.mktemp("door")
    (folder / "keys.toml").write_text(KEYS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with run_gateway(
        folder,
        CODEX_BIN=write_stand_in(folder),
        PROXY_WARM_PROCESSES="1",
        PROXY_API_KEY=f"{ENV},{ODD}",
        PROXY_ADMIN_KEY=ADMIN,
        PROXY_API_KEYS_FILE=str(folder / "keys.toml"),
        PROXY_LOG_LEVEL="debug",
        PROXY_LOG_BODIES="true",
        PROXY_SOCKET_TIMEOUT_MS="1000",
    ) as running:
        yield running


def get_address(gateway: Gateway) -> tuple[str, int]:
    host, _, port = gateway.base_url.removeprefix("http://").rpartition(":")
    return host, int(port)


def connect(gateway: Gateway) -> socket.socket:
    return socket.create_connection(get_address(gateway), timeout=20)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def build_head(line: str, headers: dict[str, Any] | None = None, key: str = ENV) -> bytes:
    fields = {"host": "localhost", "content-type": "application/json"} | bearer(key) | (headers or {})
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        return self.body["error"]["code"]


def read_reply(client: socket.socket) -> Reply:
    """The one reply there is, which every client could read."""
    response = http.client.HTTPResponse(client)
    response.begin()
    headers = [(name.lower(), value) for name, value in response.getheaders()]
    assert len(dict(headers)) == len(headers)
    return Reply(response.status, dict(headers), json.loads(response.read()))


def send(gateway: Gateway, *data: bytes) -> Reply:
    with connect(gateway) as client:
        for each in data:
            client.sendall(each)
        return read_reply(client)


def ask(gateway: Gateway, key: str, script: Any = "Hi", **more: Any) -> requests.Response:
    text = script if isinstance(script, str) else json.dumps(script)
    body = {"model": "scripted-model", "messages": [{"role": "user", "content": text}]} | more
    return requests.post(f"{gateway.base_url}{CHAT}", json=body, headers=bearer(key), timeout=20)


def get(gateway: Gateway, path: str, key: str, **headers: str) -> requests.Response:
    asked = bearer(key) | {"connection": "close"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return requests.get(f"{gateway.base_url}{path}", headers=asked, timeout=20)


def is_answered_at_once(gateway: Gateway) -> bool:
    """Whether another client gets its answer, and soon."""
    began_s = time.monotonic()
    return ask(gateway, OURS).status_code == 200 and time.monotonic() - began_s < 2


# Keys


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two workers, whose keys all stand in a file."""
    folder = tmp_path_factory.mktemp("keyed")
    make_key(folder, "first")
    with run_gateway(
        folder,
        CODEX_BIN=write_stand_in(folder),
        PROXY_WARM_PROCESSES="0",
        PROXY_API_KEYS_FILE=str(folder / "keys.toml"),
        WEB_CONCURRENCY="2",
        ready=False,
    ) as running:
        running.wait_listening()
        wait_until(lambda: len(running.worker_pids) == 2)
        yield running


def make_key(folder: pathlib.Path, name: str) -> str:
    command = [sys.executable, "-m", "app", "key", name, "--file", str(folder / "keys.toml")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    return run.stdout.strip()


def ask_everyone(gateway: Gateway, *keys: str) -> list[set[int]]:
    """What each key is answered, by whichever worker takes the connection."""
    return [{get(gateway, "/v1/usage", key).status_code for _ in range(12)} for key in keys]


def test_a_key_counts_and_counts_no_more_at_once(keyed: Gateway) -> None:
    """At every worker. What cannot be read changes nothing, what is gone lets nobody in."""
    path = keyed.folder / "keys.toml"
    alice = make_key(keyed.folder, "alice")
    bob = make_key(keyed.folder, "bob")
    text = path.read_text()
    assert ask_everyone(keyed, alice, bob) == [{200}, {200}]
    path.write_text(text.partition("[bob]")[0])
    assert ask_everyone(keyed, alice, bob) == [{200}, {401}]
    path.write_text("[bob")
    assert ask_everyone(keyed, alice, bob) == [{200}, {401}]
    turn_into_folder(path)
    assert ask_everyone(keyed, alice, bob) == [{200}, {401}]
    path.rmdir()
    assert ask_everyone(keyed, alice, bob, "") == [{401}] * 3
    path.write_text(text)
    assert ask_everyone(keyed, alice, bob) == [{200}, {200}]
    told = [line["message"] for line in keyed.lines() if line["logger"] == "app.handlers.keyring"]
    assert {line.rpartition(": ")[0] for line in told} >= {
        "the keys file cannot be read, and the keys stay as they were"
    }
    assert {line["level"] for line in keyed.lines() if line["logger"] == "app.handlers.keyring"} == {"error"}
    assert len(told) == 4
    assert [secret for secret in (alice, bob) if secret in keyed.log] == []


def test_an_answer_ends_though_its_key_is_gone(door: Gateway) -> None:
    path = door.folder / "keys.toml"
    script = [{"say": ["a"]}, {"wait": 0.5}, {"say": ["b"]}]
    body = {"model": "scripted-model", "stream": True}
    body |= {"messages": [{"role": "user", "content": json.dumps(script)}]}
    with requests.post(
        f"{door.base_url}{CHAT}", json=body, headers=bearer(OURS), timeout=20, stream=True
    ) as response:
        path.write_text("")
        refused = ask(door, OURS).status_code
        text = response.text
    path.write_text(KEYS)
    assert (refused, '"content":"b"' in text, text.endswith("data: [DONE]\n\n")) == (401, True, True)


ON_LOOPBACK_ONLY = "an open gateway listens on loopback only; set PROXY_API_KEY or PROXY_HOST=127.0.0.1"


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        pytest.param(
            {"PROXY_API_KEYS_FILE": "{folder}/wrong.toml"},
            "PROXY_API_KEYS_FILE={folder}/wrong.toml: [a]: hash must be `sha256:` and 64 hex digits",
            id="a-wrong-keys-file",
        ),
        pytest.param(
            {"PROXY_API_KEYS_FILE": "{folder}/none.toml", "PROXY_HOST": "0.0.0.0"},
            "PROXY_API_KEYS_FILE={folder}/none.toml: No such file or directory",
            id="none-at-all",
        ),
        *(
            pytest.param(
                {"PROXY_HOST": host},
                f"PROXY_HOST={host}: {ON_LOOPBACK_ONLY}",
                id=f"open-on-{host}",
            )
            for host in ("0.0.0.0", "::", "192.0.2.7", "gateway.example")
        ),
        *(
            pytest.param(
                {"GUNICORN_CMD_ARGS": f"--bind 127.0.0.1:0 --bind {address}"},
                f"{place}: {ON_LOOPBACK_ONLY}",
                id=f"opened-by-gunicorn-on-{name}",
            )
            for name, address, place in (
                ("all", "0.0.0.0:0", "0.0.0.0"),
                ("a-file", "unix:{folder}/socket", "{folder}/socket"),
            )
        ),
        pytest.param(
            {"PROXY_API_KEY": "one-of-many,one-of-both", "PROXY_ADMIN_KEY": "one-of-both"},
            "PROXY_ADMIN_KEY: shares a key with PROXY_API_KEY; a key has one role",
            id="a-key-of-two-roles",
        ),
    ],
)
def test_what_would_be_an_open_door_is_no_start(
    tmp_path: pathlib.Path, environ: dict[str, str], line: str
) -> None:
    """One line, and nothing listens."""
    (tmp_path / "wrong.toml").write_text("[a]\nhash = 'a-key-in-the-clear'\n")
    filled = {name: value.format(folder=tmp_path) for name, value in environ.items()}
    with run_gateway(tmp_path, ready=False, CODEX_BIN=write_stand_in(tmp_path), **filled) as gateway:
        assert gateway.process.wait(20) == 1
        assert gateway.log == f"codex-gateway: {line.format(folder=tmp_path)}\n"


def test_loopback_has_an_ipv6_address_too(tmp_path: pathlib.Path) -> None:
    with run_gateway(
        tmp_path, CODEX_BIN=write_stand_in(tmp_path), PROXY_HOST="::1", PROXY_WARM_PROCESSES="1"
    ) as gateway:
        assert gateway.base_url.startswith("http://[::1]:")
        told = [gateway.chat("Hi"), requests.get(f"{gateway.base_url}/metrics", timeout=10)]
        assert [response.status_code for response in told] == [200, 200]


def fill(value: Any, key: str) -> Any:
    """With the key in the place of every `KEY`."""
    return json.loads(json.dumps(value).replace("KEY", json.dumps(key)[1:-1]))


def send_everywhere(gateway: Gateway, key: str, by: str) -> list[str]:
    """Send a key in every odd place, by a client that has another one; the errors it is told."""
    said = {"role": "user", "content": "Hi"}
    tool = {"type": "function", "function": {"name": "KEY"[:64], "description": "KEY"}}
    bodies: list[dict[str, Any]] = [
        {"model": "KEY", "messages": [said]},
        {"model": "scripted-model-KEY", "messages": [said], "stream": True},
        {"model": "scripted-model", "messages": [{"role": "KEY", "content": "KEY"}]},
        {"model": "scripted-model", "messages": [said], "tools": [tool], "user": "KEY", "stop": "KEY"},
        {"model": "scripted-model", "messages": [said], "tool_choice": "KEY"},
        {"model": "scripted-model", "messages": [said], "KEY": "KEY"},
        {"model": "scripted-model", "messages": [{"role": "user", "content": '[{"raw": "KEY"}]'}]},
    ]
    inputs: list[dict[str, Any]] = [
        {"model": "KEY", "input": "Hi"},
        {"model": "scripted-model", "input": "Hi", "previous_response_id": "KEY"},
        {"model": "scripted-model", "input": [{"type": "item_reference", "id": "KEY"}]},
        {"model": "scripted-model", "input": "Hi", "metadata": {"a": "KEY"}, "store": False},
    ]
    url, headers = gateway.base_url, bearer(by)
    replies = [
        requests.post(f"{url}{path}", json=fill(body, key), headers=headers, timeout=20)
        for path, several in ((CHAT, bodies), ("/v1/responses", inputs))
        for body in several
    ]
    wrong = {"data": f'{{"KEY": {key}'.encode(), "headers": headers | {"content-type": "application/json"}}
    replies.append(requests.post(f"{url}{CHAT}", **wrong, timeout=20))
    replies.append(requests.post(f"{url}{CHAT}", data=key.encode(), headers=headers, timeout=20))
    for path in ("/{}", "/v1/models/{}", "/v1/responses/resp_{}", "/v1/usage?key={}", "/v1/usage?start={}"):
        replies.append(requests.get(url + path.format(key), headers=headers, timeout=20))
    for name in ("x-request-id", "x-proxy-output-mode", "user-agent", "origin", "cookie", "x-api-key"):
        replies.append(requests.post(f"{url}{CHAT}", json={}, headers=headers | {name: key}, timeout=20))
    for value in (key, f"Basic {key}", f"Bearer {key}x", f"bearer\t{key}", f"Bearer {key} {key}"):
        replies.append(requests.get(f"{url}/v1/models", headers={"authorization": value}, timeout=20))
    return [reply.text for reply in replies if reply.status_code >= 400]


def send_malformed(gateway: Gateway, key: str) -> list[str]:
    """Send it in what is no request; what is replied."""
    lines = [
        b"GET /%s HTTP/9.9\r\n\r\n",
        b"GET /%s\r\n\r\n",
        b"%s\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization Bearer %s\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n%s: x y\r\n%s\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\x01\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: %s\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n",
    ]
    return [json.dumps(send(gateway, line.replace(b"%s", key.encode())).body) for line in lines]


def test_no_key_stands_anywhere(door: Gateway) -> None:
    """Neither in the log, with all that may be logged, nor in metrics, usage or an error.

    One that only its hash is known of is told by its looks: `make key` makes no others.
    """
    replies = []
    for key in SECRETS:
        replies += send_everywhere(door, key, by=OURS)
        replies += send_malformed(door, key)
    metrics = requests.get(f"{door.base_url}/metrics", timeout=10).text
    usage = [
        get(door, path, OPS).text
        for path in ("/v1/usage", "/v1/usage/raw?limit=1000", "/v1/usage?group=hour", "/v1/models")
    ]
    kept = [path.read_bytes() for path in (door.state_dir / "usage").iterdir() if path.is_file()]
    places = {
        "log": door.log,
        "metrics": metrics,
        "usage": "".join(usage),
        "replies": "".join(replies),
        "the usage database": b"".join(kept).decode("utf-8", "replace"),
    }
    # A part would do for guessing the rest.
    parts = {part for key in SECRETS for part in (key, json.dumps(key)[1:-1], key[-12:])}
    assert [(name, part) for name, text in places.items() for part in parts if part in text] == []
    assert [name for name in ("log", "usage", "replies") if "[redacted]" not in places[name]] == []
    assert '"key":"alice"' in places["usage"]


# Limits


def test_a_limit_is_divided_by_the_workers_there_are(tmp_path: pathlib.Path) -> None:
    """Also where gunicorn's own options say how many."""
    with run_gateway(
        tmp_path,
        CODEX_BIN=write_stand_in(tmp_path),
        GUNICORN_CMD_ARGS="--workers 2",
        PROXY_WARM_PROCESSES="1",
        PROXY_API_KEY=ENV,
        PROXY_REQUESTS_PER_MINUTE="60",
    ) as gateway:
        told = ask(gateway, ENV).headers["x-ratelimit-limit-requests"]
        assert (len(gateway.worker_pids), told) == (2, "30")


@pytest.mark.parametrize(
    ("script", "stream", "reads"),
    [
        pytest.param([{"say": ["x"]}, {"hang": True}], True, True, id="in-a-stream"),
        pytest.param([{"hang": True}], True, False, id="before-the-first-byte"),
        pytest.param([{"say": ["x"]}, {"hang": True}], False, False, id="waiting-for-a-body"),
    ],
)
def test_a_client_that_leaves_gives_its_place_back(
    door: Gateway, script: Any, stream: bool, reads: bool
) -> None:
    message = {"role": "user", "content": json.dumps(script)}
    body = json.dumps({"model": "scripted-model", "stream": stream, "messages": [message]}).encode()
    with connect(door) as client:
        client.sendall(build_head(f"POST {CHAT} HTTP/1.1", {"content-length": len(body)}, LIMITED) + body)
        assert not reads or client.recv(10)
        wait_until(lambda: ask(door, LIMITED).status_code == 429)
        refused = ask(door, LIMITED)
        assert (refused.headers["retry-after"], refused.json()["error"]["code"]) == (
            "5",
            "concurrency_limit_exceeded",
        )
        assert is_answered_at_once(door)
    wait_until(lambda: ask(door, LIMITED).status_code == 200, 5)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param([{"die": 3}], 503, id="that-dies"),
        pytest.param([{"raw": "rubbish"}], 503, id="that-babbles"),
        pytest.param([{"say": ["x"]}, {"die": 3}], 200, id="that-dies-behind-text"),
        pytest.param([{"say": ["x"]}], 200, id="that-ends"),
    ],
)
def test_an_answer_gives_its_place_back(door: Gateway, script: Any, status: int) -> None:
    told = [ask(door, LIMITED, script, stream=True).status_code for _ in range(2)]
    assert told == [status] * 2 or script[-1] == {"die": 3}
    assert 429 not in told


def test_a_body_that_is_too_large_is_refused_by_its_announcement(door: Gateway) -> None:
    """Before a byte of it is sent, and other requests are served meanwhile."""
    with connect(door) as client:
        client.sendall(build_head(f"POST {CHAT} HTTP/1.1", {"content-length": 10**13}))
        began_s = time.monotonic()
        reply = read_reply(client)
        assert (reply.status, reply.code) == (413, "request_too_large")
        assert time.monotonic() - began_s < 1
        assert is_answered_at_once(door)


# What a client may send


CHAT_LINE = f"POST {CHAT} HTTP/1.1"
MODELS_LINE = "GET /v1/models HTTP/1.1"


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        pytest.param(
            build_head("GET /v1/models\x00 HTTP/1.1"), 400, "malformed_request", id="nul-in-the-line"
        ),
        pytest.param(b"\r\n\r\n\r\n\r\n", 400, "malformed_request", id="empty-lines"),
        pytest.param(bytes(range(256)) * 4, 400, "malformed_request", id="garbage"),
        pytest.param(b"GET / HTTP/1.1\nHost: localhost\n\n", 400, "malformed_request", id="bare-newlines"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request", id="http-2"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", 400, "malformed_request", id="ssh"),
        pytest.param(b"*1\r\n$4\r\nPING\r\n", 400, "malformed_request", id="redis"),
        pytest.param(build_head(f"GET /{'x' * 5000} HTTP/1.1"), 414, "malformed_request", id="a-long-line"),
        pytest.param(
            build_head(MODELS_LINE, {"x-long": "y" * 17_000}), 431, "malformed_request", id="a-long-header"
        ),
        pytest.param(
            build_head(MODELS_LINE, {f"x-{number}": "y" for number in range(200)}),
            431,
            "malformed_request",
            id="many-headers",
        ),
        pytest.param(
            build_head(MODELS_LINE, {"x-request-id": "a\r\n b"}),
            400,
            "malformed_request",
            id="a-folded-header",
        ),
        *(
            pytest.param(
                build_head(line, {name: f"a{sign}x-evil: 1"}),
                400,
                "malformed_request",
                id=f"{about}-in-{name}",
            )
            for line, name in (
                (MODELS_LINE, "x-request-id"),
                (CHAT_LINE, "x-proxy-output-mode"),
                (MODELS_LINE, "origin"),
            )
            for sign, about in (("\n", "newline"), ("\r", "return"), ("\x00", "nul"))
        ),
        pytest.param(
            build_head(CHAT_LINE, {"content-length": 2, "Content-Length": 3}) + b"{}",
            400,
            "malformed_request",
            id="two-lengths",
        ),
        pytest.param(
            build_head(CHAT_LINE, {"content-length": 5, "transfer-encoding": "chunked"}) + b"0\r\n\r\n",
            400,
            "malformed_request",
            id="a-length-and-chunks",
        ),
        pytest.param(
            build_head(CHAT_LINE, {"content-length": "-1"}), 400, "malformed_request", id="a-negative-length"
        ),
        pytest.param(
            build_head(CHAT_LINE, {"transfer-encoding": "br, chunked"}),
            400,
            "malformed_request",
            id="a-coding-nobody-knows",
        ),
        pytest.param(
            build_head(MODELS_LINE, {"Host": "evil.example"}), 400, "malformed_request", id="two-hosts"
        ),
        pytest.param(
            build_head(CHAT_LINE, {"transfer-encoding": "chunked"}) + b"zz\r\n{}\r\n0\r\n\r\n",
            400,
            None,
            id="no-chunks",
        ),
        pytest.param(
            build_head(CHAT_LINE, {"transfer-encoding": "chunked"}) + b"2\r\n{}\r\n0\r\nHost: x\r\n\r\n",
            400,
            None,
            id="a-host-behind-the-body",
        ),
        pytest.param(
            build_head(CHAT_LINE, {"x-proxy-output-mode": "é", "content-length": 2}) + b"{}",
            400,
            None,
            id="no-mode",
        ),
        pytest.param(build_head(MODELS_LINE, {"authorization": "Bearer é"}), 401, "invalid_api_key", id="é"),
        pytest.param(build_head("GET http://evil.example/v1/nothing HTTP/1.1"), 404, "not_found", id="a-url"),
        pytest.param(build_head("CONNECT evil.example:443 HTTP/1.1"), 404, "not_found", id="connect"),
        pytest.param(
            build_head("GET /within/v1/models HTTP/1.1", {"SCRIPT_NAME": "/within"}),
            404,
            "not_found",
            id="a-header-that-is-a-variable",
        ),
        pytest.param(build_head("TRACE / HTTP/1.1"), 405, "method_not_allowed", id="trace"),
    ],
)
def test_what_a_client_may_send(door: Gateway, data: bytes, status: int, code: str | None) -> None:
    """One reply, in JSON, of our headers only; and the next client is served."""
    reply = send(door, data)
    assert (reply.status, reply.code, reply.body["error"].keys()) == (
        status,
        code,
        {"message", "type", "param", "code"},
    )
    assert [name for name in reply.headers if "evil" in name] == []
    assert get(door, "/v1/models", OURS).status_code == 200


IDS = [
    "..%2f..%2fetc%2fpasswd",
    "../../etc/passwd",
    "%2e%2e/%2e%2e/etc",
    "%00",
    "resp_%00",
    "%0d%0aX-Evil:%201",
]
IDS += ["x" * 3000, "%ff%fe", "%25%30%30", "'%20OR%201=1--", "resp_*", ".", "%2f", "resp_1%2f..%2f.."]


@pytest.mark.parametrize("response_id", IDS)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_id_is_no_path(door: Gateway, method: str, response_id: str) -> None:
    reply = send(door, build_head(f"{method} /v1/responses/{response_id} HTTP/1.1", {"connection": "close"}))
    assert reply.status == 404
    assert reply.code in ("response_not_found", "not_found")
    assert "x-evil" not in reply.headers


@pytest.mark.parametrize("response_id", ["../../etc/passwd", "\x00", "resp_\r\nx", "x" * 200, "' OR 1=1--"])
def test_an_id_in_a_body_is_no_path(door: Gateway, response_id: str) -> None:
    told = []
    for more in (
        {"previous_response_id": response_id, "input": "Hi"},
        {"input": [{"type": "item_reference", "id": response_id}]},
    ):
        body = {"model": "scripted-model"} | more
        told.append(
            requests.post(f"{door.base_url}/v1/responses", json=body, headers=bearer(OURS), timeout=20)
        )
    assert [(reply.status_code, reply.json()["error"]["code"]) for reply in told] == [
        (400, "previous_response_not_found"),
        (404, "item_not_found"),
    ]


INJECTED = '\n{"level":"error","message":"injected","request_id":"injected"}\n'
#: Ends of lines for one reader or another, and what a terminal obeys.
ODD_SIGNS = "\r\x0b\x0c\x1b[31m\x85\u2028\u2029\x9b31m\u202e\x7f"


def find_new_lines(gateway: Gateway, before: int) -> list[str]:
    return gateway.log_path.read_bytes()[before:].decode().split("\n")


@pytest.mark.parametrize("text", [pytest.param(INJECTED, id="lines"), pytest.param(ODD_SIGNS, id="signs")])
@pytest.mark.parametrize("where", ["model", "message", "tool", "path", "query"])
def test_no_client_writes_lines_of_its_own(door: Gateway, where: str, text: str) -> None:
    """Whatever it sends: every line is one JSON object, one of them the request's, and none obeys."""
    before = len(door.log_path.read_bytes())
    quoted = requests.utils.quote(text)
    request_id = f"line-{where}-{len(text)}"
    body: dict[str, Any] = {"model": "scripted-model", "messages": [{"role": "user", "content": "Hi"}]}
    match where:
        case "model":
            body["model"] = text
        case "message":
            body["messages"][0]["content"] = text
        case "tool":
            body["tools"] = [{"type": "function", "function": {"name": text}}]
    paths = {"path": f"/v1/{quoted}", "query": f"{CHAT}?x={quoted}"}
    headers = bearer(OURS) | {"x-request-id": request_id}
    requests.post(door.base_url + paths.get(where, CHAT), json=body, headers=headers, timeout=20)
    wait_until(lambda: find_account(door, request_id))
    *lines, rest = find_new_lines(door, before)
    told = [json.loads(line) for line in lines]
    assert rest == ""
    accounts = [line["request_id"] for line in told if line["logger"] == "access"]
    assert (accounts.count(request_id), accounts.count("injected")) == (1, 0)
    assert [line for line in lines if not line.isprintable()] == []


def test_every_line_of_the_log_is_json(door: Gateway) -> None:
    """The server's own too, of what it could not read; but for what it says when it starts."""
    send(door, b"GET / HTTP/1.1\r\nHost: localhost\r\nno-header\r\n\r\n")
    lines = door.log.split("\n")
    first = next(place for place, line in enumerate(lines) if line.startswith("{"))
    told = [json.loads(line) for line in lines[first:] if line]
    assert "gunicorn.error" in {line["logger"] for line in told}


# What a client still sends behind an answer


class Refusal(NamedTuple):
    line: str
    headers: dict[str, str]
    status: int


REFUSALS = [
    pytest.param(Refusal(CHAT_LINE, {"authorization": "Bearer wrong"}, 401), id="401"),
    pytest.param(Refusal(CHAT_LINE, {"origin": "https://evil.example"}, 403), id="403"),
    pytest.param(Refusal("POST /v1/nothing HTTP/1.1", {}, 404), id="404"),
    pytest.param(Refusal("POST /v1/models HTTP/1.1", {}, 405), id="405"),
    pytest.param(Refusal(CHAT_LINE, {}, 413), id="413"),
    pytest.param(Refusal(CHAT_LINE, {"content-type": "text/plain"}, 415), id="415"),
]


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_who_sends_all_of_its_body_reads_the_answer(door: Gateway, refusal: Refusal, connection: str) -> None:
    """A connection that is closed on what was not read is reset, and proxies make a 502 of that."""
    size = 18 * MB
    headers = refusal.headers | {"connection": connection, "content-length": str(size)}
    with connect(door) as client:
        client.sendall(build_head(refusal.line, headers))
        client.sendall(bytes(size))
        assert read_reply(client).status == refusal.status
        if connection == "close":
            assert client.recv(1) == b""
        else:
            client.sendall(build_head(MODELS_LINE))
            assert read_reply(client).body["object"] == "list"


def test_in_chunks_too(door: Gateway) -> None:
    chunk = b"%x\r\n%s\r\n" % (MB, bytes(MB))
    with connect(door) as client:
        client.sendall(
            build_head("POST /v1/nothing HTTP/1.1", {"transfer-encoding": "chunked", "connection": "close"})
        )
        for _ in range(18):
            client.sendall(chunk)
        client.sendall(b"0\r\n\r\n")
        assert (read_reply(client).status, client.recv(1)) == (404, b"")


def send_until_refused(client: socket.socket, pieces: Iterable[bytes], within_s: float) -> bool:
    """Whether the other side put an end to it in that time."""
    ends_s = time.monotonic() + within_s
    with contextlib.suppress(OSError):
        for piece in pieces:
            client.sendall(piece)
            if time.monotonic() > ends_s:
                return False
    return True


def repeat(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


@pytest.mark.parametrize(
    ("headers", "piece"),
    [
        pytest.param({"content-length": str(10**13)}, bytes(MB), id="announced"),
        pytest.param({"transfer-encoding": "chunked"}, b"%x\r\n%s\r\n" % (MB, bytes(MB)), id="in-chunks"),
        pytest.param({"transfer-encoding": "chunked"}, b"1\r\nx\r\n" * 50_000, id="in-chunks-of-a-byte"),
        # Legal, of no use to anyone, and more work than any other byte.
        pytest.param(
            {"transfer-encoding": "chunked"},
            (b"1;" + b"a=b;" * 1900 + b"a=b\r\nx\r\n") * 20,
            id="in-chunks-with-much-about-them",
        ),
    ],
)
def test_a_body_without_an_end_has_one(door: Gateway, headers: dict[str, str], piece: bytes) -> None:
    """In bounded time, and meanwhile others are answered at once: it takes no key to send one."""
    others: list[bool] = []
    with connect(door) as client:
        sender = threading.Thread(
            target=lambda: others.append(send_until_refused(client, repeat(piece), 15)), daemon=True
        )
        client.sendall(build_head(CHAT_LINE, headers, "wrong"))
        sender.start()
        for _ in range(5):
            assert is_answered_at_once(door)
        assert read_reply(client).status == 401
        sender.join(20)
    assert others == [True]


@pytest.mark.parametrize("line", ["GET /livez HTTP/1.1", MODELS_LINE])
def test_a_client_that_does_not_wait_for_its_answers(door: Gateway, line: str) -> None:
    """Request upon request on one connection, with no need of a key: the others have their turns."""
    with connect(door) as client:
        threads = [
            threading.Thread(target=act, daemon=True)
            for act in (
                lambda: send_until_refused(client, repeat(build_head(line, key="wrong") * 500), 60),
                lambda: read_end(client),
            )
        ]
        for thread in threads:
            thread.start()
        for _ in range(5):
            assert is_answered_at_once(door)
        client.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(20)


# Slow clients


def trickle(client: socket.socket, data: bytes, period_s: float, stopped: threading.Event) -> None:
    """A byte now and then."""
    with contextlib.suppress(OSError):
        for place in range(len(data)):
            client.sendall(data[place : place + 1])
            if stopped.wait(period_s):
                return


@contextlib.contextmanager
def trickling(client: socket.socket, data: bytes, period_s: float = 0.05) -> Iterator[None]:
    stopped = threading.Event()
    sender = threading.Thread(target=trickle, args=(client, data, period_s, stopped), daemon=True)
    sender.start()
    try:
        yield
    finally:
        stopped.set()
        sender.join()


def test_long_headers_of_a_byte_now_and_then(door: Gateway) -> None:
    """At each byte all that came before is looked through: that is done in turns too."""
    fields = {f"x-{number}": "y" * 8000 for number in range(90)}
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(connect(door))
            client.sendall(build_head(MODELS_LINE, fields, "wrong").removesuffix(b"\r\n"))
            stack.enter_context(trickling(client, b"x-slow: " + b"y" * 50_000, 0.0005))
        for _ in range(5):
            assert is_answered_at_once(door)


def test_a_body_of_a_byte_now_and_then(door: Gateway) -> None:
    """Each of them in time, all of them too late (PROXY_SOCKET_TIMEOUT_MS, and a second for 100 kB)."""
    began_s = time.monotonic()
    with connect(door) as client:
        client.sendall(build_head(CHAT_LINE, {"content-length": "10000"}))
        with trickling(client, b" " * 10_000):
            assert is_answered_at_once(door)
            reply = read_reply(client)
    assert (reply.status, reply.code) == (408, "request_timeout")
    assert time.monotonic() - began_s < 4


@pytest.mark.parametrize("size", [1, 1000])
def test_a_body_that_stops_coming(door: Gateway, size: int) -> None:
    with connect(door) as client:
        client.sendall(build_head(CHAT_LINE, {"content-length": 2 * MB}) + b" " * size)
        began_s = time.monotonic()
        assert read_reply(client).status == 408
        assert time.monotonic() - began_s < 4


def reset(client: socket.socket) -> None:
    """Leave without a word: RST instead of FIN."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"content-length": 2000}, b"{", id="announced"),
        pytest.param({"transfer-encoding": "chunked"}, b"7d0\r\n{", id="in-a-chunk"),
        pytest.param({"transfer-encoding": "chunked"}, b"1\r\n{\r\n", id="between-chunks"),
    ],
)
@pytest.mark.parametrize("leave", [socket.socket.close, reset])
def test_a_client_that_leaves_in_its_body_is_no_fault(
    door: Gateway, headers: dict[str, Any], body: bytes, leave: Callable[[socket.socket], None]
) -> None:
    request_id = secrets.token_hex(8)
    client = connect(door)
    client.sendall(build_head(CHAT_LINE, headers | {"x-request-id": request_id}) + body)
    leave(client)
    told = wait_until(lambda: find_account(door, request_id))
    assert [(line["status"], line["error"]) for line in told] == [(499, "client_closed_request")]


def find_account(gateway: Gateway, request_id: str) -> list[dict[str, Any]]:
    own = [line for line in gateway.lines() if line["logger"] == "access"]
    return [line for line in own if line["request_id"] == request_id]


def read_end(client: socket.socket) -> bytes:
    """What still came before the other side closed."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(4096):
            data += piece
    return data


def count_open(clients: list[socket.socket]) -> int:
    """How many of them the other side has not closed, nor said anything to."""
    watch = select.poll()
    for client in clients:
        watch.register(client, select.POLLIN)
    return len(clients) - len(watch.poll(0))


def test_a_thousand_connections_that_ask_for_nothing(door: Gateway) -> None:
    """Silent, kept, slow with their header or in its middle: they are let go, and others served meanwhile."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(door)) for _ in range(1000)]
        for client in clients[:100]:
            client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: loc")
        for client in clients[100:110]:
            stack.enter_context(trickling(client, build_head(MODELS_LINE, {"x-slow": "y" * 500})))
        for client in clients[110:120]:
            client.sendall(build_head(MODELS_LINE))
            assert read_reply(client).status == 200
        assert is_answered_at_once(door)
        assert count_open(clients) == 1000
        wait_until(lambda: count_open(clients) == 0, 10)
        assert {read_end(client) for client in clients} == {b""}
        assert is_answered_at_once(door)


def test_connections_leave_files_for_others(tmp_path: pathlib.Path) -> None:
    """A shell allows a thousand, which so many clients could take; the server may have more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        with run_gateway(tmp_path, CODEX_BIN=write_stand_in(tmp_path), PROXY_WARM_PROCESSES="1") as gateway:
            allowed = [resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in gateway.worker_pids]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert allowed == [(min(hard, 8192), hard)]


def test_nothing_of_all_this_was_a_fault_of_ours(door: Gateway) -> None:
    """The last test on this gateway: no traceback, no unhandled error, and nothing is left under way."""
    faults = [line for line in door.lines() if line.get("exception") or line.get("status") == 500]
    assert (faults, "Traceback" in door.log) == ([], False)
    metrics = requests.get(f"{door.base_url}/metrics", timeout=10).text
    assert "\ncodex_streams_open 0.0" in metrics
