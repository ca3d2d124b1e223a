"""Who may ask, by which id, and what is logged about it."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.handlers import logs
from app.lib.errors import RateLimited
from app.settings import Settings
from tests.contract.conftest import Post
from tests.support.scripted_backend import ScriptedBackend, end, say

KEYED = pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(api_keys=("key-one", "key-two")), id="two-keys")]
)


@KEYED
@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param("Bearer key-one", 200, id="first"),
        pytest.param("Bearer key-two", 200, id="second"),
        pytest.param("bearer  key-two ", 200, id="lower-case-and-spaces"),
        pytest.param("Bearer key-three", 401, id="unknown"),
        pytest.param("Bearer key-one,key-two", 401, id="both"),
        pytest.param("Bearer key-on", 401, id="shorter"),
        pytest.param("Bearer", 401, id="no-key"),
        pytest.param("Bearer ", 401, id="empty-key"),
        pytest.param("Basic key-one", 401, id="another-scheme"),
        pytest.param("key-one", 401, id="bare"),
        pytest.param("Bearer kéy", 401, id="not-ascii"),
        pytest.param(None, 401, id="none"),
    ],
)
def test_keys(client: FlaskClient, header: str | None, status: int) -> None:
    headers = {"authorization": header} if header is not None else {}
    assert client.get("/v1/models", headers=headers, buffered=True).status_code == status


@KEYED
def test_a_refused_key(client: FlaskClient, backend: ScriptedBackend) -> None:
    response = client.post("/v1/chat/completions", data=b"no JSON", buffered=True)
    assert (response.status_code, response.get_json(), backend.turns) == (
        401,
        {
            "error": {
                "message": "Send a valid key as `Authorization: Bearer …`.",
                "type": "authentication_error",
                "param": None,
                "code": "invalid_api_key",
            }
        },
        [],
    )


@KEYED
@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/healthz", 200, id="healthz"),
        pytest.param("/livez", 200, id="livez"),
        pytest.param("/readyz", 200, id="readyz"),
        pytest.param("/healthz/", 401, id="only-these"),
        pytest.param("/v1/nothing", 401, id="routes-are-nobody's-business"),
    ],
)
def test_health_needs_no_key(client: FlaskClient, path: str, status: int) -> None:
    assert client.get(path, buffered=True).status_code == status


def test_an_open_gateway_takes_any_key(client: FlaskClient) -> None:
    headers = {"authorization": "Bearer whatever"}
    assert client.get("/v1/models", headers=headers, buffered=True).status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("abc-123_4.5", id="simple"),
        pytest.param("x" * 128, id="longest"),
    ],
)
def test_a_request_id_is_kept(client: FlaskClient, asked: str) -> None:
    response = client.get("/livez", headers={"x-request-id": asked}, buffered=True)
    assert response.headers["x-request-id"] == asked


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 129, id="too-long"),
        pytest.param("a b", id="space"),
        pytest.param("é", id="not-ascii"),
        pytest.param('"},{"', id="quotes"),
    ],
)
def test_a_request_id_is_given(client: FlaskClient, asked: str) -> None:
    given = client.get("/livez", headers={"x-request-id": asked}, buffered=True).headers["x-request-id"]
    assert re.fullmatch(r"req_[0-9a-f]{24}", given)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/nothing", id="404"),
        pytest.param("DELETE", "/v1/models", id="405"),
        pytest.param("POST", "/v1/chat/completions", id="415"),
        pytest.param("OPTIONS", "/v1/models", id="preflight"),
        pytest.param("GET", "/v1/models", id="200"),
    ],
)
def test_every_reply_has_a_request_id(client: FlaskClient, method: str, path: str) -> None:
    response = client.open(path, method=method, headers={"x-request-id": "mine"}, buffered=True)
    assert response.headers.getlist("x-request-id") == ["mine"]


def fields(logged: list[logging.LogRecord]) -> list[dict[str, Any]]:
    """The access lines, without what a clock decides."""
    lines = [dict(record.fields) for record in logged if record.name == "access"]
    for line in lines:
        duration, token = line.pop("duration_ms"), line.pop("first_token_ms", 0)
        assert duration >= token >= line.pop("first_event_ms", 0) >= 0 or not token
    return lines


CHAT = {
    "method": "POST",
    "path": "/v1/chat/completions",
    "route": "/v1/chat/completions",
    "key": "(open)",
    "request_id": "mine",
    "model": "gpt-5.5",
    "output_mode": "obsidian-xml",
    "stream": True,
}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(
            [say("Hi"), end()],
            CHAT
            | {"status": 200, "frames": 4, "finish": "stop"}
            | {"input_tokens": 120, "cached_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5},
            id="an-answer",
        ),
        pytest.param(
            [RateLimited("No.")], CHAT | {"status": 429, "error": "rate_limit_exceeded"}, id="before"
        ),
        pytest.param(
            [say("Hi"), RateLimited("No.")],
            CHAT | {"status": 200, "frames": 4, "error": "rate_limit_exceeded"},
            id="after",
        ),
    ],
)
def test_one_line_a_request(
    post: Post,
    backend: ScriptedBackend,
    logged: list[logging.LogRecord],
    script: list[Any],
    expected: dict[str, Any],
) -> None:
    backend.script = script
    post(stream=True, headers={"x-request-id": "mine"})
    assert fields(logged) == [expected]


def test_the_line_is_written_when_the_client_left(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    backend.script = [say("a"), say("b"), end()]
    response = post(stream=True, headers={"x-request-id": "mine"}, buffered=False)
    before = fields(logged)
    response.close()
    left = CHAT | {"status": 200, "frames": 2, "error": "client_closed_request"}
    assert (before, fields(logged)) == ([], [left])


def test_no_word_of_the_conversation_is_logged(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    backend.script = [say("their answer"), end()]
    post(messages=[{"role": "user", "content": "my question"}], headers={"authorization": "Bearer my-key"})
    lines = " ".join(logs.JsonFormatter().format(record) for record in logged)
    assert [word for word in ("question", "answer", "my-key") if word in lines] == []


def test_what_a_failed_turn_used_is_told(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    backend.script = [say("Hi"), end()[:1], RateLimited("No.")]
    post()
    [line] = fields(logged)
    assert (line["error"], line["input_tokens"], line["output_tokens"]) == ("rate_limit_exceeded", 120, 20)
