"""What the gateway stands on, without codex."""

from __future__ import annotations

import getpass
import os
import pathlib

import pytest

from app.doctor import run_check
from app.doctor.findings import Finding, Level, note, wrong
from app.doctor.ground import (
    check_settings,
    count_filed_keys,
    find_faults,
    find_name,
    find_obstacle,
    find_pin,
    judge_place,
)
from app.doctor.patient import Blocked, Patient, Unfit
from app.settings import Settings

KEY = '[{}]\nhash = "sha256:{:064x}"\n'


def write_keys(folder: pathlib.Path, text: str, mode: int = 0o600) -> pathlib.Path:
    path = folder / "keys.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def examine(folder: pathlib.Path, **environ: str) -> list[Finding]:
    return check_settings(Patient(Settings.from_env({"PROXY_STATE_DIR": str(folder)} | environ)))


def test_keys_of_a_file_are_counted(tmp_path: pathlib.Path) -> None:
    path = write_keys(tmp_path, KEY.format("a", 1) + KEY.format("b", 2))
    assert (count_filed_keys(path), count_filed_keys(None)) == (2, 0)


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        pytest.param("[a]\nhash = 1\n", 0o600, r"\[a\]: hash must be", id="no-hash"),
        pytest.param(KEY.format("a", 1), 0o604, "chmod o= ", id="everybodys"),
        pytest.param(None, 0, "No such file", id="missing"),
    ],
)
def test_a_keys_file_that_will_not_do(tmp_path: pathlib.Path, text: str | None, mode: int, told: str) -> None:
    path = tmp_path / "none" if text is None else write_keys(tmp_path, text, mode)
    with pytest.raises(Unfit, match=told):
        count_filed_keys(path)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        pytest.param({}, ["127.0.0.1:11435, open: whoever is on this machine needs no key"], id="open"),
        pytest.param(
            {"PROXY_HOST": "0.0.0.0", "PROXY_API_KEY": "k" * 20}, ["0.0.0.0:11435, with 1 key"], id="one"
        ),
        pytest.param(
            {"PROXY_API_KEY": "k" * 20, "PROXY_ADMIN_KEY": "rather-short"},
            ["127.0.0.1:11435, with 2 keys", "a key is shorter than 16 characters"],
            id="one-is-short",
        ),
        pytest.param(
            {"PROXY_LOG_BODIES": "1", "PROXY_TEST_ENDPOINTS": "1"},
            ["127.0.0.1:11435, open", "PROXY_LOG_BODIES", "PROXY_TEST_ENDPOINTS"],
            id="for-debugging",
        ),
    ],
)
def test_settings(tmp_path: pathlib.Path, environ: dict[str, str], told: list[str]) -> None:
    found = [finding.text for finding in examine(tmp_path, **environ)]
    assert [text.startswith(start) for text, start in zip(found, told, strict=True)] == [True] * len(told), (
        found
    )


def test_a_keys_file_without_a_key(tmp_path: pathlib.Path) -> None:
    """As the installer writes it."""
    path = write_keys(tmp_path, "")
    [found] = examine(tmp_path, PROXY_API_KEYS_FILE=str(path))
    assert (found.level, f"nobody gets in: `make key NAME=... FILE={path}`" in found.text) == (
        Level.WRONG,
        True,
    )


def test_the_version_of_codex_is_pinned() -> None:
    assert (find_pin() or "").count(".") == 2


def test_a_folder_of_another_user(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by a doctor who is somebody else, nothing in it would be the gateway's to write."""
    state = tmp_path / "state"
    (state / "codex-home").mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    me, patient = getpass.getuser(), Patient(Settings(state_dir=state))
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert list(find_faults(state)) == [f"{state} is {me}'s: run as {me}, or set PROXY_STATE_DIR"]
    with pytest.raises(Blocked, match="another user's"):
        patient.prepared.get()


def test_a_file_of_another_user(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `sudo make login` leaves one."""
    auth = tmp_path / "codex-home" / "auth.json"
    auth.parent.mkdir()
    auth.touch(0o600)
    tmp_path.chmod(0o700)
    me, stat = getpass.getuser(), pathlib.Path.stat

    def lend(path: pathlib.Path, *, follow_symlinks: bool = True) -> os.stat_result:
        about = stat(path, follow_symlinks=follow_symlinks)
        return os.stat_result([*about[:4], 54321, *about[5:]]) if path == auth else about

    monkeypatch.setattr(pathlib.Path, "stat", lend)
    assert list(find_faults(tmp_path)) == [f"{auth} is 54321's: `chown -R {me} {tmp_path}`"]


def test_a_folder_nobody_may_write(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert list(find_obstacle(tmp_path)) == [
        f"it cannot be made: {tmp_path} is not ours to write; set PROXY_STATE_DIR"
    ]
    assert [text.partition(":")[0] for text in find_faults(tmp_path / "state")] == [
        f"{tmp_path}/state cannot be read and written"
    ]


def test_temporary_places_are_worth_a_note() -> None:
    told = "/tmp/state is under /tmp, which systems tidy up: set PROXY_STATE_DIR to keep it"
    assert judge_place(pathlib.Path("/tmp/state")) == [note("state", told)]
    assert judge_place(pathlib.Path("/var/lib/codex-gateway")) == []


def test_a_user_without_a_name() -> None:
    assert find_name(54321) == "54321"


def test_a_configuration_that_cannot_be_read_is_of_the_settings(tmp_path: pathlib.Path) -> None:
    patient = Patient(
        Settings.from_env({"PROXY_CODEX_CONFIG_FILE": "/none", "PROXY_STATE_DIR": str(tmp_path)})
    )
    [finding] = run_check("settings", check_settings, patient, 10)
    assert finding == wrong(
        "settings", "PROXY_CODEX_CONFIG_FILE=/none: [Errno 2] No such file or directory: '/none'"
    )
