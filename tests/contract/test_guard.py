"""Which pages may have something done here, and by which names the gateway may be called."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.settings import Settings
from tests.contract.conftest import BODY
from tests.support.scripted_backend import ScriptedBackend, end, say

OBSIDIAN = "app://obsidian.md"
OPEN = Settings()
KEYED = Settings(api_keys=("client-key",), admin_keys=("admin-key",))
NAMED = Settings(allowed_hosts=("gw.example", "::1"))
KEYED_AND_NAMED = Settings(api_keys=("client-key",), allowed_hosts=("GW.example",))

Outcome = tuple[int, str | None, int]


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend([say("Hi"), end()])


@pytest.fixture
def send(client: FlaskClient, backend: ScriptedBackend) -> Any:
    """A chat request by a name and from a page: its status, its error's code, and how many turns it began."""

    def post(**headers: str) -> Outcome:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        known = {"authorization": "Bearer client-key"} | named
        response = client.post("/v1/chat/completions", json=BODY, headers=known, buffered=True)
        code = response.get_json().get("error", {}).get("code")
        return response.status_code, code, len(backend.turns)

    return post


SERVED: Outcome = (200, None, 1)
WRONG_NAME: Outcome = (403, "host_not_allowed", 0)
WRONG_PAGE: Outcome = (403, "origin_not_allowed", 0)


def with_settings(settings: Settings, hosts: dict[str, str]) -> list[Any]:
    return [pytest.param(settings, host, id=about) for about, host in hosts.items()]


LOOPBACK = {
    "localhost": "localhost",
    "with-a-port": "localhost:11435",
    "in-capitals": "LocalHost",
    "with-a-root": "localhost.:11435",
    "a-name-under-it": "gateway.localhost",
    "ipv4": "127.0.0.1:11435",
    "another-ipv4": "127.1.2.3",
    "ipv6": "[::1]",
    "ipv6-with-a-port": "[::1]:11435",
}
FOREIGN = {
    "a-rebound-name": "rebound.example:11435",
    "a-longer-name": "localhost.evil.example",
    "a-longer-address": "127.0.0.1.evil.example",
    "empty": "",
    "a-space": "localhost evil.example",
    "a-user": "localhost@evil.example",
    "a-path": "localhost/evil.example",
    "no-port": "localhost:evil",
    "half-an-address": "[::1",
    "an-address-and-more": "[::1].evil.example",
    "a-bare-address": "::1",
    "any-address": "0.0.0.0",
    "any-address-in-ipv6": "[::]",
    "another-machine": "192.168.1.2",
    "not-ascii": "löcalhost",
}


@pytest.mark.parametrize(
    ("gateway_settings", "host"),
    [
        *with_settings(OPEN, LOOPBACK),
        *(pytest.param(KEYED, host, id=f"keyed-{about}") for about, host in (LOOPBACK | FOREIGN).items()),
        *with_settings(
            NAMED, {"its-name": "gw.example", "its-address": "[::1]:9", "its-name:": "GW.example:9"}
        ),
        *with_settings(KEYED_AND_NAMED, {"keyed-its-name": "gw.example"}),
    ],
)
def test_names_it_goes_by(send: Any, host: str) -> None:
    """With a key any name does: whoever was tricked into another one brings none."""
    assert send(host=host) == SERVED


@pytest.mark.parametrize(
    ("gateway_settings", "host"),
    [
        *with_settings(OPEN, FOREIGN),
        *(pytest.param(NAMED, host, id=f"named-{about}") for about, host in FOREIGN.items()),
        *with_settings(
            NAMED, {"named-loopback-is-no-exception": "127.0.0.1", "a-name-under": "a.gw.example"}
        ),
        *with_settings(KEYED_AND_NAMED, {"keyed-another-name": "localhost", "keyed-no-name": ""}),
    ],
)
def test_names_it_does_not_go_by(send: Any, host: str) -> None:
    """A name that a page has its own server's browsers resolve to this machine (DNS rebinding)."""
    assert send(host=host) == WRONG_NAME


@pytest.mark.parametrize("gateway_settings", [pytest.param(OPEN, id="open"), pytest.param(NAMED, id="named")])
@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_health_is_asked_by_any_name(client: FlaskClient, path: str, method: str) -> None:
    """A POST finds no route there; only then is it looked at, and refused."""
    response = client.open(path, method=method, headers={"host": "pod-7.internal"}, buffered=True)
    assert response.status_code == (200 if method == "GET" else 403)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/metrics", "/", "/v1/responses/resp_1"])
def test_a_wrong_name_sees_nothing(client: FlaskClient, path: str) -> None:
    response = client.get(path, headers={"host": "rebound.example"}, buffered=True)
    assert (response.status_code, response.get_json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        pytest.param(OBSIDIAN, "localhost:11435", id="obsidian"),
        pytest.param("capacitor://localhost", "localhost:11435", id="obsidian-on-a-phone"),
        pytest.param("http://localhost:5173", "localhost:11435", id="a-page-of-this-machine"),
        pytest.param("http://[::1]:11435", "[::1]:11435", id="our-own-page"),
        pytest.param("https://127.0.0.1:11435", "127.0.0.1:11435", id="our-own-page-behind-tls"),
    ],
)
def test_pages_that_may_ask(send: Any, origin: str, host: str) -> None:
    assert send(origin=origin, host=host) == SERVED


def test_a_program_names_no_page(send: Any) -> None:
    assert send() == SERVED


PAGES = {
    "foreign": "https://evil.example",
    "on-plain-http": "http://evil.example",
    "on-our-port": "http://evil.example:11435",
    "a-longer-name": "http://localhost.evil.example",
    "a-name-as-a-user": "http://localhost@evil.example",
    "sandboxed": "null",
    "a-file": "file://",
    "empty": "",
    "no-url": "http://[::1",
    "nothing-behind-the-scheme": "http://",
    "our-name-by-another-scheme": "evil://localhost:11435",
    "our-name-without-a-scheme": "//localhost:11435",
    "two": "http://localhost, https://evil.example",
    "not-ascii": "http://löcalhost",
    "another-address-of-this-machine": "http://[::1]:11435",
}


@pytest.mark.parametrize(
    ("gateway_settings", "host"),
    [
        pytest.param(OPEN, "localhost:11435", id="open"),
        pytest.param(KEYED, "gw.example", id="keyed"),
        pytest.param(KEYED, "", id="without-a-name"),
    ],
)
@pytest.mark.parametrize("origin", [pytest.param(origin, id=about) for about, origin in PAGES.items()])
def test_pages_that_may_not_ask(send: Any, origin: str, host: str) -> None:
    """A form on any page can post anywhere; nothing runs for it. Without a name no page is its own."""
    assert send(origin=origin, host=host) == WRONG_PAGE


@pytest.mark.parametrize("gateway_settings", [pytest.param(KEYED, id="keyed")])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/v1/responses", id="responses"),
        pytest.param("DELETE", "/v1/responses/resp_1", id="delete"),
        pytest.param("POST", "/v1/responses/resp_1/cancel", id="cancel"),
        pytest.param("POST", "/v1/nothing", id="no-such-route"),
        pytest.param("PUT", "/v1/models", id="no-such-method"),
    ],
)
def test_no_page_changes_anything(
    client: FlaskClient, backend: ScriptedBackend, method: str, path: str
) -> None:
    """Before its key is looked at: a page is told nothing about keys either."""
    headers = {"origin": "https://evil.example", "authorization": "Bearer wrong"}
    response = client.open(path, method=method, json={}, headers=headers, buffered=True)
    assert (response.status_code, response.get_json()["error"], backend.turns) == (
        403,
        {
            "message": "Pages of this origin are not let in (PROXY_CORS_ALLOWED_ORIGINS).",
            "type": "invalid_request_error",
            "param": None,
            "code": "origin_not_allowed",
        },
        [],
    )
    assert response.headers["x-should-retry"] == "false"


def test_a_foreign_page_may_look_but_not_read(client: FlaskClient) -> None:
    response = client.get("/v1/models", headers={"origin": "https://evil.example"}, buffered=True)
    assert (response.status_code, response.headers.get("access-control-allow-origin")) == (200, None)


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(allowed_origins=("*",)), id="everyone-is-let-in")]
)
@pytest.mark.parametrize("origin", ["https://any.example", "null"])
def test_an_operator_may_let_everyone_in(send: Any, origin: str) -> None:
    assert send(origin=origin) == SERVED


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        pytest.param("text/plain", b"{}", id="text"),
        pytest.param("text/plain;application/json", b"{}", id="text-that-names-json"),
        pytest.param("application/x-www-form-urlencoded", b'{"a":"=b"}', id="a-form"),
        pytest.param("multipart/form-data; boundary=x", b"--x--", id="a-form-with-files"),
        pytest.param("", b"{}", id="none"),
    ],
)
def test_what_a_page_sends_without_asking_is_no_json(
    client: FlaskClient, backend: ScriptedBackend, content_type: str, data: bytes
) -> None:
    """What needs no preflight runs nothing, even where a browser names no origin."""
    response = client.post("/v1/chat/completions", data=data, content_type=content_type, buffered=True)
    assert (response.status_code, response.get_json()["error"]["code"], backend.turns) == (
        415,
        "unsupported_media_type",
        [],
    )


@pytest.mark.parametrize(
    ("gateway_settings", "path", "headers", "status"),
    [
        pytest.param(OPEN, "/v1/models", {"host": "rebound.example"}, 403, id="a-wrong-name"),
        pytest.param(KEYED, "/v1/models", {}, 401, id="no-key"),
        pytest.param(KEYED, "/v1/nothing", {"authorization": "Bearer client-key"}, 404, id="no-route"),
        pytest.param(
            KEYED, "/metrics", {"via": "1", "authorization": "Bearer client-key"}, 403, id="no-admin"
        ),
    ],
)
def test_every_refusal_is_shared(
    client: FlaskClient, path: str, headers: dict[str, str], status: int
) -> None:
    response = client.get(path, headers=headers | {"origin": OBSIDIAN}, buffered=True)
    told = response.status_code, response.headers["access-control-allow-origin"], response.headers["vary"]
    assert told == (status, OBSIDIAN, "Origin")


FORWARDED = ["x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"]
CLIENT, ADMIN = {"authorization": "Bearer client-key"}, {"authorization": "Bearer admin-key"}


@pytest.mark.parametrize("gateway_settings", [pytest.param(KEYED, id="keyed")])
@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        pytest.param("127.0.0.1", {}, 200, id="this-machine"),
        pytest.param("::1", {"host": "[::1]:11435"}, 200, id="this-machine-by-ipv6"),
        pytest.param("127.0.0.1", {"host": "gw.example"}, 401, id="by-a-public-name"),
        pytest.param("127.0.0.1", {"host": ""}, 401, id="by-no-name"),
        pytest.param("10.0.0.7", {}, 401, id="another-machine"),
        pytest.param(
            "10.0.0.7", {"x-forwarded-for": "127.0.0.1"}, 401, id="another-that-says-it-is-this-one"
        ),
        pytest.param("", {}, 401, id="nobody-knows-who"),
        pytest.param("127.0.0.1", {"origin": "http://localhost"}, 401, id="a-page"),
        *(pytest.param("127.0.0.1", {name: "127.0.0.1"}, 401, id=f"through-{name}") for name in FORWARDED),
        pytest.param("127.0.0.1", {"via": ""}, 401, id="through-a-proxy-that-says-nothing"),
        pytest.param("10.0.0.7", CLIENT, 403, id="with-a-client-s-key"),
        pytest.param("127.0.0.1", CLIENT | {"via": "1"}, 403, id="through-a-proxy-with-a-client-s-key"),
        pytest.param("10.0.0.7", ADMIN, 200, id="with-an-admin-s-key"),
        pytest.param("127.0.0.1", ADMIN | {"via": "1"}, 200, id="through-a-proxy-with-an-admin-s-key"),
    ],
)
def test_metrics_without_a_key_are_for_this_machine(
    client: FlaskClient, peer: str, headers: dict[str, str], status: int
) -> None:
    """A program that asks by no detour; all else needs an admin's key."""
    asked = {"host": "localhost:11435"} | headers
    response = client.get("/metrics", headers=asked, environ_base={"REMOTE_ADDR": peer}, buffered=True)
    assert response.status_code == status
    assert ("codex_requests" in response.text) is (status == 200)


@pytest.mark.parametrize("gateway_settings", [pytest.param(KEYED, id="keyed")])
def test_a_client_s_key_is_told_what_it_lacks(client: FlaskClient) -> None:
    response = client.get("/metrics", headers=CLIENT | {"via": "1"}, buffered=True)
    assert response.get_json() == {
        "error": {
            "message": "This needs an admin key (PROXY_ADMIN_KEY).",
            "type": "invalid_request_error",
            "param": None,
            "code": "admin_key_required",
        }
    }
