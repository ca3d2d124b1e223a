"""`make doctor` with the real codex: on a sound state folder, on broken ones, beside a running gateway."""

from __future__ import annotations

import fcntl
import http.server
import json
import pathlib
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import codex_cli_bin
import pytest
import requests

from app import doctor
from app.backend.login import LOG_IN
from app.settings import Settings
from tests.support.gateway import Gateway, run_gateway
from tests.support.token_server import write_login

pytestmark = pytest.mark.real

DEMO = {"PROXY_DEMO": "true"}
LEVELS = ("ok", "note", "WRONG")


class Examination:
    """What the doctor said, by level and name."""

    def __init__(self, code: int, told: str) -> None:
        self.code = code
        self.told = told
        *lines, self.sum = told.splitlines()
        self._lines = [(line[:6].strip(), line[6:18].strip(), line[18:]) for line in lines]
        assert {level for level, _, _ in self._lines} <= set(LEVELS)

    def find(self, level: str) -> dict[str, str]:
        """The texts of a level, by the name of what was looked at."""
        found: dict[str, str] = {}
        for each, name, text in self._lines:
            if each == level:
                found[name] = f"{found[name]}\n{text}" if name in found else text
        return found


@pytest.fixture
def examine(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(url: str | None = None, **environ: str) -> Examination:
        given = {"PROXY_STATE_DIR": f"{tmp_path}/state", "PROXY_PORT": "0"} | environ
        code = doctor.run(Settings.from_env(given), url)
        return Examination(code, capsys.readouterr().out)

    return run


def write_config(folder: pathlib.Path, text: str) -> str:
    path = folder / "codex.toml"
    path.write_text(text)
    return str(path)


def test_nothing_is_wrong_on_a_fresh_state_folder(examine: Any, tmp_path: pathlib.Path) -> None:
    seen = examine(**DEMO)
    names = ("settings", "codex", "state", "catalogue", "config", "bare model", "limits", "port")
    assert (seen.code, seen.find("WRONG")) == (0, {})
    assert seen.find("ok").keys() == set(names)
    assert "only the model `demo` answers" in seen.find("note")["login"]
    assert seen.sum == f"{len(seen.told.splitlines()) - 1} checks, 0 wrong"
    assert list((tmp_path / "state" / "processes").iterdir()) == []


def test_a_second_look_finds_the_same(examine: Any) -> None:
    first, second = examine(**DEMO), examine(**DEMO)
    assert "will be made" in first.find("ok")["state"]
    for name in ("catalogue", "config", "bare model"):
        assert first.find("ok")[name] == second.find("ok")[name]


def write_key(folder: pathlib.Path) -> pathlib.Path:
    """A login that codex asks nobody about, in a state folder as it should be."""
    auth = folder / "state" / "codex-home" / "auth.json"
    for place in (auth.parent.parent, auth.parent):
        place.mkdir(mode=0o700)
    auth.write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-not-to-be-told-anywhere"}))
    auth.chmod(0o600)
    return auth


def test_an_api_key_is_a_login_and_is_not_told(examine: Any, tmp_path: pathlib.Path) -> None:
    write_key(tmp_path)
    seen = examine(PROXY_API_KEY="short-key", PROXY_MODELS="fast=gpt-5.5:low,mine=my-model")
    assert seen.find("ok")["login"] == "an API key"
    assert (seen.code, seen.find("WRONG")) == (0, {})
    assert "shorter than" in seen.find("note")["settings"]
    assert [secret for secret in ("sk-not", "short-key") if secret in seen.told] == []
    assert "the client's words" in seen.find("ok")["bare model"]


@pytest.mark.parametrize(
    ("config", "name", "told"),
    [
        pytest.param('web_search = "live"', "bare model", "the tool `web_search`", id="a-tool"),
        pytest.param("include_environment_context = true", "bare model", "a user message (", id="a-text"),
        pytest.param("nonsense = 3", "config", "`nonsense` is ignored", id="nothing-codex-knows"),
        pytest.param('web_search = "x"', "config", "unknown variant `x`", id="nothing-codex-can-mean"),
        pytest.param("x = [", "settings", "PROXY_CODEX_CONFIG_FILE", id="no-toml"),
        pytest.param('model_catalog_json = "/none"', "catalogue", "/none is no catalogue", id="no-catalogue"),
    ],
)
def test_an_operators_configuration_is_found_out(
    examine: Any, tmp_path: pathlib.Path, config: str, name: str, told: str
) -> None:
    seen = examine(PROXY_CODEX_CONFIG_FILE=write_config(tmp_path, config), **DEMO)
    assert (seen.code, told in seen.find("WRONG")[name]) == (1, True), seen.told


def test_an_operators_catalogue_is_found_out(examine: Any, tmp_path: pathlib.Path) -> None:
    """With what its one model is sent beyond the client's words."""
    examine(**DEMO)
    catalogue = json.loads((tmp_path / "state" / "codex-home" / "models.json").read_text())
    agent = catalogue["models"][0] | {
        "experimental_supported_tools": ["update_plan"],
        "tool_mode": "code_mode",
    }
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"models": [agent]}))
    config = write_config(tmp_path, f'model_catalog_json = "{path}"')
    wrong = examine(PROXY_CODEX_CONFIG_FILE=config, PROXY_MODELS="mine=my-model", **DEMO).find("WRONG")
    assert "(tool_mode, experimental_supported_tools); it lacks my-model" in wrong["catalogue"]
    assert "codex sent more than the client's words" in wrong["bare model"]


@pytest.mark.parametrize(
    ("script", "name", "told"),
    [
        pytest.param(None, "codex", "does not run (No such file or directory)", id="missing"),
        pytest.param("exit 3", "codex", "exit status 3", id="fails"),
        pytest.param('[ "$1" = --version ] && echo codex 0.1', "catalogue", "does not start", id="of-no-use"),
    ],
)
def test_a_binary_that_is_none(
    examine: Any, tmp_path: pathlib.Path, script: str | None, name: str, told: str
) -> None:
    binary = tmp_path / "codex"
    if script:
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
    seen = examine(CODEX_BIN=str(binary), **DEMO)
    assert (seen.code, told in seen.find("WRONG")[name]) == (1, True), seen.told
    # Said once; what needs it is not looked at.
    assert (seen.find("WRONG").keys(), "not looked at" in seen.find("note")["bare model"]) == ({name}, True)


def test_another_binary_is_worth_a_note(examine: Any, tmp_path: pathlib.Path) -> None:
    binary = tmp_path / "codex"
    binary.write_text(f'#!/bin/sh\nexec {codex_cli_bin.bundled_codex_path()} "$@"\n')
    binary.chmod(0o755)
    seen = examine(CODEX_BIN=str(binary), **DEMO)
    assert (seen.code, "by CODEX_BIN" in seen.find("note")["codex"]) == (0, True)


def test_a_process_that_is_silent_has_a_deadline(examine: Any, tmp_path: pathlib.Path) -> None:
    binary = tmp_path / "codex"
    real = codex_cli_bin.bundled_codex_path()
    binary.write_text(f'#!/bin/sh\n[ "$1" = app-server ] && exec sleep 60\nexec {real} "$@"\n')
    binary.chmod(0o755)
    seen = examine(CODEX_BIN=str(binary), PROXY_START_TIMEOUT_MS="300", **DEMO)
    assert seen.find("WRONG") == {"login": "Codex did not answer initialize in time."}


def test_a_model_on_loopback_is_reached_around_a_proxy(examine: Any) -> None:
    assert examine(HTTP_PROXY="http://127.0.0.1:9", **DEMO).find("WRONG") == {}


def test_nobody_is_logged_in(examine: Any) -> None:
    seen = examine()
    assert (seen.code, seen.find("WRONG")) == (1, {"login": f"nobody is logged in: {LOG_IN}"})


def test_a_state_folder_in_disorder(examine: Any, tmp_path: pathlib.Path) -> None:
    state, auth = tmp_path / "state", write_key(tmp_path)
    state.chmod(0o755)
    auth.chmod(0o644)
    (auth.parent / "AGENTS.md").write_text("Speak like a pirate.")
    wrong = examine(**DEMO).find("WRONG")
    assert wrong["state"].splitlines() == [
        f"{state} is open to others (755): `chmod 700 {state}`",
        f"{auth} is open to others (644): `chmod 600 {auth}`",
        f"codex sends {auth.parent}/AGENTS.md to the model with every request: remove it",
    ]
    assert "a user message (" in wrong["bare model"]


def test_a_state_folder_that_is_a_file(examine: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").touch()
    seen = examine(**DEMO)
    assert seen.find("WRONG")["state"] == f"{tmp_path}/state is no folder: set PROXY_STATE_DIR"
    assert "bare model" in seen.find("note")


class Stranger(http.server.BaseHTTPRequestHandler):
    """A web server that is no gateway; as a proxy it is a bad one."""

    target = ""

    def do_GET(self) -> None:
        self.reply(404, b"<html>nothing here</html>")

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Quiet."""


class BadProxy(Stranger):
    """Keeps an answer until it is whole, drops headers, and has pages of its own for errors."""

    def do_GET(self) -> None:
        self.pass_on("GET", None)

    def do_POST(self) -> None:
        self.pass_on("POST", self.rfile.read(int(self.headers["content-length"])))

    def pass_on(self, method: str, body: bytes | None) -> None:
        headers = {"content-type": "application/json", "connection": "close"}
        answer = requests.request(method, self.target + self.path, data=body, headers=headers, timeout=10)
        self.reply(answer.status_code, answer.content if answer.ok else b"<html>no</html>")


@contextmanager
def serve(handler: type[Stranger]) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_port_that_a_stranger_has(examine: Any) -> None:
    with serve(Stranger) as port:
        told = examine(PROXY_PORT=str(port), **DEMO).find("WRONG")["port"]
    assert told == (
        f"127.0.0.1:{port} is taken by something that is no gateway (HTTP 404, text/html): "
        "end it, or set PROXY_PORT"
    )


def hang_up(server: socket.socket) -> None:
    server.accept()[0].close()


def test_a_port_whose_holder_does_not_speak_http(examine: Any) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, serve(Stranger) as other:
        port = silent.getsockname()[1]
        closer = threading.Thread(target=hang_up, args=(silent,), daemon=True)
        closer.start()
        seen = examine(f"https://127.0.0.1:{other}", PROXY_PORT=str(port), CODEX_BIN="/none")
        closer.join(10)
    assert "no gateway, or by one that hangs" in seen.find("WRONG")["port"]
    assert "is not trusted" in seen.find("WRONG")["front"]


def test_an_address_that_is_not_ours(examine: Any) -> None:
    seen = examine(
        "http://127.0.0.1:9",
        PROXY_HOST="192.0.2.1",
        PROXY_PORT="8",
        PROXY_API_KEY="k" * 20,
        CODEX_BIN="/none",
    )
    assert "cannot listen on 192.0.2.1:8" in seen.find("WRONG")["port"]
    assert "127.0.0.1:9 cannot be reached (Connection refused)" in seen.find("WRONG")["front"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with run_gateway(tmp_path_factory.mktemp("doctor"), PROXY_WARM_PROCESSES="1", **DEMO) as gateway:
        yield gateway


def describe(gateway: Gateway) -> dict[str, str]:
    port = gateway.base_url.rpartition(":")[2]
    return {"PROXY_STATE_DIR": str(gateway.state_dir), "PROXY_PORT": port, **DEMO}


def test_a_running_gateway_is_left_alone(examine: Any, running: Gateway) -> None:
    home = running.state_dir / "codex-home"
    made = [home / name for name in ("config.toml", "models.json", "models.stamp")]
    before, pids = [path.stat().st_ino for path in made], running.codex_pids
    seen = examine(running.base_url, **describe(running))
    assert ([path.stat().st_ino for path in made], pids - running.codex_pids) == (before, set())
    assert (seen.code, seen.find("WRONG")) == (0, {})
    assert "is ready" in seen.find("ok")["port"]
    assert "the client's words" in seen.find("ok")["bare model"]
    for told in ("reaches a gateway", "errors arrive", "x-request-id", "as they are written"):
        assert told in seen.find("ok")["front"]
    assert running.chat("hi", model="demo").status_code == 200


def test_a_running_gateway_with_other_settings(
    examine: Any, running: Gateway, tmp_path: pathlib.Path
) -> None:
    """Its configuration stays, and is what the bare model is tried with."""
    config = running.state_dir / "codex-home" / "config.toml"
    before = config.read_bytes()
    other = write_config(tmp_path, 'web_search = "live"')
    seen = examine(**describe(running), PROXY_CODEX_CONFIG_FILE=other)
    assert seen.find("WRONG").keys() == {"catalogue"}
    assert "another configuration or catalogue than these settings" in seen.find("WRONG")["catalogue"]
    assert config.read_bytes() == before


@pytest.mark.parametrize(
    ("ends_in_s", "level", "told"),
    [
        pytest.param(300, "note", "which the running gateway is about to do", id="about-to-end"),
        pytest.param(
            -300,
            "WRONG",
            "the running gateway could not renew it: `make login`, or `codex-gateway login`",
            id="ended",
        ),
    ],
)
def test_a_login_that_a_running_gateway_is_to_renew(
    examine: Any, tmp_path: pathlib.Path, ends_in_s: float, level: str, told: str
) -> None:
    """Nobody else asks codex then: a refresh token can be used once."""
    examine(**DEMO)
    write_login(tmp_path / "state" / "codex-home", ends_in_s).chmod(0o600)
    process = tmp_path / "state" / "processes" / "process-of-a-gateway"
    process.mkdir()
    with open(process / "stderr", "wb") as stderr:
        fcntl.flock(stderr, fcntl.LOCK_EX)
        seen = examine(**DEMO)
    assert told in seen.find(level)["login"]
    assert seen.find("note")["bare model"] == "not looked at: the gateway is about to renew the login"


def test_a_bad_proxy_in_front(examine: Any, running: Gateway) -> None:
    handler = type("Handler", (BadProxy,), {"target": running.base_url})
    with serve(handler) as port:
        told = examine(f"http://127.0.0.1:{port}/v1", **describe(running)).find("WRONG")["front"]
    error, stream = told.splitlines()
    assert error == (
        "an error is not the gateway's own (HTTP 400, text/html): no proxy_intercept_errors, "
        "or error pages in its JSON"
    )
    assert "a stream was held up (pieces: 1, in 0.0 s): `proxy_buffering off`" in stream
