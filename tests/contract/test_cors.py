"""CORS: which pages may read an answer."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from app.lib.errors import RateLimited
from app.settings import Settings
from tests.contract.conftest import Post
from tests.support.scripted_backend import ScriptedBackend, end

OBSIDIAN = "app://obsidian.md"
EXPOSED = (
    "x-request-id, x-proxy-ignored-params, x-proxy-output-mode, x-proxy-continuation, "
    "x-should-retry, retry-after, "
    "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    "x-ratelimit-codex-primary-used-percent, x-ratelimit-codex-primary-window-minutes, "
    "x-ratelimit-codex-primary-reset, x-ratelimit-codex-secondary-used-percent, "
    "x-ratelimit-codex-secondary-window-minutes, x-ratelimit-codex-secondary-reset"
)
SHARED = {
    "access-control-allow-origin": OBSIDIAN,
    "access-control-expose-headers": EXPOSED,
    "vary": "Origin",
}

Headers = dict[str, str]


def sharing(response) -> Headers:
    """What a reply says about sharing."""
    return {
        name.lower(): value
        for name, value in response.headers.items()
        if name.lower().startswith("access-control-") or name.lower() == "vary"
    }


@pytest.mark.parametrize(
    "gateway_settings",
    [pytest.param(Settings(), id="open"), pytest.param(Settings(api_keys=("key",)), id="with-a-key")],
)
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(
            {"access-control-request-method": "POST"},
            {},
            id="a-method",
        ),
        pytest.param(
            {"access-control-request-headers": "authorization, x-stainless-os, dangerously-allow-browser"},
            {"access-control-allow-headers": "authorization, x-stainless-os, dangerously-allow-browser"},
            id="headers-are-echoed",
        ),
        pytest.param(
            {"access-control-request-private-network": "true"},
            {"access-control-allow-private-network": "true"},
            id="private-network",
        ),
        pytest.param({"access-control-request-private-network": "false"}, {}, id="no-private-network"),
    ],
)
def test_preflight_needs_no_key(client: FlaskClient, asked: Headers, expected: Headers) -> None:
    response = client.options("/v1/chat/completions", headers={"origin": OBSIDIAN, **asked}, buffered=True)
    assert (response.status_code, response.data, sharing(response)) == (
        204,
        b"",
        SHARED
        | {
            "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
            "access-control-max-age": "600",
        }
        | expected,
    )


ANY_PORT = Settings(allowed_origins=("http://localhost:*", "https://a.example"))


@pytest.mark.parametrize(
    ("gateway_settings", "origin", "allowed"),
    [
        pytest.param(Settings(), "app://obsidian.md", True, id="obsidian"),
        pytest.param(Settings(), "capacitor://localhost", True, id="obsidian-on-a-phone"),
        pytest.param(Settings(), "http://localhost:5173", True, id="localhost"),
        pytest.param(Settings(), "http://127.0.0.1", True, id="loopback-without-port"),
        pytest.param(Settings(), "https://evil.example", False, id="foreign"),
        pytest.param(Settings(), "http://localhost.evil.example", False, id="a-longer-name"),
        pytest.param(Settings(), "http://localhost:80.evil.example", False, id="a-port-that-is-none"),
        pytest.param(Settings(), "null", False, id="a-sandboxed-page"),
        pytest.param(ANY_PORT, "https://a.example", True, id="exact"),
        pytest.param(ANY_PORT, "https://axexample", False, id="a-dot-is-a-dot"),
        pytest.param(ANY_PORT, "https://a.example:444", False, id="another-port"),
        pytest.param(ANY_PORT, "http://localhost:1", True, id="any-port"),
        pytest.param(ANY_PORT, "app://obsidian.md", False, id="the-list-replaces-the-default"),
        pytest.param(Settings(allowed_origins=("*",)), "https://any.example", True, id="everyone"),
        pytest.param(Settings(allowed_origins=()), "http://localhost:1", False, id="nobody"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_origins(client: FlaskClient, method: str, origin: str, allowed: bool) -> None:
    response = client.open("/v1/models", method=method, headers={"origin": origin}, buffered=True)
    granted = response.headers.get("access-control-allow-origin")
    assert (granted, response.headers["vary"]) == (origin if allowed else None, "Origin")


def test_a_foreign_page_gets_no_sharing_header_at_all(client: FlaskClient) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-headers": "authorization"}
    assert sharing(client.options("/v1/models", headers=headers, buffered=True)) == {"vary": "Origin"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/v1/models", 200, id="ok"),
        pytest.param("/v1/nothing", 404, id="no-such-route"),
        pytest.param("/v1/chat/completions", 405, id="no-such-method"),
    ],
)
def test_every_reply_is_shared(client: FlaskClient, path: str, status: int) -> None:
    response = client.get(path, headers={"origin": OBSIDIAN}, buffered=True)
    assert (response.status_code, sharing(response)) == (status, SHARED)


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(api_keys=("key",)), id="with-a-key")])
def test_a_refused_key_is_shared(client: FlaskClient) -> None:
    response = client.get("/v1/models", headers={"origin": OBSIDIAN}, buffered=True)
    assert (response.status_code, sharing(response)) == (401, SHARED)


@pytest.mark.parametrize(
    ("script", "status"),
    [pytest.param([end()], 200, id="a-stream"), pytest.param([RateLimited("No.")], 429, id="a-failure")],
)
def test_chat_replies_are_shared(post: Post, backend: ScriptedBackend, script, status: int) -> None:
    backend.script = script
    response = post(stream=True, headers={"origin": OBSIDIAN})
    assert (response.status_code, sharing(response)) == (status, SHARED)
