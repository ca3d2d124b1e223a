"""What real clients send, as it is and altered: an answer or a refusal, never a fault of the gateway's."""

from __future__ import annotations

import json
import logging
import pathlib
import random
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.lib.errors import UnknownModel
from app.lib.models import find_model
from app.lib.prompt import Prompt
from app.lib.request import PastOutput
from app.pipeline import Client
from tests.fuzz.effort import seeds
from tests.fuzz.judge import judge_reply
from tests.fuzz.mutations import mangle, mutate
from tests.support.scripted_backend import (
    MODELS,
    Script,
    ScriptedBackend,
    ScriptedTurn,
    call,
    end,
    say,
    think,
)

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures" / "requests"
REQUESTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}
VALUES: dict[str, Any] = {"integer": 3, "number": 1.5, "boolean": True, "array": [], "object": {}}
TRIES = 8
#: As often as the gateway has a model try again, and once more.
ROUNDS = 3


class Answering(ScriptedBackend):
    """A model that calls the first tool it is given, once, and knows no other models than it offers."""

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> ScriptedTurn:
        self.script = [*self._answer(prompt)]
        return super().open_turn(prompt, client, owner)

    def _answer(self, prompt: Prompt) -> Script:
        request = prompt.request
        try:
            find_model(MODELS, request.model)
        except UnknownModel as error:
            return [error]
        has_results = any(isinstance(item, PastOutput) for item in request.history)
        tools = request.tools.callable
        if request.tools.demands_call:
            arguments = fill(tools[0].parameters)
            wanted = {"calls": [{"name": tools[0].name, "arguments": arguments}]}
            is_alone = len(tools) == 1
            script = [say(json.dumps(arguments if is_alone else wanted)), end()] * ROUNDS
        elif tools and not has_results:
            arguments = json.dumps(fill(tools[0].parameters))
            script = [
                step
                for number in range(ROUNDS)
                for step in (call(tools[0].name, arguments, f"c{number}"), end())
            ]
        else:
            script = [think("Hm."), say("It is ", "21."), end()]
        others = range(1, request.choices)
        return [
            *script,
            *(say("Too.", choice=index) for index in others),
            *(end(choice=index) for index in others),
        ]


def fill(schema: Any) -> dict[str, Any]:
    """Arguments that most schemas take."""
    known = schema.get("properties") if isinstance(schema, dict) else None
    named = known.items() if isinstance(known, dict) else ()
    kinds = {name: each.get("type") if isinstance(each, dict) else None for name, each in named}
    return {name: VALUES.get(str(kind), "Paris") for name, kind in kinds.items()}


@pytest.fixture
def backend() -> Answering:
    return Answering()


def send(client: FlaskClient, request: dict[str, Any], data: bytes) -> tuple[int, bytes]:
    response = client.post(request["path"], data=data, headers=request["headers"], buffered=True)
    assert "x-request-id" in response.headers
    return response.status_code, response.data


@pytest.mark.parametrize("name", REQUESTS)
def test_a_real_request(client: FlaskClient, name: str) -> None:
    request = REQUESTS[name]
    status, data = send(client, request, json.dumps(request["body"]).encode())
    assert status == request["status"], data
    code = judge_reply(status, data, request["body"], name)
    assert code in (None, "none") if request.get("code") is None else code == request["code"]


def test_what_comes_of_it_is_seen(client: FlaskClient, backend: Answering) -> None:
    """Or every answer would do."""
    request = REQUESTS["openai-python-stream-image-knobs"]
    _, data = send(client, request, json.dumps(request["body"]).encode())
    assert b'"content":"21."' in data
    [prompt] = backend.prompts
    assert [item["role"] for item in prompt.items] == ["developer", "user"]


@pytest.mark.parametrize("name", REQUESTS)
def test_an_altered_request(client: FlaskClient, logged: list[logging.LogRecord], name: str) -> None:
    """Keys dropped, doubled, renamed, of another type, nested, huge; and bytes that are no JSON any more."""
    request = REQUESTS[name]
    whole = json.dumps(request["body"]).encode()
    for seed in seeds(TRIES):
        rng = random.Random(f"{seed} {name}")
        body = mutate(request["body"], rng)
        data = mangle(whole, rng) if seed % 4 == 3 else json.dumps(body).encode()
        status, reply = send(client, request, data)
        about = f"seed {seed}, {name}: {data[:3000]!r}"
        assert [record.exc_text for record in logged if record.exc_info] == [], about
        assert status < 500 or is_the_models(reply), f"{status} {reply!r} for {about}"
        if status != 200 or seed % 4 != 3:
            judge_reply(status, reply, body, about)
        logged.clear()


def is_the_models(reply: bytes) -> bool:
    """A call that breaks the client's own strict schema is the model's fault, and told as that."""
    return bool(json.loads(reply)["error"]["code"] == "invalid_tool_call")
