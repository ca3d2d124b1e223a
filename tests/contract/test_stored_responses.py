"""What is kept of responses: found again by their owner, gone on from, forgotten."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from app.lib.errors import ClientGone
from app.lib.events import ReasoningDone
from app.settings import Settings
from app.store.limits import Limits
from tests.contract.conftest import Ask, without_folder
from tests.support.gateway import wait_until
from tests.support.scripted_backend import Anew, ScriptedBackend, Step, call, end, say
from tests.support.sse import read_events

TOOLS = [{"type": "function", "name": name} for name in "fg"]


def output(call_id: str, text: str = "21") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def list_prompt(backend: ScriptedBackend) -> list[str]:
    """What the last prompt was made of, in short."""
    return [item.get("call_id") or item["content"][0]["text"] for item in backend.prompts[-1].items]


def test_stored_responses(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [say("Hello"), end()]
    body = ask().get_json()
    streamed = read_events(ask(stream=True).data)[-1]["response"]
    assert [client.get(f"/v1/responses/{each['id']}").get_json() for each in (body, streamed)] == [
        body,
        streamed,
    ]
    assert client.post(f"/v1/responses/{body['id']}/cancel").get_json() == body
    again = client.get(f"/v1/responses/{body['id']}?stream=true")
    assert (again.status_code, again.get_json()["error"]["param"]) == (400, "stream")
    assert client.delete(f"/v1/responses/{body['id']}").get_json() == {
        "id": body["id"],
        "object": "response.deleted",
        "deleted": True,
    }
    assert client.get(f"/v1/responses/{body['id']}").status_code == 404
    unstored = ask(store=False).get_json()
    assert unstored["store"] is False
    assert client.get(f"/v1/responses/{unstored['id']}").status_code == 404


def test_input_items_by_pages(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [say("Hello"), end()]
    first = ask(input=[{"role": "user", "content": f"{number}"} for number in range(3)]).get_json()
    second = ask(input="3", previous_response_id=first["id"]).get_json()
    url = f"/v1/responses/{second['id']}/input_items"

    def page(query: str) -> tuple[list[str], bool]:
        told = client.get(url + query).get_json()
        assert (told["object"], told["first_id"], told["last_id"]) == (
            "list",
            told["data"][0]["id"],
            told["data"][-1]["id"],
        )
        return [item["content"][0]["text"] for item in told["data"]], told["has_more"]

    assert page("") == (["3", "Hello", "2", "1", "0"], False)
    assert page("?order=asc&limit=2") == (["0", "1"], True)
    last = client.get(f"{url}?order=asc&limit=2").get_json()["last_id"]
    assert page(f"?order=asc&limit=3&after={last}") == (["2", "Hello", "3"], False)
    for query in ("?order=up", "?limit=0", "?limit=x", "?after=none"):
        assert client.get(url + query).status_code == 400
    assert client.get(f"/v1/responses/{first['id']}?stream=maybe").status_code == 400


def test_what_is_not_there(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [say("Hello"), end()]
    previous = ask(previous_response_id="resp_none")
    assert (previous.status_code, previous.get_json()["error"]["code"]) == (
        400,
        "previous_response_not_found",
    )
    twice = [{"type": "item_reference", "id": ask().get_json()["output"][0]["id"]}] * 2
    assert (ask(input=twice[1:]).status_code, ask(input=twice).status_code) == (200, 400)
    referred = ask(input=[{"type": "item_reference", "id": "msg_none"}])
    assert (referred.status_code, referred.get_json()["error"]["code"]) == (404, "item_not_found")
    unserved = client.post("/v1/responses/compact", json={})
    assert (unserved.status_code, unserved.get_json()["error"]["message"]) == (
        404,
        "No such route: POST /v1/responses/compact",
    )
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        gone = client.open(f"/v1/responses/resp_none{path}", method=method)
        assert (gone.status_code, gone.get_json()["error"]["code"]) == (404, "response_not_found")


@pytest.mark.parametrize("gateway_settings", [Settings(api_keys=("a", "b"))])
def test_no_key_sees_what_is_another_s(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [call("f", "{}"), end()]
    mine, theirs = ({"authorization": f"Bearer {key}"} for key in "ab")
    request = {"model": "gpt-5.5", "input": "Hi", "tools": TOOLS}
    body = client.post("/v1/responses", json=request, headers=mine).get_json()
    url = f"/v1/responses/{body['id']}"
    assert client.get(url, headers=mine).status_code == 200
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        assert client.open(url + path, method=method, headers=theirs).status_code == 404
    for changes, status in (
        ({"previous_response_id": body["id"]}, 400),
        ({"input": [{"type": "item_reference", "id": body["output"][0]["id"]}]}, 404),
        ({"input": [output(body["output"][0]["call_id"])]}, 200),
    ):
        assert client.post("/v1/responses", json=request | changes, headers=theirs).status_code == status
    assert [item["type"] for item in backend.prompts[-1].items] == ["message"]  # the output, as text


def test_follow_up_by_id(ask: Ask, backend: ScriptedBackend) -> None:
    """Stored input and output come before the new input; instructions are not carried over."""
    backend.script = [say("Look."), call("f", '{"a":1}'), end()]
    first = ask(instructions="Be kind.", tools=TOOLS).get_json()
    call_id = first["output"][1]["call_id"]
    assert call_id == first["output"][1]["id"]
    expected = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "call_id": call_id, "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": call_id, "output": "21"},
    ]
    for how in (
        {"input": [output(call_id)], "previous_response_id": first["id"]},
        {"input": [{"role": "user", "content": "Hi"}, *first["output"], output(call_id)]},
        {"input": [output(call_id)]},
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "item_reference", "id": first["output"][0]["id"]},
                output(call_id),
            ]
        },
    ):
        assert ask(**how, tools=TOOLS).status_code == 200
        assert list(backend.prompts[-1].items) == expected, how


def test_results_alone_find_their_conversation(ask: Ask, backend: ScriptedBackend) -> None:
    """With anything beside them, only their calls: a client that tells a history means that one."""
    backend.script = [call("f", "{}"), end()]
    mine, other = (ask(input=each, tools=TOOLS).get_json() for each in ("Mine", "Other"))
    f, g = (body["output"][0]["call_id"] for body in (mine, other))
    for request, expected in (
        ({"input": [output(f)]}, ["Mine", f, f]),
        ({"input": [output(f), output(g)]}, ["Mine", f, f, g, g]),
        ({"input": [output(f), {"role": "user", "content": "So?"}]}, [f, f, "So?"]),
        ({"input": [{"role": "user", "content": "So?"}, output(f)]}, ["So?", f, f]),
        ({"input": [output(g)], "previous_response_id": mine["id"]}, ["Mine", f, g, g]),
        ({"input": [output(f), output(g)], "previous_response_id": mine["id"]}, ["Mine", f, f, g, g]),
    ):
        assert ask(**request, tools=TOOLS).status_code == 200
        assert list_prompt(backend) == expected, request


def test_a_conversation_that_is_too_large(app: flask.Flask, ask: Ask, backend: ScriptedBackend) -> None:
    """Whatever it takes to read, no request holds up the worker for longer."""
    backend.script = [say("Yes."), end()]
    first = ask(input="x" * 1_000_000).get_json()
    app.extensions["responses"]._limits = Limits(3600, 1 << 30, 900_000)
    for request in (
        {"previous_response_id": first["id"]},
        {"input": [{"type": "item_reference", "id": f"msg_in000_{first['id'].removeprefix('resp_')}"}]},
    ):
        refused = ask(**request)
        assert (refused.status_code, refused.get_json()["error"]["code"]) == (400, "context_length_exceeded")
    bare = {"type": "reasoning", "id": f"msg_in000_{first['id'].removeprefix('resp_')}", "summary": []}
    assert ask(input=[bare, {"role": "user", "content": "So?"}]).status_code == 200  # it can do without


def test_what_was_deleted_on_its_way_is_not_stored(client: FlaskClient, backend: ScriptedBackend) -> None:
    """The answer is complete, and says so."""
    backend.script = [say("Hel"), say("lo") + end()]
    body = {"model": "gpt-5.5", "input": "Hi", "stream": True}
    chunks = iter(client.post("/v1/responses", json=body, buffered=False).response)
    first = next(chunks)
    client.delete(f"/v1/responses/{read_events(first)[0]['response']['id']}")
    last = read_events(first + b"".join(chunks))[-1]
    assert (last["type"], last["response"]["store"]) == ("response.completed", False)


def test_a_long_conversation_is_gone_on_with(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """By ids alone, also past what was deleted on the way."""
    backend.script = [say("Yes."), end()]
    bodies: list[dict[str, Any]] = [ask(input="0").get_json()]
    for number in range(1, 5):
        bodies.append(ask(input=f"{number}", previous_response_id=bodies[-1]["id"]).get_json())
    for body in bodies[:-1]:
        client.delete(f"/v1/responses/{body['id']}")
    ask(input="5", previous_response_id=bodies[-1]["id"])
    assert list_prompt(backend) == [*(each for number in range(5) for each in (f"{number}", "Yes.")), "5"]
    assert ask(input="x", previous_response_id=bodies[0]["id"]).status_code == 400


def test_reasoning_is_handed_back(ask: Ask, backend: ScriptedBackend) -> None:
    """Encrypted reasoning reaches those who ask for it, and codex again in any case."""
    backend.script = [[ReasoningDone(0, "r", (), "gAAA")], say("Yes"), end()]
    shown = ask(include=["reasoning.encrypted_content"]).get_json()
    hidden = ask().get_json()
    told = [body["output"][0].get("encrypted_content") for body in (shown, hidden)]
    assert told == ["gAAA", None]
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    for body in (shown, hidden):
        ask(input="And?", previous_response_id=body["id"])
        assert backend.prompts[-1].items[1] == thought
        ask(input=[{"role": "user", "content": "Hi"}, *body["output"], {"role": "user", "content": "And?"}])
        assert backend.prompts[-1].items[1] == thought
    unknown = hidden["output"][0] | {"id": "rs_unknown"}
    ask(input=[unknown, {"role": "user", "content": "And?"}])
    assert list_prompt(backend) == ["And?"]


def test_an_output_nobody_asked_for_is_told_as_text(ask: Ask, backend: ScriptedBackend) -> None:
    backend.script = [end()]
    ask(input=[output("fc_9")])
    said = {"type": "input_text", "text": "[function_call_output call_id=fc_9 output=21]"}
    assert list(backend.prompts[-1].items) == [{"type": "message", "role": "user", "content": [said]}]


def test_a_client_that_leaves_cancels(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = [say("Hel"), say("lo"), end()]
    body = {"model": "gpt-5.5", "input": "Hi", "stream": True}
    response = client.post("/v1/responses", json=body, buffered=False)
    first = next(iter(response.response))
    response.close()
    response_id = read_events(first)[0]["response"]["id"]
    stored = client.get(f"/v1/responses/{response_id}").get_json()
    assert (stored["status"], stored["output"][0]["content"][0]["text"]) == ("cancelled", "Hel")


def test_a_client_that_a_tick_finds_gone_cancels(
    ask: Ask, client: FlaskClient, backend: ScriptedBackend
) -> None:
    backend.script = [say("Hel"), ClientGone("The client closed the connection.")]
    last = read_events(ask(stream=True).data)[-1]
    stored = client.get(f"/v1/responses/{last['response']['id']}").get_json()
    assert (last["type"], stored["status"], stored["error"]) == ("response.failed", "cancelled", None)


def test_without_a_store_there_are_answers(
    ask: Ask, backend: ScriptedBackend, tmp_path: pathlib.Path, logged: list[Any]
) -> None:
    """A store that cannot be used costs what it would have held, with a warning, and nothing else."""
    (tmp_path / "responses").write_text("in the way")
    backend.script = [say("Hello"), end()]
    body = ask().get_json()
    events = read_events(ask(stream=True).data)
    assert [body["store"], events[0]["response"]["store"], events[-1]["response"]["store"]] == [False] * 3
    assert ask(background=True).status_code == 503
    assert ask(previous_response_id="resp_1").status_code == 503
    assert ask(input=[{"type": "item_reference", "id": "msg_1"}]).status_code == 503
    for items in ([output("fc_9")], [{"role": "user", "content": "So?"}, output("fc_9")]):
        assert ask(input=items, store=False).status_code == 200
        assert list_prompt(backend)[-1] == "[function_call_output call_id=fc_9 output=21]"
    assert [record.levelname for record in logged if "not stored" in record.getMessage()] == ["WARNING"] * 3


def test_a_store_that_fails_in_the_middle(
    ask: Ask, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    """The answer is complete and says that it was not stored; what was begun does not stay under way."""

    def play() -> Iterator[Step]:
        yield say("Hel")
        with without_folder(tmp_path / "responses"):
            yield say("lo") + end()

    backend.script = Anew(play)
    events = read_events(ask(stream=True).data)
    assert (events[0]["response"]["store"], events[-1]["response"]["store"]) == (True, False)
    assert events[-1]["type"] == "response.completed"
    backend.script = [say("Hi"), end()]
    response_id = events[0]["response"]["id"]
    url = f"/v1/responses/{response_id}"
    told = [client.get(url), client.get(f"{url}/input_items"), ask(previous_response_id=response_id)]
    assert [response.status_code for response in told] == [404, 404, 400]
    assert wait_until(lambda: ask().status_code == 200 and client.get(url).status_code == 404)
