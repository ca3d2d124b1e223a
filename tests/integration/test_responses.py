"""/v1/responses through the real codex, the real server and the official client."""

import json
import os
import pathlib
import signal
from typing import Any

import openai
import pydantic
import pytest
import requests
from openai.types.responses import Response, ResponseStreamEvent

from tests.integration.conftest import build_client, call_by_text, call_native
from tests.support.gateway import Gateway, run_gateway, wait_until, write_provider, write_stand_in
from tests.support.scripted_model import ScriptedModel
from tests.support.sse import read_events

pytestmark = pytest.mark.real

EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)


class Weather(pydantic.BaseModel):
    city: str


PARAMETERS = Weather.model_json_schema() | {"additionalProperties": False}
TOOLS: Any = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Tells.",
        "parameters": PARAMETERS,
        "strict": True,
    }
]
ARGUMENTS = '{"city":  "東京 🗼"}'


@pytest.fixture(params=["native", "sentinel"])
def served(request: pytest.FixtureRequest, gateway: Gateway, by_text: Gateway) -> tuple[Gateway, str]:
    """A gateway, and a question that has the model call a tool there, and then tell its result."""
    is_native = request.param == "native"
    call = (call_native if is_native else call_by_text)("get_weather", ARGUMENTS)
    script = [{"think": ["Hm."]}, {"say": ["Look. "]}, call]
    return gateway if is_native else by_text, json.dumps(script)


def find_call(response: Response) -> Any:
    return next(item for item in response.output if item.type == "function_call")


def answer(call: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}


def test_tool_rounds(served: tuple[Gateway, str]) -> None:
    """Calls with their own ids (D1), then a follow-up by id, and one that echoes the output (D3)."""
    client, question = build_client(served[0]), served[1]
    first = client.responses.create(
        model="scripted-model", input=question, tools=TOOLS, reasoning={"summary": "auto"}
    )
    assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
    call = find_call(first)
    assert (call.name, call.arguments, call.call_id) == ("get_weather", ARGUMENTS, call.id)
    by_id = client.responses.create(
        model="scripted-model", previous_response_id=first.id, input=[answer(call)], tools=TOOLS
    )
    echoed: Any = [{"role": "user", "content": question}, *[item.to_dict() for item in first.output]]
    by_echo = client.responses.create(model="scripted-model", input=[*echoed, answer(call)], tools=TOOLS)
    for response in (by_id, by_echo):
        assert "21 degrees" in response.output_text
    listed = [item.type for item in client.responses.input_items.list(by_id.id, order="asc")]
    assert (listed[0], listed[-2:]) == ("message", ["function_call", "function_call_output"])


def test_the_stream_helper(served: tuple[Gateway, str]) -> None:
    client, question = build_client(served[0]), served[1]
    with client.responses.stream(model="scripted-model", input=question, tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    assert kinds[-1] == "response.completed"
    assert find_call(final).arguments == ARGUMENTS


def test_every_event_is_one_of_the_sdk_s(served: tuple[Gateway, str]) -> None:
    """Validated by the SDK's own types, strictly."""
    gateway, question = served
    body = {"model": "scripted-model", "input": question, "tools": TOOLS, "stream": True}
    streamed = requests.post(f"{gateway.base_url}/v1/responses", json=body, timeout=30)
    events = read_events(streamed.content)
    assert [EVENT.validate_python(event, strict=True).type for event in events] == [
        event["type"] for event in events
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    stored = build_client(gateway).responses.retrieve(events[-1]["response"]["id"])
    assert stored.to_dict() == events[-1]["response"]


def test_parsed_answers_and_tools(gateway: Gateway) -> None:
    """The SDK's own way to strict tools and formats: a class for each."""
    client = build_client(gateway)
    tool: Any = openai.pydantic_function_tool(Weather, name="get_weather")
    script = json.dumps([call_native("get_weather", ARGUMENTS)])
    called = client.responses.parse(model="scripted-model", input=script, tools=[tool])
    assert find_call(called).parsed_arguments == Weather(city="東京 🗼")
    script = json.dumps([{"say": [ARGUMENTS]}])
    told = client.responses.parse(model="scripted-model", input=script, text_format=Weather)
    assert told.output_parsed == Weather(city="東京 🗼")


def test_background(gateway: Gateway) -> None:
    client = build_client(gateway)
    queued = client.responses.create(model="demo", input="Hello", background=True)
    assert queued.status == "queued"
    done = wait_until(lambda: (found := client.responses.retrieve(queued.id)).status == "completed" and found)
    assert "Hello" in done.output_text
    again = list(client.responses.retrieve(queued.id, stream=True, starting_after=2))
    assert (again[0].sequence_number, again[-1].type) == (3, "response.completed")


def test_background_is_cancelled(gateway: Gateway, model: ScriptedModel) -> None:
    client = build_client(gateway)
    script = json.dumps([{"say": ["one"]}, {"wait": 30}])
    running = client.responses.create(model="scripted-model", input=script, background=True)
    wait_until(lambda: client.responses.retrieve(running.id).status == "in_progress")
    assert client.responses.cancel(running.id).status == "cancelled"
    assert client.responses.retrieve(running.id).status == "cancelled"


def test_a_background_response_may_end_at_a_restart(tmp_path: pathlib.Path) -> None:
    """It has the time that a stream has: one that ends by then is complete, another has failed."""
    binary = write_stand_in(tmp_path)
    scripts = [[{"say": ["a"]}, {"wait": 2}, {"say": ["b"]}], [{"say": ["a"]}, {"hang": True}]]
    with run_gateway(tmp_path, CODEX_BIN=binary, PROXY_GRACEFUL_TIMEOUT_MS="9000") as gateway:
        client = build_client(gateway)
        ids = [
            client.responses.create(model="scripted-model", input=json.dumps(script), background=True).id
            for script in scripts
        ]
        wait_until(lambda: all(client.responses.retrieve(each).status == "in_progress" for each in ids))
        gateway.stop()
    with run_gateway(tmp_path, CODEX_BIN=binary) as gateway:
        client = build_client(gateway)
        ended, failed = (client.responses.retrieve(each) for each in ids)
        assert (ended.status, ended.output_text) == ("completed", "ab")
        assert (failed.status, failed.error and failed.error.message) == (
            "failed",
            "The gateway is stopping; try again.",
        )


def test_what_upstream_is_given_back(gateway: Gateway, model: ScriptedModel) -> None:
    """Reasoning goes back to the model as it came, and so does every item, key by key."""
    echoed: Any = [
        {"role": "user", "content": "Hm?", "odd": 1},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "odd": {"a": 1}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]},
        {"role": "user", "content": "hello"},
    ]
    build_client(gateway).responses.create(model="scripted-model", input=echoed)
    told = [item for item in model.requests[-1]["input"] if item["type"] != "message" or item["content"]]
    assert [item["type"] for item in told] == ["message", "reasoning", "message", "message"]
    assert (told[1]["encrypted_content"], "odd" in told[1]) == ("gAAA", False)


def test_web_search_is_on_only_where_it_is_allowed(tmp_path: pathlib.Path, model: ScriptedModel) -> None:
    provider = write_provider(tmp_path, model.base_url)
    search: Any = {"type": "web_search"}
    with run_gateway(tmp_path, PROXY_CODEX_CONFIG_FILE=provider, PROXY_ALLOW_WEB_SEARCH="true") as allowing:
        client = build_client(allowing)
        for tools, expected in (
            ([search], ["web_search"]),
            ([], []),
            ([search, *TOOLS], ["function", "web_search"]),
            (TOOLS, ["function"]),
        ):
            client.responses.create(model="scripted-model", input="hello", tools=tools)
            assert sorted(tool["type"] for tool in model.requests[-1].get("tools", ())) == expected
        action = {"type": "search", "query": "sky", "queries": ["sky", "colour"]}
        script = json.dumps([{"search": action}, {"say": ["Blue."]}])
        found = client.responses.create(model="scripted-model", input=script, tools=[search])
        assert [item.type for item in found.output] == ["web_search_call", "message"]
        assert found.output[0].to_dict()["action"] == action


def test_workers_share_what_is_stored(tmp_path: pathlib.Path) -> None:
    """Whichever worker a connection comes to: it can go on, tell of, and stop what another one made."""
    binary = write_stand_in(tmp_path)
    with run_gateway(tmp_path, CODEX_BIN=binary, WEB_CONCURRENCY="2", PROXY_WARM_PROCESSES="1") as gateway:
        url = f"{gateway.base_url}/v1/responses"
        running = json.dumps([{"say": ["a"]}, {"hang": True}])

        def ask(**request: Any) -> dict[str, Any]:
            body: dict[str, Any] = requests.post(
                url, json={"model": "scripted-model"} | request, timeout=30
            ).json()
            return body

        last = ask(input="0")
        for number in range(1, 8):
            last = ask(input=f"{number}", previous_response_id=last["id"])
            job = ask(input=running, background=True)
            events = requests.get(f"{url}/{job['id']}?stream=true", stream=True, timeout=30).iter_lines()
            assert next(events) == b"event: response.created"
            ended = requests.post(f"{url}/{job['id']}/cancel", timeout=30).json()
            assert (ended["status"], b"event: response.failed" in list(events)) == ("cancelled", True)
        told = requests.get(f"{url}/{last['id']}/input_items?order=asc", timeout=30).json()["data"]
        asked = [item["content"][0]["text"] for item in told if item["role"] == "user"]
        assert asked == [f"{number}" for number in range(8)]


def test_a_killed_worker_loses_nothing_that_was_complete(tmp_path: pathlib.Path) -> None:
    """After `kill -9` what was reported complete is there, and what was under way has failed."""
    binary = write_stand_in(tmp_path)
    with run_gateway(tmp_path, CODEX_BIN=binary, PROXY_WARM_PROCESSES="1") as gateway:
        client = build_client(gateway)
        done = client.responses.create(model="scripted-model", input="hello")
        body = {"model": "scripted-model", "input": json.dumps([{"say": ["a"]}, {"hang": True}])}
        url = f"{gateway.base_url}/v1/responses"
        streamed = requests.post(url, json=body | {"stream": True}, timeout=30, stream=True)
        begun = read_events(next(streamed.iter_content(None)))[0]["response"]["id"]
        queued = requests.post(url, json=body | {"background": True}, timeout=30).json()["id"]
        (worker,) = gateway.worker_pids
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: gateway.worker_pids - {worker}, 20)
        gateway.wait_ready()
        found = [client.responses.retrieve(each) for each in (done.id, begun, queued)]
        assert found[0].to_dict() == done.to_dict()
        assert [response.status for response in found] == ["completed", "failed", "failed"]
