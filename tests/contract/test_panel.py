"""/ui/…: what the first page is told, and whom it takes to change the account."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.handlers.panel import TICKS_OF_SILENCE, VERSION
from app.lib.account import LoginFailed
from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import GatewayBusy
from app.lib.events import LimitsTold
from app.lib.sse import KEEPALIVE
from app.settings import PAGE_TOKEN, Settings
from tests.contract.conftest import BODY
from tests.support.scripted_backend import LOGGED_IN, LOGIN_CODE, ScriptedBackend, end, say

ME, ADMIN, TOKEN = "sk-me-0123456789", "sk-admin-0123456789", "token-of-the-page"
KEYED = Settings(api_keys=(ME,), admin_keys=(ADMIN,), environ={PAGE_TOKEN: TOKEN})
OPEN = Settings(environ={PAGE_TOKEN: TOKEN})
TOKENLESS = Settings()
DEBUG = dataclasses.replace(KEYED, logs_bodies=True, log_level="DEBUG")
CODE = {"type": "code", "verification_url": LOGIN_CODE.verification_url, "user_code": LOGIN_CODE.user_code}
FULL = LimitWindow(12.5, 300, 1_800_000_000.0)
CHANGES = ("/ui/login", "/ui/logout")

keyed_or_open = pytest.mark.parametrize(
    ("gateway_settings", "key"),
    [pytest.param(KEYED, ADMIN, id="an-admin-s-key"), pytest.param(OPEN, TOKEN, id="open-the-token")],
)


@pytest.fixture
def gateway_settings() -> Settings:
    return KEYED


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def get(client: FlaskClient, path: str, key: str = ADMIN) -> TestResponse:
    return client.get(path, headers=bearer(key), buffered=True)


def change(client: FlaskClient, path: str, key: str, **headers: str) -> TestResponse:
    return client.post(path, headers=bearer(key) | headers, json={}, buffered=True)


def read_steps(response: TestResponse) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    frames = [frame for frame in response.data.split(b"\n\n") if frame.startswith(b"data: ")]
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def find_refusal(response: TestResponse) -> tuple[int, str]:
    return response.status_code, response.get_json()["error"]["code"]


def test_what_an_admin_is_told(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.told_account = LOGGED_IN
    response = get(client, "/ui/status")
    assert response.headers["cache-control"] == "no-store"
    assert response.get_json() == {
        "version": VERSION,
        "is_open": False,
        "role": "admin",
        "may_log_in": True,
        "codex": {"version": "0.163.0", "is_ready": True},
        "account": {"state": "in", "kind": "chatgpt", "plan": "plus", "email": "someone@example.org"},
        "limits": None,
        "demo": False,
        "default_output_mode": "obsidian-xml",
        "logs_bodies": False,
    }


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_what_a_client_is_not_told(client: FlaskClient, backend: ScriptedBackend) -> None:
    """Whose account it is, nor of what it may not do."""
    backend.told_account = LOGGED_IN
    told = {key: get(client, "/ui/status", key).get_json() for key in (ME, ADMIN)}
    assert {name for name in told[ME] if told[ME][name] != told[ADMIN][name]} == {
        *("role", "may_log_in", "account", "logs_bodies")
    }
    assert (told[ME]["may_log_in"], told[ME]["logs_bodies"]) == (False, False)
    assert told[ME]["account"] == {"state": "in", "kind": "chatgpt", "plan": "plus", "email": None}


@pytest.mark.parametrize("gateway_settings", [OPEN])
def test_an_open_gateway_tells_anyone(client: FlaskClient) -> None:
    told = get(client, "/ui/status", "").get_json()
    assert (told["is_open"], told["role"], told["may_log_in"]) == (True, "admin", True)
    assert told["account"]["state"] == "out"


def test_limits_are_those_of_now_or_those_told_last(client: FlaskClient, backend: ScriptedBackend) -> None:
    window = {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1_800_000_000.0}
    backend.script = [[LimitsTold(AccountLimits("plus", FULL))], say("Hi"), end()]
    client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    get(client, "/v1/usage")
    told_last = get(client, "/ui/status").get_json()["limits"]
    backend.told_limits = AccountLimits("pro", None, FULL)
    told_now = get(client, "/ui/status").get_json()["limits"]
    assert [told_last | {"told_at": 0}, told_now | {"told_at": 0}] == [
        {"told_at": 0, "plan": "plus", "primary": window, "secondary": None},
        {"told_at": 0, "plan": "pro", "primary": None, "secondary": window},
    ]


@keyed_or_open
def test_a_login(client: FlaskClient, backend: ScriptedBackend, key: str) -> None:
    response = change(client, "/ui/login", key)
    assert read_steps(response) == [CODE, {"type": "done"}]
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert (response.content_type, backend.logins) == ("text/event-stream; charset=utf-8", 0)
    assert get(client, "/ui/status", key).get_json()["account"]["state"] == "in"


@keyed_or_open
def test_a_logout(client: FlaskClient, backend: ScriptedBackend, key: str) -> None:
    backend.told_account = LOGGED_IN
    account = change(client, "/ui/logout", key).get_json()["account"]
    assert account == {"state": "out", "kind": None, "plan": None, "email": None}


def test_a_login_that_fails_says_so(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.login = (LOGIN_CODE, None, LoginFailed("The code has expired."))
    assert read_steps(change(client, "/ui/login", ADMIN)) == [
        CODE,
        {"type": "failed", "message": "The code has expired."},
    ]


def test_what_fails_before_there_is_a_code_has_a_status(
    client: FlaskClient, backend: ScriptedBackend
) -> None:
    backend.login = (None, GatewayBusy("Every codex process is busy."))
    assert find_refusal(change(client, "/ui/login", ADMIN)) == (429, "gateway_busy")
    assert backend.logins == 0


def test_a_person_takes_a_while(client: FlaskClient, backend: ScriptedBackend) -> None:
    """And no proxy shall take the silence for a dead server."""
    backend.login = (LOGIN_CODE, *[None] * (3 * TICKS_OF_SILENCE))
    assert change(client, "/ui/login", ADMIN).data.count(KEEPALIVE) == 3


def test_who_leaves_cancels_the_login(client: FlaskClient, backend: ScriptedBackend) -> None:
    response = client.post("/ui/login", headers=bearer(ADMIN), json={})
    assert backend.logins == 1
    response.close()
    assert backend.logins == 0


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    ("gateway_settings", "key", "refusal"),
    [
        pytest.param(KEYED, "", (401, "invalid_api_key"), id="no-key"),
        pytest.param(KEYED, "sk-somebody-else", (401, "invalid_api_key"), id="a-wrong-key"),
        pytest.param(KEYED, ME, (403, "admin_key_required"), id="a-client-s-key"),
        pytest.param(KEYED, TOKEN, (401, "invalid_api_key"), id="the-token-is-no-key"),
        pytest.param(OPEN, "", (403, "page_token_required"), id="open-no-token"),
        pytest.param(OPEN, "any", (403, "page_token_required"), id="open-another-s-placeholder"),
        pytest.param(OPEN, TOKEN[:-1], (403, "page_token_required"), id="open-a-part-of-the-token"),
        pytest.param(TOKENLESS, "", (403, "page_token_required"), id="nobody-printed-a-token"),
        pytest.param(TOKENLESS, "any", (403, "page_token_required"), id="nor-is-any-text-one"),
    ],
)
def test_who_may_not_change_the_account(
    client: FlaskClient, backend: ScriptedBackend, path: str, key: str, refusal: tuple[int, str]
) -> None:
    backend.told_account = LOGGED_IN
    assert find_refusal(change(client, path, key)) == refusal
    assert backend.told_account == LOGGED_IN


@keyed_or_open
@pytest.mark.parametrize("path", CHANGES)
def test_nor_may_a_page_of_another_site(
    client: FlaskClient, backend: ScriptedBackend, path: str, key: str
) -> None:
    backend.told_account = LOGGED_IN
    response = change(client, path, key, origin="https://evil.example")
    assert find_refusal(response) == (403, "origin_not_allowed")
    assert backend.told_account == LOGGED_IN


@pytest.mark.parametrize("gateway_settings", [OPEN])
def test_a_cookie_is_no_token(client: FlaskClient) -> None:
    client.set_cookie("authorization", f"Bearer {TOKEN}")
    client.set_cookie("token", TOKEN)
    assert find_refusal(change(client, "/ui/login", "")) == (403, "page_token_required")


@pytest.mark.parametrize("path", CHANGES)
def test_no_link_changes_the_account(client: FlaskClient, path: str) -> None:
    assert get(client, path).status_code == 405


@pytest.mark.parametrize("path", ["/ui/status", "/ui/live", "/ui/requests/req_1"])
def test_what_is_shown_needs_a_key(client: FlaskClient, path: str) -> None:
    assert find_refusal(get(client, path, "")) == (401, "invalid_api_key")


@pytest.mark.parametrize("path", ["/ui/live", "/ui/requests/req_1"])
def test_what_others_do_is_not_a_client_s_business(client: FlaskClient, path: str) -> None:
    assert find_refusal(get(client, path, ME)) == (403, "admin_key_required")


def test_the_live_view(app: flask.Flask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """What it tells is tested by itself (tests/unit/handlers/test_live.py)."""
    backend.script = [say("Hi"), end()]
    answered = client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    get(client, "/v1/usage")  # which has all of it written
    with client.get("/ui/live", headers=bearer(ADMIN)) as response:
        first = next(iter(response.response))
    history, requests, _ = first.split(b"\n\n")
    assert json.loads(history.removeprefix(b"data: ")) == {"type": "history", "period_s": 10, "samples": []}
    [entry] = json.loads(requests.removeprefix(b"data: "))["data"]
    told = {name: entry[name] for name in ("request_id", "status", "model", "key", "input_tokens")}
    assert told == {
        "request_id": answered.headers["x-request-id"],
        "status": 200,
        "model": "gpt-5.5",
        "key": entry["key"],
        "input_tokens": 120,
    }
    assert response.headers["cache-control"] == "no-store, no-transform"


def test_the_page_s_own_requests_are_nobody_s_use(app: flask.Flask, client: FlaskClient) -> None:
    for path in ("/ui/status", "/ui/requests/none", "/ui/live"):
        with client.get(path, headers=bearer(ADMIN)):
            pass
    assert get(client, "/v1/usage").get_json()["total"]["requests"] == 0
    assert "/ui/" not in get(client, "/metrics").text


@pytest.mark.parametrize("gateway_settings", [DEBUG])
@pytest.mark.parametrize("stream", [False, True])
def test_what_went_in_and_out_of_a_request(
    client: FlaskClient, backend: ScriptedBackend, stream: bool
) -> None:
    backend.script = [say("Hello", " there"), end()]
    body = BODY | {"stream": stream, "user": ME}
    answered = client.post("/v1/chat/completions", json=body, headers=bearer(ME), buffered=True)
    found = get(client, f"/ui/requests/{answered.headers['x-request-id']}").get_json()
    pieces = found["pieces"]
    assert (found["is_cut"], [piece["what"] for piece in pieces][:2]) == (
        False,
        ["request", "frames" if stream else "reply"],
    )
    assert json.loads(pieces[0]["body"]) == body | {"user": "[redacted]"}
    assert "".join(piece["body"] for piece in pieces[1:]).encode() == answered.data
    assert [piece["time"] for piece in pieces] == sorted(piece["time"] for piece in pieces)


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_of_a_request_without_a_body_nothing_is_kept(client: FlaskClient) -> None:
    """Else supervisors and the page itself would push out what somebody wants to see."""
    asked = [get(client, path) for path in ("/livez", "/v1/models", "/ui/status", "/v1/nothing")]
    ids = [response.headers["x-request-id"] for response in asked]
    assert {find_refusal(get(client, f"/ui/requests/{each}")) for each in ids} == {(404, "request_not_kept")}


@pytest.mark.parametrize(
    "gateway_settings",
    [
        pytest.param(KEYED, id="neither"),
        pytest.param(dataclasses.replace(KEYED, logs_bodies=True), id="at-info"),
        pytest.param(dataclasses.replace(KEYED, log_level="DEBUG"), id="at-debug-without-bodies"),
    ],
)
def test_nothing_is_kept_that_nobody_asked_for(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    answered = client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    response = get(client, f"/ui/requests/{answered.headers['x-request-id']}")
    assert find_refusal(response) == (404, "request_not_kept")


def test_no_answer_may_be_cached(client: FlaskClient, backend: ScriptedBackend) -> None:
    """Of the model API neither: a page's `fetch` would have the browser keep them."""
    backend.script = [say("Hi"), end()]
    answered = [
        client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True),
        client.post(
            "/v1/responses", json={"model": "gpt-5.5", "input": "Hi"}, headers=bearer(ME), buffered=True
        ),
        get(client, "/v1/models"),
        get(client, "/v1/usage/raw"),
        get(client, "/v1/nothing"),
    ]
    assert {response.headers["cache-control"] for response in answered} == {"no-store"}


def test_neither_code_nor_token_is_logged(
    app: flask.Flask, client: FlaskClient, logged: list[logging.LogRecord]
) -> None:
    change(client, "/ui/login", ADMIN)
    change(client, "/ui/login", TOKEN)
    text = "".join(str(record.__dict__) for record in logged)
    assert "/ui/login" in text
    assert not [secret for secret in (LOGIN_CODE.user_code, TOKEN, ADMIN) if secret in text]
