"""Clients of the gateway in process: Flask's own, and the official SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flask
import httpx2
import openai
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

BODY = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hi"}]}

Post = Callable[..., TestResponse]


@pytest.fixture
def post(client: FlaskClient) -> Post:
    """Send a chat request; the reply is read to its end unless `buffered=False`."""

    def send(*, buffered: bool = True, headers: dict[str, str] | None = None, **changes: Any) -> TestResponse:
        return client.post("/v1/chat/completions", json=BODY | changes, headers=headers, buffered=buffered)

    return send


@pytest.fixture
def sdk(app: flask.Flask) -> Iterator[openai.OpenAI]:
    transport = httpx2.WSGITransport(app=app.wsgi_app)
    with (
        httpx2.Client(transport=transport) as http_client,
        openai.OpenAI(
            base_url="http://gateway/v1", api_key="any", http_client=http_client, max_retries=0
        ) as client,
    ):
        yield client
