"""/ui/…: what the first page is told, and whom it takes to change the account."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import re
import time
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.handlers.logs import LONGEST_BODY
from app.handlers.panel import VERSION
from app.lib.account import Account, AccountState, LoginFailed
from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import GatewayBusy
from app.lib.events import LimitsTold
from app.lib.models import EFFORTS
from app.lib.sse import KEEPALIVE
from app.settings import PAGE_TOKEN, Settings
from tests.contract.conftest import BODY
from tests.support.scripted_backend import (
    LOGGED_IN,
    LOGGED_OUT,
    LOGIN_CODE,
    TOLD_AT_S,
    ScriptedBackend,
    end,
    say,
)

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
        "efforts": [*EFFORTS],
        "output_modes": ["obsidian-xml", "openai-json"],
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


@pytest.fixture
def stored(client: FlaskClient, backend: ScriptedBackend) -> dict[str, Any]:
    """The limits that an answer told, as the page is shown them."""
    backend.script = [[LimitsTold(AccountLimits("plus", FULL))], say("Hi"), end()]
    client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    limits = get(client, "/v1/usage").get_json()["account_limits"]
    return {name: limits[name] for name in ("plan", "primary", "secondary")}


def test_limits_are_those_of_now_or_those_told_last(
    client: FlaskClient, backend: ScriptedBackend, stored: dict[str, Any]
) -> None:
    backend.told_account = LOGGED_IN
    told_last = get(client, "/ui/status").get_json()["limits"]
    assert told_last.pop("told_at") == pytest.approx(time.time(), abs=60)
    window = {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1_800_000_000.0}
    assert told_last == stored == {"plan": "plus", "primary": window, "secondary": None}
    backend.told_limits = AccountLimits("pro", None, FULL)
    told_now = {"told_at": int(TOLD_AT_S), "plan": "pro", "primary": None, "secondary": window}
    assert get(client, "/ui/status").get_json()["limits"] == told_now


@pytest.mark.parametrize(
    "account",
    [
        pytest.param(LOGGED_OUT, id="logged-out"),
        pytest.param(Account(AccountState.IN, "api_key"), id="a-key-has-none"),
        pytest.param(Account(AccountState.UNNEEDED), id="unneeded"),
        pytest.param(Account(AccountState.UNKNOWN), id="not-known"),
    ],
)
@pytest.mark.usefixtures("stored")
def test_limits_of_another_login_are_not_shown(
    client: FlaskClient, backend: ScriptedBackend, account: Account
) -> None:
    backend.told_account = account
    assert get(client, "/ui/status").get_json()["limits"] is None


@pytest.mark.usefixtures("stored")
def test_after_a_logout_no_limits_are_shown(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.told_account, backend.told_limits = LOGGED_IN, AccountLimits("pro", None, FULL)
    assert get(client, "/ui/status").get_json()["limits"]["plan"] == "pro"
    change(client, "/ui/logout", ADMIN)
    assert get(client, "/ui/status").get_json()["limits"] is None


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


@pytest.mark.parametrize("gateway_settings", [dataclasses.replace(KEYED, keepalive_s=0)])
def test_a_person_takes_a_while(client: FlaskClient, backend: ScriptedBackend) -> None:
    """And no proxy shall take the silence for a dead server."""
    backend.login = (LOGIN_CODE, None, None, None)
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


@pytest.mark.parametrize("path", ["/ui/status", "/ui/live", "/ui/exchanges/none"])
def test_what_is_shown_needs_a_key(client: FlaskClient, path: str) -> None:
    assert find_refusal(get(client, path, "")) == (401, "invalid_api_key")


@pytest.mark.parametrize("path", ["/ui/live", "/ui/exchanges/none"])
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
    for path in ("/ui/status", "/ui/exchanges/none", "/ui/live"):
        with client.get(path, headers=bearer(ADMIN)):
            pass
    assert get(client, "/v1/usage").get_json()["total"]["requests"] == 0
    assert "/ui/" not in get(client, "/metrics").text


def find_exchange(client: FlaskClient, request_id: str) -> str | None:
    """By what name a request's exchange can be asked for, as the list of the last ones tells it."""
    entries = get(client, "/v1/usage/raw").get_json()["data"]
    [entry] = [entry for entry in entries if entry["request_id"] == request_id]
    found: str | None = entry.get("exchange")
    return found


@pytest.mark.parametrize("gateway_settings", [DEBUG])
@pytest.mark.parametrize("stream", [False, True])
def test_what_went_in_and_out_of_a_request(
    client: FlaskClient, backend: ScriptedBackend, stream: bool
) -> None:
    backend.script = [say("Hello", " there"), end()]
    body = BODY | {"stream": stream, "user": ME}
    answered = client.post("/v1/chat/completions", json=body, headers=bearer(ME), buffered=True)
    exchange = find_exchange(client, answered.headers["x-request-id"])
    found = get(client, f"/ui/exchanges/{exchange}").get_json()
    pieces = found["pieces"]
    assert (found["id"], found["is_cut"], [piece["what"] for piece in pieces][:2]) == (
        exchange,
        False,
        ["request", "frames" if stream else "reply"],
    )
    assert json.loads(pieces[0]["body"]) == body | {"user": "[redacted]"}
    assert "".join(piece["body"] for piece in pieces[1:]).encode() == answered.data
    assert [piece["time"] for piece in pieces] == sorted(piece["time"] for piece in pieces)


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_a_secret_is_taken_out_before_a_body_is_cut(client: FlaskClient, backend: ScriptedBackend) -> None:
    """Half of a key would not be known for what it is."""
    backend.script = [say("Hi"), end()]
    text = "x" * (LONGEST_BODY - 80) + ADMIN * 20
    body = BODY | {"messages": [{"role": "user", "content": text}]}
    answered = client.post("/v1/chat/completions", json=body, headers=bearer(ME), buffered=True)
    exchange = find_exchange(client, answered.headers["x-request-id"])
    shown = get(client, f"/ui/exchanges/{exchange}").get_json()["pieces"][0]["body"]
    assert (len(shown), ADMIN[:5] in shown, shown.count("[redacted]") > 0) == (LONGEST_BODY, False, True)


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_a_secret_is_taken_out_however_it_is_written(client: FlaskClient, backend: ScriptedBackend) -> None:
    """JSON may say any letter by its number."""
    backend.script = [say("Hi"), end()]
    written = json.dumps(BODY | {"user": ADMIN}).replace("admin-", "a\\u0064min\\u002d")
    known = bearer(ME) | {"content-type": "application/json"}
    answered = client.post("/v1/chat/completions", data=written, headers=known, buffered=True)
    exchange = find_exchange(client, answered.headers["x-request-id"])
    shown = get(client, f"/ui/exchanges/{exchange}").get_json()["pieces"][0]["body"]
    assert json.loads(shown) == BODY | {"user": "[redacted]"}


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_nobody_writes_into_another_s_exchange(client: FlaskClient, backend: ScriptedBackend) -> None:
    """By its request id: a client's, a stranger's, or that of a request without a body."""
    backend.script = [say("Hi"), end()]
    named = bearer(ME) | {"x-request-id": "mine"}
    for _ in range(2):
        client.post("/v1/chat/completions", json=BODY, headers=named, buffered=True)
    for path in ("/v1/nothing", "/v1/models", "/ui/static/none.js"):
        client.get(path, headers={"x-request-id": "mine"}, buffered=True)
    entries = get(client, "/v1/usage/raw").get_json()["data"]
    names = [entry["exchange"] for entry in entries if "exchange" in entry]
    lengths = [len(get(client, f"/ui/exchanges/{name}").get_json()["pieces"]) for name in names]
    assert (len(set(names)), lengths) == (2, [2, 2])


@pytest.mark.parametrize("gateway_settings", [DEBUG])
def test_of_a_request_without_a_body_nothing_is_kept(client: FlaskClient) -> None:
    """Else supervisors and the page itself would push out what somebody wants to see."""
    for path in ("/livez", "/v1/models", "/ui/status", "/v1/nothing"):
        get(client, path)
    assert not [entry for entry in get(client, "/v1/usage/raw").get_json()["data"] if "exchange" in entry]


@pytest.mark.parametrize(
    "gateway_settings",
    [
        pytest.param(KEYED, id="neither"),
        pytest.param(dataclasses.replace(KEYED, logs_bodies=True), id="at-info"),
        pytest.param(dataclasses.replace(KEYED, log_level="DEBUG"), id="at-debug-without-bodies"),
        pytest.param(dataclasses.replace(DEBUG, serves_page=False), id="no-page-to-show-it"),
    ],
)
def test_nothing_is_kept_that_nobody_asked_for(
    client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    backend.script = [say("Hi"), end()]
    client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    assert not (tmp_path / "exchanges").exists()


@pytest.mark.parametrize("path", ["/ui/status", "/ui/live", "/ui/exchanges/none", "/ui/none"])
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, id="reads-the-api"),
        pytest.param({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, id="reads-nothing"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="embeds-it"),
        pytest.param({"origin": "capacitor://localhost"}, id="an-app-by-our-name"),
    ],
)
def test_nothing_of_it_is_shared(client: FlaskClient, path: str, headers: dict[str, str]) -> None:
    """With pages of other origins: nor do they hold a place, or have codex asked."""
    response = client.get(path, headers=bearer(ADMIN) | headers, buffered=True)
    assert find_refusal(response) == (403, "origin_not_allowed")
    assert not [name for name, _ in response.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_may_ask(client: FlaskClient, site: str) -> None:
    own = {"origin": "http://localhost", "sec-fetch-site": site}
    assert client.get("/ui/status", headers=bearer(ADMIN) | own, buffered=True).status_code == 200


def test_who_tries_keys_is_counted(client: FlaskClient) -> None:
    for _ in range(3):
        get(client, "/ui/status", "sk-a-guess-0123")
    assert get(client, "/v1/usage").get_json()["total"]["errors"] == 3
    assert 'route="/ui/status",status="401"} 3.0' in get(client, "/metrics").text


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


def test_no_stream_may_be_cached(client: FlaskClient, backend: ScriptedBackend) -> None:
    """One that is asked for by GET a browser keeps on its disk, unless told not to."""
    backend.script = [say("Hi"), end()]
    asked = {"model": "gpt-5.5", "input": "Hi", "background": True, "stream": True}
    begun = client.post("/v1/responses", json=asked, headers=bearer(ME), buffered=True)
    found = re.search(r'"id":"(resp_\w+)"', begun.text)
    assert found
    again = get(client, f"/v1/responses/{found[1]}?stream=true", ME)
    assert again.text.endswith("data: [DONE]\n\n")
    assert again.headers["cache-control"] == "no-store, no-transform"


def test_neither_code_nor_token_is_logged(
    app: flask.Flask, client: FlaskClient, logged: list[logging.LogRecord]
) -> None:
    change(client, "/ui/login", ADMIN)
    change(client, "/ui/login", TOKEN)
    text = "".join(str(record.__dict__) for record in logged)
    assert "/ui/login" in text
    assert not [secret for secret in (LOGIN_CODE.user_code, TOKEN, ADMIN) if secret in text]
