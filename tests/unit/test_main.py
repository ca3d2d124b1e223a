"""The commands of `codex-gateway`, and what they say in a terminal."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.__main__ import main
from app.lib.keys import AccessKey, KeyLimits, Role, digest_key, parse_keys
from app.settings import Settings

ROOT = pathlib.Path(__file__).parents[2]

Said = tuple[int, str, str]


@pytest.fixture(autouse=True)
def at_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of whoever runs the tests, and a state folder of the test's own."""
    for name in os.environ:
        if name.startswith(("PROXY_", "CODEX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PROXY_STATE_DIR", str(tmp_path / "state"))
    mask = os.umask(0o022)
    yield
    os.umask(mask)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | pathlib.Path) -> Said:
    status = main([*map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_key_is_told_once(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    """The key alone on standard output, for a script; what a person is to know beside it."""
    path = tmp_path / "state" / "keys.toml"
    status, out, err = run(capsys, "key", "alice")
    key = out.removesuffix("\n")
    assert (status, parse_keys(path.read_text())) == (
        0,
        (AccessKey("alice", digest_key(key.encode()), Role.CLIENT),),
    )
    assert err.splitlines() == [
        f"The client key of alice is not shown again; its hash is in {path}.",
        f"For a gateway that does not read that file yet: PROXY_API_KEYS_FILE={path}",
    ]
    assert (key in err, key in path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (False, False, 0o600)


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has the package has none of the documents."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["serve", "--help"])
    told = capsys.readouterr().out.split()
    knobs = [each.metadata for each in dataclasses.fields(Settings) if each.metadata]
    assert {f"{knob['name']}={knob['default']}" for knob in knobs} <= set(told)


def test_key_with_everything(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "etc" / "keys.toml"
    monkeypatch.setenv("PROXY_API_KEYS_FILE", str(path))
    limits = ["--requests-per-minute", "60", "--max-streams", "0"]
    status, out, err = run(capsys, "key", "ops", "--role", "admin", *limits)
    assert (status, parse_keys(path.read_text())) == (
        0,
        (AccessKey("ops", digest_key(out.strip().encode()), Role.ADMIN, KeyLimits(60, 0)),),
    )
    assert err == f"The admin key of ops is not shown again; its hash is in {path}.\n"


def test_key_goes_where_it_is_told_to(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_API_KEYS_FILE", str(tmp_path / "in-use.toml"))
    path = tmp_path / "other.toml"
    status, _, err = run(capsys, "key", "alice", "--file", path)
    assert (status, path.exists(), (tmp_path / "in-use.toml").exists()) == (0, True, False)
    assert err.splitlines()[-1].endswith(f"PROXY_API_KEYS_FILE={path}")


def test_a_second_key_of_a_name_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "state" / "keys.toml"
    run(capsys, "key", "alice")
    before = path.read_bytes()
    assert run(capsys, "key", "alice") == (
        1,
        "",
        f"codex-gateway: {path}: there is a key named alice already\n",
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"[a", "Expected ']' at the end of a table declaration", id="no-toml"),
        pytest.param(b"\xff", "'utf-8' codec can't decode byte 0xff", id="no-text"),
        pytest.param(None, "Is a directory", id="no-file"),
    ],
)
def test_a_key_for_a_file_that_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(content) if content else path.mkdir()
    status, out, err = run(capsys, "key", "alice", "--file", path)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"codex-gateway: {path}: {complaint}")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["key"], "the following arguments are required: name", id="no-name"),
        pytest.param(["key", "a", "--role", "owner"], "invalid choice: 'owner'", id="no-such-role"),
        pytest.param(["key", "a", "--max-streams", "many"], "invalid int value: 'many'", id="no-number"),
        pytest.param([], "the following arguments are required: serve|login|doctor|key|trace", id="nothing"),
        pytest.param(["start"], "invalid choice: 'start'", id="no-such-command"),
        pytest.param(["trace"], "the following arguments are required: id", id="no-id"),
    ],
)
def test_what_is_not_understood(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


KEYS_FAULT = "[a]: hash must be `sha256:` and 64 hex digits"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("[a]\nhash = 1\n", KEYS_FAULT, id="not-to-be-meant"),
        pytest.param("[a", "Expected ']'", id="no-toml"),
        pytest.param(None, "No such file or directory", id="missing"),
    ],
)
def test_a_wrong_keys_file_stops_the_start(
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    complaint: str,
) -> None:
    """In one line; a gateway without its keys file is not an open one."""
    path = tmp_path / "keys.toml"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("PROXY_API_KEYS_FILE", str(path))
    with socket.create_server(("127.0.0.1", 0)) as taken:  # or it would go on, and become gunicorn
        monkeypatch.setenv("PROXY_PORT", str(taken.getsockname()[1]))
        status, out, err = run(capsys, "serve")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"codex-gateway: PROXY_API_KEYS_FILE={path}: {complaint}")


@pytest.mark.parametrize("command", ["serve", "login", "key", "doctor"])
def test_a_wrong_setting_stops_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PROXY_PORT", "http")
    assert run(capsys, command, *["alice"] * (command == "key")) == (
        1,
        "",
        "codex-gateway: PROXY_PORT=http: must be a port number\n",
    )


def test_a_start_names_what_is_no_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_API_KEYS_FILE", "/nowhere/keys.toml")  # or it would become gunicorn
    monkeypatch.setenv("PROXY_REQUEST_PER_MINUTE", "60")
    status, _, err = run(capsys, "serve")
    assert (status, err.splitlines()) == (
        1,
        [
            "codex-gateway: PROXY_REQUEST_PER_MINUTE: there is no such setting, and nothing comes of it",
            "codex-gateway: PROXY_API_KEYS_FILE=/nowhere/keys.toml: No such file or directory",
        ],
    )


LINE = {
    "time": "2026-01-31T12:00:00+00:00",
    "level": "info",
    "logger": "access",
    "message": "request",
    "request_id": "req_1",
}


@pytest.mark.parametrize(
    ("wanted", "status", "out", "err"),
    [
        pytest.param("req_1", 0, 1, "", id="found"),
        pytest.param("req_2", 1, 0, "codex-gateway: no line of the log is about req_2\n", id="not-found"),
    ],
)
def test_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, wanted: str, status: int, out: int, err: str
) -> None:
    log = tmp_path / "log"
    log.write_text("no JSON\n" + json.dumps(LINE) + "\n")
    told = run(capsys, "trace", wanted, log)
    assert (told[0], told[1].count("\n"), told[2]) == (status, out, err)


def test_a_log_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "trace", "req_1", "/nonexistent/log")
    assert told == (1, "", "codex-gateway: /nonexistent/log: No such file or directory\n")


def test_what_a_command_makes_is_nobody_else_s_to_read(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    run(capsys, "key", "alice", "--file", tmp_path / "a" / "b" / "keys.toml")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in sorted((tmp_path / "a").rglob("*"))]
    assert (modes, stat.S_IMODE((tmp_path / "a").stat().st_mode)) == ([0o700, 0o600], 0o700)


def test_as_a_program(tmp_path: pathlib.Path) -> None:
    """As `make key` runs it: the key is all that a script reads."""
    command = [sys.executable, "-m", "app", "key", "alice", "--file", str(tmp_path / "keys.toml")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    [key] = parse_keys((tmp_path / "keys.toml").read_text())
    assert digest_key(run.stdout.removesuffix("\n").encode()) == key.digest
