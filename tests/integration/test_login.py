"""Logging in by device code and out again, on the real codex with an issuer of our own."""

import json
import os
import pathlib
import time
from collections.abc import Iterator

import flask
import pytest

from app import create_app
from app.lib.account import Account, AccountReport, AccountState, LoginCode, LoginDone, LoginFailed
from app.lib.account_limits import AccountLimits, LimitWindow
from app.pipeline import Backend
from app.settings import Settings
from tests.support.gateway import wait_until
from tests.support.issuer import EMAIL, USER_CODE, Issuer, write_codex, write_provider
from tests.support.scripted_model import ScriptedModel
from tests.support.visitor import Visitor, read_code, read_end

pytestmark = pytest.mark.real

OUT = Account(AccountState.OUT)
IN = Account(AccountState.IN, "chatgpt", "pro", EMAIL)
#: Of the account, and of what it is asked for on the way to a turn: nothing of codex's own besides.
ABOUT_ACCOUNT = ("/deviceauth/", "/oauth/", "/accounts/check", "/usage", "/settings/user")


@pytest.fixture
def environ(tmp_path: pathlib.Path, issuer: Issuer, model: ScriptedModel) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PROXY_STATE_DIR": str(tmp_path / "state"),
        "CODEX_BIN": write_codex(tmp_path, issuer),
        "PROXY_CODEX_CONFIG_FILE": write_provider(tmp_path, issuer, model.base_url),
        "PROXY_WARM_PROCESSES": "1",
    }


@pytest.fixture
def served(environ: dict[str, str]) -> Iterator[flask.Flask]:
    app = create_app(Settings.from_env(environ))
    app.extensions["lifecycle"].start()
    wait_until(app.extensions["backend"].is_ready, 20)
    yield app
    app.extensions["lifecycle"].close()


@pytest.fixture
def backend(served: flask.Flask) -> Backend:
    codex: Backend = served.extensions["backend"]
    return codex


def ask(served: flask.Flask) -> tuple[int, str]:
    """What a turn comes to: its text, or its error's code."""
    said = {"role": "user", "content": json.dumps([{"say": ["told"]}])}
    body = {"model": "scripted-model", "messages": [said]}
    response = served.test_client().post("/v1/chat/completions", json=body, buffered=True)
    told = response.get_json()
    text = told["choices"][0]["message"]["content"] if response.status_code == 200 else told["error"]["code"]
    return response.status_code, text


def test_in_and_out_without_a_restart(served: flask.Flask, backend: Backend, issuer: Issuer) -> None:
    visitor = Visitor()
    assert backend.account(visitor) == AccountReport(OUT)
    assert ask(served) == (502, "upstream_unauthorized")

    steps = backend.log_in(visitor)
    assert read_code(steps) == LoginCode(f"{issuer.url}/codex/device", USER_CODE)
    issuer.approve()
    assert read_end(steps) == LoginDone()
    windows = LimitWindow(12, 300, 1_800_000_000), LimitWindow(34, 10_080, 1_800_500_000)
    told = backend.account(visitor)
    assert told == AccountReport(IN, AccountLimits("plus", *windows), told.told_at_s)
    assert told.told_at_s == pytest.approx(time.time(), abs=10)
    assert ask(served) == (200, "told")

    backend.log_out(visitor)
    assert json.loads(issuer.asked[-1].body)["token"] == "refresh-1"
    assert backend.account(visitor) == AccountReport(OUT)
    assert ask(served) == (502, "upstream_unauthorized")
    assert backend.codex_version() == "0.163.0"
    assert {
        each.path for each in issuer.asked if not any(part in each.path for part in ABOUT_ACCOUNT)
    } == set()


def test_another_login_replaces_the_first(served: flask.Flask, backend: Backend, issuer: Issuer) -> None:
    issuer.approve()
    for _ in range(2):
        steps = backend.log_in(Visitor())
        read_code(steps)
        assert read_end(steps) == LoginDone()
        assert (backend.account(Visitor()).account, ask(served)) == (IN, (200, "told"))
    assert issuer.count("/oauth/token") == 2


def test_a_login_that_fails_late(backend: Backend, issuer: Issuer) -> None:
    """Codex has the tokens by then, keeps them, and cannot say whose they are: a logout helps."""
    issuer.workspace_status = 500
    steps = backend.log_in(Visitor())
    read_code(steps)
    issuer.approve()
    assert read_end(steps) == LoginFailed("workspace routing discovery failed")
    assert backend.account(Visitor()).account == Account(AccountState.UNKNOWN)
    backend.log_out(Visitor())
    assert backend.account(Visitor()).account == OUT


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(400, "device auth failed with status 400 Bad Request", id="refused"),
        pytest.param(410, "device auth failed with status 410 Gone", id="expired"),
    ],
)
def test_a_code_that_is_not_entered(backend: Backend, issuer: Issuer, status: int, message: str) -> None:
    steps = backend.log_in(Visitor())
    read_code(steps)
    issuer.refuse(status)
    assert read_end(steps) == LoginFailed(message)
    assert backend.account(Visitor()).account == OUT


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(
            403,
            "failed to request device code: device code request failed with status 403 Forbidden",
            id="forbidden",
        ),
        pytest.param(
            404,
            "device code login is not enabled for this Codex server."
            " Use the browser login or verify the server URL.",
            id="switched-off",
        ),
    ],
)
def test_no_code_is_given(backend: Backend, issuer: Issuer, status: int, message: str) -> None:
    issuer.code_status = status
    end = read_end(backend.log_in(Visitor()))
    assert end == LoginFailed(f"Codex refused account/login/start: {message}")


def test_a_login_that_is_closed_is_cancelled(backend: Backend, issuer: Issuer) -> None:
    steps = backend.log_in(Visitor())
    read_code(steps)
    wait_until(lambda: issuer.count("/deviceauth/token"))
    steps.close()
    wait_until(lambda: backend.census().owned == 0)
    asked = issuer.count("/deviceauth/token")
    issuer.approve()
    # It would have looked again within a second.
    with pytest.raises(AssertionError, match="nothing in"):
        wait_until(lambda: issuer.count("/deviceauth/token") > asked, 1.5)
    assert backend.account(Visitor()).account == OUT


def test_an_issuer_that_is_silent_holds_up_nobody(backend: Backend, issuer: Issuer) -> None:
    issuer.answers.clear()
    steps = backend.log_in(Visitor())
    assert next(steps) is None
    wait_until(lambda: next(steps) is None and issuer.count("/deviceauth/usercode"))
    assert backend.account(Visitor()).account == OUT
    steps.close()
    wait_until(lambda: backend.census().owned == 0)


def test_a_provider_that_needs_no_login(
    environ: dict[str, str], tmp_path: pathlib.Path, issuer: Issuer, model: ScriptedModel
) -> None:
    write_provider(tmp_path, issuer, model.base_url, needs_login=False)
    app = create_app(Settings.from_env(environ))
    app.extensions["lifecycle"].start()
    told = wait_until(lambda: app.extensions["backend"].account(Visitor()))
    app.extensions["lifecycle"].close()
    assert told == AccountReport(Account(AccountState.UNNEEDED))
