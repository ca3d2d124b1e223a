"""The models on offer, and health."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from app.lib.errors import GatewayBusy
from tests.support.scripted_backend import ScriptedBackend

GPT = {"id": "gpt-5.5", "object": "model", "created": 0, "owned_by": "openai"}
FAST = {"id": "vendor/fast", "object": "model", "created": 0, "owned_by": "codex-gateway"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/v1/models", {"object": "list", "data": [GPT, FAST]}, id="all"),
        pytest.param("/v1/models/gpt-5.5", GPT, id="one"),
        pytest.param("/v1/models/vendor/fast", FAST, id="a-slash-in-an-id"),
        pytest.param("/v1/models/gpt-5.5-low", GPT | {"id": "gpt-5.5-low"}, id="with-an-effort"),
    ],
)
def test_models(client: FlaskClient, path: str, expected: dict[str, Any]) -> None:
    response = client.get(path, buffered=True)
    assert (response.status_code, response.get_json()) == (200, expected)


def test_models_while_codex_is_busy(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.offered = GatewayBusy("Busy.")
    response = client.get("/v1/models", buffered=True)
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")


@pytest.mark.parametrize(
    ("ready", "path", "status", "expected"),
    [
        pytest.param(True, "/livez", 200, {"status": "ok"}, id="live"),
        pytest.param(False, "/livez", 200, {"status": "ok"}, id="live-before-codex-is"),
        pytest.param(True, "/readyz", 200, {"status": "ok"}, id="ready"),
        pytest.param(False, "/readyz", 503, {"status": "starting"}, id="not-yet-ready"),
        pytest.param(True, "/healthz", 200, {"status": "ok", "ready": True}, id="health"),
        pytest.param(False, "/healthz", 200, {"status": "ok", "ready": False}, id="health-before"),
    ],
)
def test_health(
    client: FlaskClient, backend: ScriptedBackend, ready: bool, path: str, status: int, expected: Any
) -> None:
    backend.ready = ready
    response = client.get(path, buffered=True)
    assert (response.status_code, response.get_json()) == (status, expected)
