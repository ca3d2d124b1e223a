"""Responses that run by themselves: polled, picked up again, cancelled."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient

from app.lib.dialects.response_body import ResponseIdentity, build_response
from app.lib.events import FinishReason, Queued, TextDelta, Tick
from app.lib.sse import encode_event
from app.settings import Settings
from app.store.responses import ResponseStore
from tests.contract.conftest import Ask, read_counters, to_answer, without_folder
from tests.support.gateway import wait_until
from tests.support.scripted_backend import Anew, ScriptedBackend, Step, end, say, think
from tests.support.sse import read_events


def test_background(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Queued at once; its events can be read from wherever a client left off."""
    backend.script = [think("Hm."), say("Hel"), say("lo"), end()]
    queued = ask(background=True).get_json()
    assert (queued["status"], queued["output"]) == ("queued", [])
    url = f"/v1/responses/{queued['id']}"
    wait_until(lambda: client.get(url).get_json()["status"] == "completed")
    done = client.get(url).get_json()
    events = read_events(client.get(f"{url}?stream=true").data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == done
    rest = read_events(client.get(f"{url}?stream=true&starting_after=5").data)
    assert rest == events[6:]
    assert read_events(client.get(f"{url}?stream=true&starting_after={len(events) - 1}").data) == []
    assert to_answer(read_events(ask(background=True, stream=True).data)[-1]["response"]) == to_answer(done)


def test_background_can_be_cancelled(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    go_on = threading.Event()

    def play() -> Iterator[Step]:
        yield say("Hel")
        while not go_on.wait(0.01):
            yield [Tick(0)]
        yield end()

    backend.script = Anew(play)
    url = f"/v1/responses/{ask(background=True).get_json()['id']}"
    wait_until(lambda: client.get(url).get_json()["status"] == "in_progress")
    assert ask(previous_response_id=url.rpartition("/")[2]).status_code == 400
    assert client.post(f"{url}/cancel").get_json()["status"] == "cancelled"
    go_on.set()
    events = read_events(client.get(f"{url}?stream=true").data)
    assert [event["type"] for event in events[-2:]] == ["response.output_item.done", "response.failed"]
    assert events[-1]["response"]["error"]["message"] == "The response was cancelled."
    assert wait_until(lambda: backend.turns[0].closes) == 1


def test_a_fault_of_our_own_is_no_cancel(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Whatever breaks, whoever polls is told."""
    backend.script = [say("Hel"), [TextDelta(0, "msg_0", "half a character: \ud800")], end()]
    url = f"/v1/responses/{ask(background=True).get_json()['id']}"
    wait_until(lambda: client.get(url).get_json()["status"] not in ("queued", "in_progress"))
    stored = client.get(url).get_json()
    assert (stored["status"], stored["error"]["code"]) == ("failed", "server_error")
    assert read_events(client.get(f"{url}?stream=true").data)[-1]["type"] == "response.failed"


@pytest.mark.parametrize("gateway_settings", [Settings(max_background=1)])
def test_a_refused_background_response_leaves_nothing(
    ask: Ask, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    """One too many is told to come back; what was begun would never have ended."""
    go_on = threading.Event()

    def play() -> Iterator[Step]:
        while not go_on.wait(0.01):
            yield [Queued(), Tick(0)]
        yield say("Hello") + end(FinishReason.LENGTH)

    backend.script = Anew(play)
    url = f"/v1/responses/{ask(background=True).get_json()['id']}"
    refused = ask(background=True)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    go_on.set()
    wait_until(lambda: client.get(url).get_json()["status"] == "incomplete")
    with contextlib.closing(sqlite3.connect(tmp_path / "responses" / "responses.sqlite3")) as database:
        assert database.execute("SELECT count(*) FROM responses").fetchone() == (1,)


def test_a_model_that_nobody_knows_is_refused_at_once(ask: Ask, backend: ScriptedBackend) -> None:
    """Who polls would learn of it late, as of any failure."""
    refused = ask(background=True, model="gpt-0")
    assert (refused.status_code, refused.get_json()["error"]["code"]) == (404, "model_not_found")
    assert ask(background=True, model="gpt-5.5-low").status_code == 200
    assert wait_until(lambda: len(backend.turns)) == 1


def test_nobody_is_as_patient_as_a_background_response(ask: Ask, backend: ScriptedBackend) -> None:
    """It waits for a process for as long as its turn may take; a client, for as long as a queue may."""
    backend.script = [say("Hello"), end()]
    ask()
    ask(background=True)
    wait_until(lambda: len(backend.clients) == 2)
    assert [client.patience_s for client in backend.clients] == [10, float("inf")]


def test_a_background_request_is_counted_once(
    app: flask.Flask, ask: Ask, backend: ScriptedBackend, logged: list[Any]
) -> None:
    """Two lines, for the request and for what it left to do; what is added up stands in one."""
    backend.script = [say("Hello"), end()]
    echoed = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ask(background=True, input=[echoed])
    app.extensions["background"].wait(5)
    lines = [record.fields for record in logged if record.name == "access"]
    assert [line.get("echoed_calls") for line in lines].count(1) == 1
    assert read_counters(app, "codex_echoed") == {"codex_echoed_calls_total": 1}


STOPPED = {"code": "server_error", "message": "Stopped."}


@pytest.mark.parametrize("after", [0, 1, 2, 9])
def test_a_stream_that_is_picked_up_ends(app: flask.Flask, client: FlaskClient, after: int) -> None:
    """Its worker was killed before the last events were written: the end is told all the same."""
    identity = ResponseIdentity("1", 0, "gpt-5.5", {"background": True})
    body = build_response(identity, "failed") | {"error": STOPPED}
    store: ResponseStore = app.extensions["responses"]
    store.begin("", body, [])
    store.add_events("resp_1", [(number, encode_number(number)) for number in range(3)])
    events = read_events(client.get(f"/v1/responses/resp_1?stream=true&starting_after={after}").data)
    assert [event["sequence_number"] for event in events] == [*range(after + 1, 3), max(after, 2) + 1]
    assert events[-1] == {"type": "response.failed", "response": body, "sequence_number": max(after, 2) + 1}


def encode_number(number: int) -> bytes:
    return encode_event("response.queued", {"type": "response.queued", "sequence_number": number})


def test_a_response_deleted_under_its_reader(ask: Ask, client: FlaskClient, backend: ScriptedBackend) -> None:
    """The turn ends, and so does the stream, with an error: there is no response left to tell of."""
    go_on = threading.Event()

    def play() -> Iterator[Step]:
        yield say("Hel")
        while not go_on.wait(0.01):
            yield [Tick(0)]

    backend.script = Anew(play)
    url = f"/v1/responses/{ask(background=True).get_json()['id']}"
    wait_until(lambda: client.get(url).get_json()["status"] == "in_progress")
    reading = client.get(f"{url}?stream=true", buffered=False)
    chunks = iter(reading.response)
    first = next(chunks)
    assert client.delete(url).status_code == 200
    last = read_events(first + b"".join(chunks))[-1]
    assert (last["type"], last["code"]) == ("error", "response_not_found")
    assert wait_until(lambda: backend.turns[0].closes) == 1


def test_a_background_response_insists_on_being_stored(
    ask: Ask, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path, logged: list[Any]
) -> None:
    """Who polls learns of the end from the store alone; its events too are kept once it is back."""
    go_on = threading.Event()
    backend.script = Anew(lambda: iter([say("Hel"), *([[]] if go_on.wait(5) else []), say("lo") + end()]))
    queued = ask(background=True).get_json()
    url = f"/v1/responses/{queued['id']}"
    wait_until(lambda: client.get(url).get_json()["status"] == "in_progress")
    with without_folder(tmp_path / "responses"):
        go_on.set()
        wait_until(lambda: any("wait for the store" in record.getMessage() for record in logged))
        assert wait_until(lambda: backend.turns[0].closes)  # its process does not wait for the store
    wait_until(lambda: client.get(url).get_json()["status"] == "completed")
    events = read_events(client.get(f"{url}?stream=true").data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"
