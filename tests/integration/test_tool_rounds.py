"""Tool conversations through the real codex, the real server and the official client, by both transports."""

import json
import pathlib
import re
import socket
from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.integration.conftest import build_client, call_by_text, call_native
from tests.support.gateway import Gateway, run_gateway, wait_until, write_provider
from tests.support.scripted_model import ScriptedModel
from tests.support.sse import read_frames

pytestmark = pytest.mark.real

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
# Codex takes no dot in a name, and has a tool of the other's: both travel under aliases.
NAMES = ("weather.now", "apply_patch")
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "Tells.", "parameters": PARAMETERS}}
    for name in NAMES
]
PARIS, TOKYO = '{"city":  "Paris"}', '{"city":"東京 🗼"}'


Call = Callable[[str, str], dict[str, Any]]


@pytest.fixture(params=["native", "sentinel"])
def served(
    request: pytest.FixtureRequest, gateway: Gateway, by_text: Gateway, model: ScriptedModel
) -> tuple[Gateway, str, Call]:
    """A gateway, its transport, and how the model calls a tool there."""
    if request.param == "native":
        # What the model calls them is told upstream.
        gateway.chat("hello", tools=TOOLS)
        told = [tool["name"] for tool in model.requests[-1]["tools"]]
        names = dict(zip(NAMES, told, strict=True))
        return gateway, request.param, lambda name, text: call_native(names[name], text)
    return by_text, request.param, call_by_text


Ask = Callable[[openai.OpenAI, dict[str, Any]], Any]


def create(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    return client.chat.completions.create(**request).choices[0]


def use_stream_helper(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    with client.chat.completions.stream(**request) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion().choices[0]


def fold_raw_stream(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    state = openai.lib.streaming.chat.ChatCompletionStreamState()
    for chunk in client.chat.completions.create(**request, stream=True):
        state.handle_chunk(chunk)
    return state.get_final_completion().choices[0]


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(create, id="create"),
        pytest.param(use_stream_helper, id="stream-helper"),
        pytest.param(fold_raw_stream, id="raw-stream"),
    ],
)
def test_two_rounds(served: tuple[Gateway, str, Call], model: ScriptedModel, ask: Ask) -> None:
    """A batch of two calls, then one more call, then the answer; every result reaches the model as it was."""
    gateway, transport, call = served
    second = [{"think": ["Once more."]}, call("apply_patch", "{}"), {"then": [{"say": ["It is ", "sunny."]}]}]
    script = [call("weather.now", PARIS), call("weather.now", TOKYO), {"then": second}]
    client = build_client(gateway)
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": json.dumps(script)},
    ]
    told = []
    for result in ("18 °C", "日本語 🎌"):
        choice = ask(client, {"model": "scripted-model", "messages": messages, "tools": TOOLS})
        calls = choice.message.tool_calls
        told.append((choice.finish_reason, [(each.function.name, each.function.arguments) for each in calls]))
        messages.append(choice.message.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": each.id, "content": result} for each in calls]
    final = ask(client, {"model": "scripted-model", "messages": messages, "tools": TOOLS})
    assert told == [
        ("tool_calls", [("weather.now", PARIS), ("weather.now", TOKYO)]),
        ("tool_calls", [("apply_patch", "{}")]),
    ]
    assert (final.message.content, final.finish_reason) == ("It is sunny.", "stop")
    check_history(model.requests[-1], transport)


def check_history(upstream: dict[str, Any], transport: str) -> None:
    """What the model saw last: structured and paired by native transport, told in order by text."""
    items = [item for item in upstream["input"] if item.get("role") != "developer"][1:]
    if transport == "sentinel":
        check_told_history(items)
        assert not upstream.get("tools")
        return
    kinds = [item["type"] for item in items]
    assert kinds == ["function_call"] * 2 + ["function_call_output"] * 2 + [
        "reasoning",  # the turn went on, so it is kept
        "function_call",
        "function_call_output",
    ]
    assert [item["arguments"] for item in items if "arguments" in item] == [PARIS, TOKYO, "{}"]
    assert [item["output"] for item in items if "output" in item] == ["18 °C", "18 °C", "日本語 🎌"]
    ids = [item["call_id"] for item in items if "call_id" in item]
    assert ids == [*ids[:2], *ids[:2], ids[4], ids[4]]


def check_told_history(items: list[dict[str, Any]]) -> None:
    texts = ["".join(part["text"] for part in item["content"]) for item in items]
    ids = re.findall(r" call_id=(\S+) ", " ".join(texts))
    one, two, three = ids[0], ids[1], ids[4]
    assert len({one, two, three}) == 3
    assert texts == [
        f"[function_call id={one} call_id={one} name=weather.now arguments={PARIS}]",
        f"[function_call id={two} call_id={two} name=weather.now arguments={TOKYO}]",
        f"[function_call_output call_id={one} output=18 °C]",
        f"[function_call_output call_id={two} output=18 °C]",
        f"[function_call id={three} call_id={three} name=apply_patch arguments={{}}]",
        f"[function_call_output call_id={three} output=日本語 🎌]",
    ]
    roles = ["assistant"] * 2 + ["user"] * 2 + ["assistant", "user"]
    assert [item["role"] for item in items] == roles


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_an_image_in_a_result_reaches_the_model(gateway: Gateway, model: ScriptedModel) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "show", "arguments": "{}"}}
    parts = [{"type": "text", "text": "Here."}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    messages = [
        {"role": "user", "content": "Show me."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "show", "content": parts},
    ]
    assert gateway.chat("", messages=messages).status_code == 200
    [output] = [item["output"] for item in model.requests[-1]["input"] if "output" in item]
    assert [(part["type"], part.get("text") or part.get("image_url")) for part in output] == [
        ("input_text", "Here."),
        ("input_image", PIXEL),
    ]


@pytest.mark.parametrize(
    "choice",
    [pytest.param({"type": "function", "function": {"name": "apply_patch"}}, id="named"), "required"],
)
def test_a_demanded_call_is_made(gateway: Gateway, model: ScriptedModel, choice: Any) -> None:
    """The answer is held to the tool's own schema, and delivered as its call."""
    call = {"name": "apply_patch", "arguments": {"city": "Paris"}}
    answer = json.dumps({"calls": [call]}) if choice == "required" else PARIS
    response = gateway.chat([{"say": [answer[:5], answer[5:]]}], tools=TOOLS, tool_choice=choice).json()
    [told] = response["choices"]
    [call] = told["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
        "apply_patch",
        {"city": "Paris"},
    )
    assert (told["message"]["content"], told["finish_reason"]) == (None, "tool_calls")
    assert model.requests[-1]["text"]["format"]["type"] == "json_schema"
    assert not model.requests[-1].get("tools")


def test_a_demanded_call_is_asked_for_again(gateway: Gateway, model: ScriptedModel) -> None:
    """Two more chances on the same thread, unseen; then the contract's error."""
    before = len(model.requests)
    tools = [{"type": "function", "function": TOOLS[0]["function"] | {"strict": True}}]
    response = gateway.chat([{"say": ['{"city": 7}']}], tools=tools, tool_choice="required")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "invalid_tool_call")
    assert response.headers["x-should-retry"] == "false"
    asked = model.requests[before:]
    assert len(asked) == 3
    assert len({request["prompt_cache_key"] for request in asked}) == 1


def test_strict_calls_are_corrected_unseen(gateway: Gateway, model: ScriptedModel) -> None:
    """Contract §1: the batch goes back inside the turn, and only what holds is shown."""
    before = len(model.requests)
    tools = [
        {"type": "function", "function": {"name": "look", "parameters": PARAMETERS, "strict": True}},
        {"type": "function", "function": {"name": "find", "parameters": PARAMETERS}},
    ]
    good = [call_native("look", PARIS), call_native("find", TOKYO)]
    script = [call_native("look", '{"city": 7}'), call_native("find", TOKYO), {"then": good}]
    frames = read_frames(gateway.chat(script, tools=tools, stream=True).content)
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert [call["function"]["name"] for call in calls if "id" in call] == ["look", "find"]
    assert [call["function"]["arguments"] for call in calls if "id" not in call] == [PARIS, TOKYO]
    first, second = model.requests[before:]
    outputs = [item["output"] for item in second["input"] if "output" in item]
    assert ["city" in outputs[0], "not run" in outputs[1]] == [True, True]
    assert first["prompt_cache_key"] == second["prompt_cache_key"]


def test_strict_calls_that_stay_wrong(gateway: Gateway, model: ScriptedModel) -> None:
    before = len(model.requests)
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS, "strict": True}}]
    bad = call_native("look", '{"city": 7}')
    script = [bad, {"then": [bad, {"then": [bad, {"then": [{"say": ["never"]}]}]}]}]
    response = gateway.chat(script, tools=tools)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "invalid_tool_call")
    assert len(model.requests[before:]) == 3


def test_a_batch_of_which_one_call_is_wanted_is_corrected(gateway: Gateway) -> None:
    """Every question of codex's is answered, also about calls nobody will see."""
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS, "strict": True}}]
    bad, good = call_native("look", '{"city": 7}'), call_native("look", PARIS)
    response = gateway.chat([bad, good, {"then": [good]}], tools=tools, parallel_tool_calls=False)
    [call] = response.json()["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == PARIS


def test_a_result_of_six_megabytes_is_not_cut(gateway: Gateway, model: ScriptedModel) -> None:
    result = "0123456789abcde\n" * 400_000
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    assert gateway.chat("", messages=messages).status_code == 200
    [output] = [item["output"] for item in model.requests[-1]["input"] if "output" in item]
    assert output == result


def test_text_behind_a_call_may_be_cut_but_not_the_call(gateway: Gateway) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    script = [call_native("look", PARIS), {"say": ["behind STOP it"]}]
    [choice] = gateway.chat(script, tools=tools, stop="STOP").json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("behind ", "tool_calls")
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == PARIS


def test_two_calls_of_one_id_are_two(gateway: Gateway) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    script = [{"call": {"name": "look", "arguments": text, "call_id": "same"}} for text in (PARIS, TOKYO)]
    body = gateway.chat(script, tools=tools).json()
    calls = body["choices"][0]["message"]["tool_calls"]
    frames = read_frames(gateway.chat(script, tools=tools, stream=True).content)
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    streamed = [call for delta in deltas for call in delta.get("tool_calls", ()) if "id" not in call]
    assert [call["function"]["arguments"] for call in calls] == [PARIS, TOKYO]
    assert [call["function"]["arguments"] for call in streamed] == [PARIS, TOKYO]


def test_every_choice_has_calls_of_its_own(gateway: Gateway) -> None:
    """Story 2.9 AC 16: three threads on one pipe."""
    script = [call_native("look", PARIS)]
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    body = gateway.chat(script, tools=tools, n=3).json()
    ids = [choice["message"]["tool_calls"][0]["id"] for choice in body["choices"]]
    assert [id_.rsplit("_", 1)[0] for id_ in ids] == ["tool_0_0", "tool_1_0", "tool_2_0"]


def test_two_hundred_calls(gateway: Gateway) -> None:
    texts = [json.dumps({"city": f"東京 {number} 🗼"}, ensure_ascii=False) for number in range(200)]
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    body = gateway.chat([call_native("look", text) for text in texts], tools=tools).json()
    calls = body["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == texts


def test_five_megabytes_of_arguments(gateway: Gateway) -> None:
    """Intact to the last byte."""
    text = json.dumps({"city": f"{'a' * 60} 🎹日" * 76_000}, ensure_ascii=False)
    assert len(text.encode()) > 5_000_000
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    body = gateway.chat([call_native("look", text)], tools=tools).json()
    [call] = body["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == text


def test_stop_ends_the_turn(gateway: Gateway, model: ScriptedModel) -> None:
    """The cut reaches the model; the process lives on."""
    before, pids = model.closed_early, gateway.codex_pids
    script = [{"say": ["one two EN", "D three"]}, {"say": ["tail "] * 600, "pause_s": 0.05}]
    [choice] = gateway.chat(script, stop=["END"]).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two ", "stop")
    assert model.wait_for(lambda scripted: scripted.closed_early > before, 2)
    assert gateway.codex_pids >= pids


def test_a_codex_that_refuses_tools_is_told_them_as_text(
    stand_in: Callable[..., Gateway],
) -> None:
    gateway = stand_in({"refuse_tools": True})
    tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
    [choice] = gateway.chat([call_by_text("look", PARIS)], tools=tools).json()["choices"]
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": PARIS}


def open_stream(gateway: Gateway, script: Any) -> socket.socket:
    """A client on a plain socket, reading nothing yet."""
    messages = [
        {"role": "system", "content": "Use <use_tool> blocks."},
        {"role": "user", "content": json.dumps(script)},
    ]
    body = json.dumps({"model": "scripted-model", "stream": True, "messages": messages}).encode()
    host, port = gateway.base_url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), 10)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return client


@pytest.mark.parametrize("kill", [pytest.param(False, id="interrupted"), pytest.param(True, id="killed")])
def test_a_client_that_leaves_inside_a_block(
    tmp_path: pathlib.Path, model: ScriptedModel, kill: bool
) -> None:
    """Story 2.9 AC 17, story 2.12 AC 2: the turn ends, what was held is counted, the process lives or not."""
    provider = write_provider(tmp_path, model.base_url)
    with run_gateway(
        tmp_path,
        PROXY_CODEX_CONFIG_FILE=provider,
        PROXY_WARM_PROCESSES="1",
        PROXY_KILL_ON_DISCONNECT=str(kill).lower(),
    ) as gateway:
        before, pids = model.closed_early, gateway.codex_pids
        script = [{"say": ["Hello ", "<use_tool><name>", *["x "] * 600], "pause_s": 0.05}]
        client = open_stream(gateway, script)
        received = b""
        while b"Hello" not in received:
            received += client.recv(65536)
        client.close()
        assert model.wait_for(lambda scripted: scripted.closed_early > before, 5)
        [line] = wait_until(lambda: [each for each in gateway.lines() if each.get("error")])
        assert (line["error"], line["tool_buffer_aborted.use_tool.client_left"]) == (
            "client_closed_request",
            1,
        )
        if kill:
            wait_until(lambda: not pids & gateway.codex_pids)
        else:  # the line is written once the process was given back
            assert pids <= gateway.codex_pids
