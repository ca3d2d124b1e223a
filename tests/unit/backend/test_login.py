"""Who the gateway is logged in as, and when its tokens are refreshed."""

from __future__ import annotations

import base64
import fcntl
import json
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.backend.login import Login, LoginFile, LoginKeeper, parse_login, read_claims
from tests.support.gateway import wait_until


def build_token(**claims: Any) -> str:
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({}, claims))
    return f"{head.decode()}.{body.decode()}.signature"


def build_auth(access: dict[str, Any], identity: dict[str, Any], account: str = "acc", **more: Any) -> bytes:
    tokens = {
        "access_token": build_token(**access),
        "id_token": build_token(**identity),
        "account_id": account,
        "refresh_token": "rt",
    }
    return json.dumps({"auth_mode": "chatgpt", "tokens": tokens} | more).encode()


BEFORE = build_auth({"exp": 100, "session_id": "s"}, {"auth_time": 1})


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        pytest.param(
            build_auth({"exp": 900, "session_id": "s"}, {"auth_time": 1, "exp": 7}), True, id="refresh"
        ),
        pytest.param(build_auth({"exp": 100, "session_id": "t"}, {"auth_time": 1}), False, id="session"),
        pytest.param(build_auth({"exp": 100, "session_id": "s"}, {"auth_time": 2}), False, id="login-again"),
        pytest.param(build_auth({"session_id": "s"}, {"auth_time": 1}, "other"), False, id="account"),
        pytest.param(b'{"auth_mode":"apikey","OPENAI_API_KEY":"sk-1"}', False, id="a-key-instead"),
        pytest.param(b"{}", False, id="nothing-in-it"),
    ],
)
def test_a_refresh_is_no_login(after: bytes, is_same: bool) -> None:
    assert (parse_login(after).identity == parse_login(BEFORE).identity) is is_same


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(BEFORE, 100.0, id="a-token-that-ends"),
        pytest.param(build_auth({}, {}), None, id="one-that-does-not"),
        pytest.param(build_auth({"exp": "soon"}, {}), None, id="one-that-says-nonsense"),
        pytest.param(b'{"OPENAI_API_KEY": "sk-1"}', None, id="a-key"),
        pytest.param(b"[]", None, id="no-object"),
    ],
)
def test_when_a_login_ends(data: bytes, expected: float | None) -> None:
    assert parse_login(data).expires_at_s == expected


@pytest.mark.parametrize("token", [None, "", "a.b", "a.!!!.c", "a.W10.c", "a.e30.c"])
def test_what_is_no_token_says_nothing(token: str | None) -> None:
    assert read_claims(token) == {}


def test_a_file_is_read_when_it_has_changed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "auth.json"
    file = LoginFile(path)
    seen = [file.read()]
    for data in (BEFORE, b'{"half', b"{}"):
        path.write_bytes(data)
        seen.append(file.read())
    path.unlink()
    assert [*seen, file.read()] == [
        Login(),
        parse_login(BEFORE),
        parse_login(BEFORE),
        parse_login(b"{}"),
        Login(),
    ]


Keep = Callable[[float], tuple[LoginKeeper, list[int]]]


@pytest.fixture
def keep(tmp_path: pathlib.Path) -> Keep:
    """Makes the keeper of a login that ends in so many seconds, and what it has refreshed."""

    def make(ends_in_s: float) -> tuple[LoginKeeper, list[int]]:
        path = tmp_path / "auth.json"
        path.write_bytes(build_auth({"exp": time.time() + ends_in_s}, {}))
        refreshed: list[int] = []
        return LoginKeeper(LoginFile(path), tmp_path / "lock", lambda: refreshed.append(1)), refreshed

    return make


def wait_for_threads() -> None:
    wait_until(
        lambda: not [each for each in threading.enumerate() if each.name == LoginKeeper._keep.__qualname__]
    )


@pytest.mark.parametrize(
    ("ends_in_s", "expected"),
    [pytest.param(3600, 0, id="later"), pytest.param(500, 1, id="soon"), pytest.param(-5, 1, id="past")],
)
def test_a_login_that_ends_soon_is_refreshed_once_a_minute(
    keep: Keep, ends_in_s: float, expected: int
) -> None:
    keeper, refreshed = keep(ends_in_s)
    for _ in range(3):
        keeper.look()
        wait_for_threads()
    assert len(refreshed) == expected


def test_one_keeper_of_a_box_refreshes(keep: Keep, tmp_path: pathlib.Path) -> None:
    keeper, refreshed = keep(5)
    with open(tmp_path / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper.look()
        wait_for_threads()
    assert refreshed == []


def test_a_refresh_that_fails_is_no_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "auth.json"
    path.write_bytes(build_auth({"exp": time.time()}, {}))

    def fail() -> None:
        raise OSError("no network")

    keeper = LoginKeeper(LoginFile(path), tmp_path / "lock", fail)
    keeper.look()
    wait_for_threads()
    assert (tmp_path / "lock").exists()
