"""Keys: which routes need one, where they come from, and that a file of them counts as it stands."""

from __future__ import annotations

import json
import logging
import pathlib
import re
from collections.abc import Callable
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from app import create_app
from app.handlers import logs
from app.handlers.access import LONGEST_PATH
from app.handlers.customs import CUSTOMS
from app.lib.account import LoginDone
from app.lib.keys import AccessKey, KeyLimits, Role, build_entry, digest_key
from app.lib.redaction import REDACTED
from app.settings import Settings
from tests.contract.conftest import BODY
from tests.support.replaced_files import put_in_place, turn_into_folder
from tests.support.scripted_backend import LOGIN_CODE, ScriptedBackend, end, say

Statuses = Callable[..., list[int]]


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend([say("Hi"), end()])


def build_file(*keys: str, **roles: str) -> str:
    """A keys file; a key is called by its own letters, and has its hash in the file."""
    return "\n".join(
        build_entry(AccessKey(key, digest_key(f"{key}-key".encode()), Role(roles.get(key, "client"))))
        for key in keys
    )


@pytest.fixture
def keys_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "keys.toml"
    path.write_text(build_file("alice", "ops", ops="admin"))
    return path


@pytest.fixture
def gateway_settings(keys_file: pathlib.Path) -> Settings:
    return Settings(api_keys=("env-key",), admin_keys=("admin-key",), api_keys_file=keys_file)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def statuses(client: FlaskClient) -> Statuses:
    """What each of these keys is answered."""

    def ask(*keys: str) -> list[int]:
        return [
            client.get("/v1/models", headers=bearer(f"{key}-key"), buffered=True).status_code for key in keys
        ]

    return ask


def read_complaints(logged: list[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in logged if record.levelno >= logging.WARNING]


def test_every_route_needs_a_key_but_health(app: flask.Flask, client: FlaskClient) -> None:
    """Of all that is served, now and later; metrics look for themselves (test_guard.py)."""
    asked = {
        (rule.endpoint, method): client.open(
            rule.rule.replace("<path:name>", "app.js").replace("<", "").replace(">", ""),
            method=method,
            environ_base={"REMOTE_ADDR": "10.0.0.7"},
            buffered=True,
        ).status_code
        for rule in app.url_map.iter_rules()
        for method in sorted(rule.methods or ())
    }
    blueprints = {name for name, customs in CUSTOMS.items() if not customs.asks_key} - {"metrics"}
    keyless = {endpoint for endpoint, _ in asked if endpoint.partition(".")[0] in blueprints}
    assert len(asked) > 20
    assert keyless == {
        "health.live",
        "health.ready",
        "health.health",
        "pages.show",
        "pages.show_part",
        "pages.show_door",
    }
    assert {endpoint: status for endpoint, status in asked.items() if status != 401} == {
        (endpoint, method): 204 if method == "OPTIONS" else 200
        for endpoint, method in asked
        if endpoint in keyless or method == "OPTIONS"
    }


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/ui",
        "/ui/",
        "/ui/nothing",
        "/v1",
        "/v1/nothing",
        "//v1/models",
        "/v1/models/",
        "/healthz/x",
        "/.env",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_is_not_served_needs_one_too(client: FlaskClient, method: str, path: str) -> None:
    """Which routes there are is nobody's business."""
    response = client.open(path, method=method, json={}, buffered=True)
    assert (response.status_code, response.get_json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param("env-key", "env:ea2ca0", id="of-the-environment"),
        pytest.param("admin-key", "admin:69a526", id="an-admin-of-the-environment"),
        pytest.param("alice-key", "alice", id="of-the-file"),
        pytest.param("ops-key", "ops", id="an-admin-of-the-file"),
    ],
)
def test_a_key_is_known_by_its_name(
    client: FlaskClient, backend: ScriptedBackend, logged: list[logging.LogRecord], key: str, name: str
) -> None:
    client.post("/v1/chat/completions", json=BODY, headers=bearer(key), buffered=True)
    lines = [logs.JsonFormatter().format(record) for record in logged]
    assert [json.loads(line)["key"] for line in lines if '"access"' in line] == [name]
    assert [line for line in lines if key in line] == []
    assert backend.owners == [digest_key(key.encode())]


@pytest.mark.parametrize(
    ("key", "status"),
    [
        pytest.param("admin-key", 200, id="an-admin-of-the-environment"),
        pytest.param("ops-key", 200, id="an-admin-of-the-file"),
        pytest.param("env-key", 403, id="a-client-of-the-environment"),
        pytest.param("alice-key", 403, id="a-client-of-the-file"),
        pytest.param("bob-key", 401, id="a-stranger"),
    ],
)
def test_roles(client: FlaskClient, key: str, status: int) -> None:
    asked = bearer(key) | {"x-forwarded-for": "10.0.0.7"}
    assert client.get("/metrics", headers=asked, buffered=True).status_code == status


def hash_nothing(path: pathlib.Path) -> None:
    """What a script makes of a variable that is not set."""
    path.write_text(build_entry(AccessKey("nobody", digest_key(b""), Role.ADMIN)))


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer  ", "bearer \t"])
def test_nothing_is_no_key(client: FlaskClient, keys_file: pathlib.Path, header: str) -> None:
    hash_nothing(keys_file)
    response = client.get("/v1/models", headers={"authorization": header}, buffered=True)
    assert response.status_code == 401


BOTH, NEITHER = [200, 401], [401, 401]
KEPT = "the keys file cannot be read, and the keys stay as they were: "


@pytest.mark.parametrize(
    ("change", "alice_and_bob", "complaint"),
    [
        pytest.param(lambda path: path.write_text(build_file("alice", "bob")), [200, 200], None, id="added"),
        pytest.param(lambda path: path.write_text(build_file("bob")), [401, 200], None, id="replaced"),
        pytest.param(lambda path: path.write_text(""), NEITHER, None, id="emptied"),
        pytest.param(pathlib.Path.unlink, NEITHER, None, id="removed"),
        pytest.param(lambda path: path.write_text("[bob"), BOTH, f"{KEPT}Expected", id="no-toml"),
        pytest.param(lambda path: path.write_bytes(b"\xff"), BOTH, f"{KEPT}'utf-8' codec", id="no-text"),
        pytest.param(
            lambda path: path.write_text("[bob]\nhash = 'bob-key'"),
            BOTH,
            f"{KEPT}[bob]: hash must be `sha256:` and 64 hex digits",
            id="a-key-instead-of-its-hash",
        ),
        pytest.param(turn_into_folder, BOTH, f"{KEPT}[Errno 21] Is a directory", id="not-to-be-read"),
    ],
)
def test_the_file_counts_as_it_stands(
    statuses: Statuses,
    keys_file: pathlib.Path,
    logged: list[logging.LogRecord],
    change: Callable[[pathlib.Path], object],
    alice_and_bob: list[int],
    complaint: str | None,
) -> None:
    """From the next request on. One that cannot be meant changes nothing, and is complained about once."""
    assert statuses("alice", "bob") == BOTH
    change(keys_file)
    assert [statuses("alice", "bob") for _ in range(3)] == [alice_and_bob] * 3
    told = read_complaints(logged)
    assert len(told) == (complaint is not None)
    assert [text for text in told if not text.startswith(complaint or "")] == []
    assert "bob-key" not in "".join(told)


def test_whatever_becomes_of_the_file_other_keys_stay(statuses: Statuses, keys_file: pathlib.Path) -> None:
    keys_file.unlink()
    assert statuses("alice", "env", "admin") == [401, 200, 200]


def test_a_file_that_comes_back(statuses: Statuses, keys_file: pathlib.Path) -> None:
    text, told = keys_file.read_text(), []
    for content in (None, text, "[", text + build_file("bob")):
        keys_file.write_text(content) if content else keys_file.unlink()
        told.append(statuses("alice", "bob"))
    assert told == [NEITHER, BOTH, BOTH, [200, 200]]


def test_a_role_that_is_taken_away(client: FlaskClient, keys_file: pathlib.Path) -> None:
    told = []
    for role in ("admin", "client", "admin"):
        keys_file.write_text(build_file("alice", alice=role))
        asked = bearer("alice-key") | {"via": "1"}
        told.append(client.get("/metrics", headers=asked, buffered=True).status_code)
    assert told == [200, 403, 200]


@pytest.mark.parametrize("content", [pytest.param("", id="empty"), pytest.param(None, id="missing")])
def test_a_gateway_without_any_key_in_its_file_is_not_open(
    tmp_path: pathlib.Path, content: str | None
) -> None:
    """Not even for programs of this machine, and not while the file is on its way."""
    path = tmp_path / "none.toml"
    if content is not None:
        path.write_text(content)
    settings = Settings(api_keys_file=path, state_dir=tmp_path / "state")
    gateway = create_app(settings, ScriptedBackend())
    asked: list[dict[str, str]] = [{}, bearer("any-key"), bearer("")]
    with gateway.test_client() as client:
        told = [client.get("/v1/models", headers=headers, buffered=True).status_code for headers in asked]
    gateway.extensions["lifecycle"].close()
    assert told == [401] * 3


def test_a_key_has_limits_of_its_own(client: FlaskClient, keys_file: pathlib.Path) -> None:
    """And another's while it is used: the new ones count from then on."""
    key = AccessKey("alice", digest_key(b"alice-key"), Role.CLIENT)
    told = []
    for most in (1, 2, 0):
        limited = AccessKey(key.name, key.digest, key.role, KeyLimits(requests_per_minute=most))
        put_in_place(keys_file, build_entry(limited))
        told += [
            client.post("/v1/chat/completions", json=BODY, headers=bearer("alice-key")).status_code
            for _ in range(3)
        ]
    assert told == [200, 429, 429, 200, 200, 429, 200, 200, 200]


def ask(client: FlaskClient, key: str, **more: Any) -> Any:
    body = {"model": "gpt-5.5", "input": "Hi"} | more
    return client.post("/v1/responses", json=body, headers=bearer(key), buffered=True).get_json()


@pytest.mark.parametrize("other", ["env-key", "admin-key", "ops-key", "bob-key"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "", id="read"),
        pytest.param("GET", "/input_items", id="read-its-input"),
        pytest.param("GET", "?stream=true", id="follow"),
        pytest.param("POST", "/cancel", id="cancel"),
        pytest.param("DELETE", "", id="delete"),
    ],
)
def test_a_response_is_its_own_key_s(
    client: FlaskClient, keys_file: pathlib.Path, other: str, method: str, path: str
) -> None:
    """For anyone else, an admin too, it is not there: refused like one that never was."""
    keys_file.write_text(build_file("alice", "bob", "ops", ops="admin"))
    mine = ask(client, "alice-key")["id"]
    theirs, none = (
        client.open(f"/v1/responses/{each}{path}", method=method, headers=bearer(other), buffered=True)
        for each in (mine, "resp_none")
    )
    assert (theirs.status_code, theirs.text.replace(mine, "resp_none")) == (404, none.text)
    assert client.get(f"/v1/responses/{mine}", headers=bearer("alice-key"), buffered=True).status_code == 200


def test_no_key_goes_on_from_another_s(client: FlaskClient) -> None:
    mine = ask(client, "alice-key")
    told = [
        ask(client, key, previous_response_id=mine["id"]).get("error") for key in ("ops-key", "alice-key")
    ]
    assert [error and error["code"] for error in told] == ["previous_response_not_found", None]


def test_what_is_stored_belongs_to_the_key_and_not_to_its_name(
    client: FlaskClient, keys_file: pathlib.Path
) -> None:
    """A new key of an old name finds nothing; the key itself finds it by whatever name."""
    mine = ask(client, "alice-key")["id"]
    told = []
    for digest_of, name in (("alice-key-2", "alice"), ("alice-key", "renamed")):
        keys_file.write_text(build_entry(AccessKey(name, digest_key(digest_of.encode()), Role.CLIENT)))
        url = f"/v1/responses/{mine}"
        told.append(client.get(url, headers=bearer(digest_of), buffered=True).status_code)
    assert told == [404, 200]


ODD = 'sk-cgw-0123456789abcdef"\\'


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(api_keys=(ODD, "hunter2hunter2")), id="two")]
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("GET", "/v1/{key}", None, id="a-path"),
        pytest.param("GET", "/v1/responses/{key}", None, id="a-response-s-id"),
        pytest.param("GET", "/v1/responses/resp_{key}", None, id="within-one"),
        pytest.param("POST", "/v1/responses/{key}", {}, id="an-action"),
        pytest.param("PUT", "/v1/models/{key}", None, id="no-such-method"),
        pytest.param("GET", "/v1/usage?start={key}", None, id="a-time"),
        pytest.param("POST", "/v1/responses", {"previous_response_id": "{key}"}, id="a-previous-response"),
        pytest.param(
            "POST",
            "/v1/responses",
            {"input": [{"type": "item_reference", "id": "{key}"}]},
            id="an-item-s-id",
        ),
        pytest.param("POST", "/v1/responses", {"tool_choice": "{key}"}, id="a-choice"),
    ],
)
@pytest.mark.parametrize("key", [ODD, "hunter2hunter2"])
def test_no_error_repeats_a_key(
    client: FlaskClient, method: str, path: str, body: dict[str, Any] | None, key: str
) -> None:
    """Wherever a client put it; what is known of it is its hash, or how it looks."""
    filled = body and {"model": "gpt-5.5", "input": "Hi"} | json.loads(
        json.dumps(body).replace("{key}", json.dumps(key)[1:-1])
    )
    response = client.open(
        path.replace("{key}", key), method=method, json=filled, headers=bearer(key), buffered=True
    )
    assert response.status_code >= 400
    assert response.get_json()["error"].keys() == {"message", "type", "param", "code"}
    assert [each for each in (key, "0123456789abcdef") if each in json.dumps(response.get_json())] == []


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(api_keys=("hunter2hunter2",)), id="one")])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("sk-cgw-0123456789abcdef", id="a-key"),
        pytest.param("req_sk-cgw-0123456789abcdef", id="a-key-in-it"),
        pytest.param("sk-proj-0123456789abcdef", id="a-key-of-another"),
        pytest.param("hunter2hunter2", id="one-of-the-operator-s-own"),
        pytest.param("req_hunter2hunter2.1", id="that-in-it"),
    ],
)
def test_a_key_is_no_request_id(client: FlaskClient, asked: str) -> None:
    """It would stand in the reply, and in the log of a proxy, which knows no keys."""
    response = client.get("/livez", headers={"x-request-id": asked}, buffered=True)
    assert re.fullmatch("req_[0-9a-f]{24}", response.headers["x-request-id"])


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(api_keys=("hunter2hunter2",)), id="one")])
@pytest.mark.parametrize("key", ["hunter2hunter2", "sk-cgw-0123456789abcdef"])
def test_no_part_of_a_key_is_kept_of_a_path(
    client: FlaskClient, logged: list[logging.LogRecord], key: str
) -> None:
    """Half of one would not be known for what it is, and leave the rest to be guessed."""
    before = [f"/v1/{'x' * length}/" for length in range(LONGEST_PATH - 30, LONGEST_PATH)]
    for each in before:
        client.get(each + key, buffered=True)
    kept = [record.fields["path"] for record in logged]
    assert kept == [f"{each}{REDACTED}"[:LONGEST_PATH] for each in before]


@pytest.mark.parametrize(("method", "path"), [("GET", "/ui/live"), ("POST", "/ui/login")])
def test_a_key_that_is_taken_away_is_a_client_that_left(
    client: FlaskClient, backend: ScriptedBackend, keys_file: pathlib.Path, method: str, path: str
) -> None:
    """From what goes on for as long as somebody is there; an answer that began may end (test_door.py)."""
    backend.login = (LOGIN_CODE, *[None] * 5, LoginDone())
    with client.open(path, method=method, headers=bearer("ops-key"), json={}) as response:
        told = iter(response.response)
        assert next(told)
        keys_file.write_text(build_file("alice"))
        assert next(told, None) is None
    assert backend.logins == 0
