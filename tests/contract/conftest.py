"""Clients of the gateway in process: Flask's own, and the official SDK."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import flask
import httpx2
import openai
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.support.sse import DONE, read_frames

BODY = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hi"}]}

OBSIDIAN = {"x-proxy-output-mode": "obsidian-xml"}
OPENAI = {"x-proxy-output-mode": "openai-json"}
MODES = [pytest.param(OBSIDIAN, id="obsidian-xml"), pytest.param(OPENAI, id="openai-json")]

Post = Callable[..., TestResponse]
Ask = Callable[..., TestResponse]


class Answer(NamedTuple):
    """One choice as clients come to see it."""

    #: `None` for none, in a stream as in a body.
    content: str | None
    finish: str | None
    #: Names and arguments.
    calls: tuple[tuple[str, str], ...] = ()


Answers = Callable[..., list[Answer]]


@pytest.fixture
def post(client: FlaskClient) -> Post:
    """Send a chat request; the reply is read to its end unless `buffered=False`."""

    def send(*, buffered: bool = True, headers: dict[str, str] | None = None, **changes: Any) -> TestResponse:
        return client.post("/v1/chat/completions", json=BODY | changes, headers=headers, buffered=buffered)

    return send


@pytest.fixture
def ask(client: FlaskClient) -> Ask:
    """POST /v1/responses."""

    def send(**request: Any) -> TestResponse:
        body = {"model": "gpt-5.5", "input": "Hi"} | request
        return client.post("/v1/responses", json=body, buffered=True)

    return send


@pytest.fixture
def sdk(app: flask.Flask) -> Iterator[openai.OpenAI]:
    transport = httpx2.WSGITransport(app=app.wsgi_app)
    with (
        httpx2.Client(transport=transport) as http_client,
        openai.OpenAI(
            base_url="http://localhost/v1", api_key="any", http_client=http_client, max_retries=0
        ) as client,
    ):
        yield client


@pytest.fixture
def answers(post: Post) -> Answers:
    """Ask for a body and for a stream, which must say the same; its choices."""

    def ask(**request: Any) -> list[Answer]:
        told = read_body(post(**request))
        assert read_stream(post(**request, stream=True)) == told
        return told

    return ask


def read_body(response: TestResponse) -> list[Answer]:
    assert response.status_code == 200, response.text
    return [read_choice(choice) for choice in response.get_json()["choices"]]


def read_choice(choice: dict[str, Any]) -> Answer:
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    if "function_call" in message:
        functions.append(message["function_call"])
    calls = tuple((function["name"], function["arguments"]) for function in functions)
    return Answer(message["content"] or None, choice["finish_reason"], calls)


def read_stream(response: TestResponse) -> list[Answer]:
    """Add up a stream as clients do, none of whose rules it may break."""
    assert response.status_code == 200, response.text
    *frames, done = read_frames(response.data)
    assert done == DONE
    chunks = [choice for frame in frames for choice in frame["choices"]]
    return [
        fold_chunks([chunk for chunk in chunks if chunk["index"] == index])
        for index in sorted({chunk["index"] for chunk in chunks})
    ]


def fold_chunks(chunks: list[dict[str, Any]]) -> Answer:
    """One choice's chunks: role first, content and calls apart, one finish, and that last (AC 7, 9, 12)."""
    deltas = [chunk["delta"] for chunk in chunks]
    assert [delta.get("role") for delta in deltas] == ["assistant", *[None] * (len(deltas) - 1)]
    assert not [delta for delta in deltas if "content" in delta and "tool_calls" in delta]
    assert [chunk["finish_reason"] is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert deltas[-1] == {}
    content = "".join(delta.get("content", "") for delta in deltas)
    return Answer(content or None, chunks[-1]["finish_reason"], fold_calls(deltas))


def fold_calls(deltas: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Each call begins with all that names it, and then only grows; places are dense from 0."""
    calls: list[list[str]] = []
    parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
    legacy = [
        {"index": 0, "function": delta["function_call"]} for delta in deltas if "function_call" in delta
    ]
    for part in parts or legacy:
        function = part["function"]
        if "name" in function:
            assert part["index"] == len(calls)
            assert not parts or (part["id"].startswith("tool_"), part["type"]) == (True, "function")
            calls.append([function["name"], ""])
        else:
            assert "id" not in part
        calls[part["index"]][1] += function["arguments"]
    return tuple((name, arguments) for name, arguments in calls)


def read_counters(app: flask.Flask, *prefixes: str) -> dict[str, float]:
    """What was counted, by name and labels, of the counters that begin so."""
    app.extensions["telemetry"].sample()
    return {
        name_sample(sample): sample.value
        for metric in app.extensions["telemetry"].meters.registry.collect()
        for sample in metric.samples
        if sample.name.startswith(prefixes) and sample.name.endswith("_total") and sample.value
    }


def name_sample(sample: Any) -> str:
    values = [value for _, value in sorted(sample.labels.items())]
    return sample.name + (f"{{{','.join(values)}}}" if values else "")


def to_answer(body: dict[str, Any]) -> dict[str, Any]:
    """What of a response is not every answer's own."""
    kept = ("status", "incomplete_details", "usage", "error")
    return {key: body[key] for key in kept} | {"output": [strip(item) for item in body["output"]]}


def strip(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("id", "call_id")}


@contextlib.contextmanager
def without_folder(folder: pathlib.Path) -> Iterator[None]:
    """Something else in a folder's place, for a while."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    put_in_the_way(folder)
    try:
        yield
    finally:
        folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


def put_in_the_way(folder: pathlib.Path) -> None:
    """Whoever finds it gone makes it anew at any moment."""
    while True:
        try:
            folder.open("x").close()
            return
        except FileExistsError:
            shutil.rmtree(folder)
