"""Chat completions through the real codex binary and the real server."""

import json
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
import requests

from tests.integration.conftest import build_client
from tests.support.gateway import Gateway, run_gateway, wait_until, write_provider
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def ask(gateway: Gateway, script: Any, **more: Any) -> dict[str, Any]:
    response = gateway.chat(script, **more)
    assert response.status_code == 200, response.text
    return response.json()


def test_streams_to_the_official_client(gateway: Gateway) -> None:
    script = json.dumps([{"think": ["Let me ", "see."]}, {"say": ["The ", "answer ", "is 42."]}])
    with build_client(gateway).chat.completions.stream(
        model="scripted-model",
        messages=[{"role": "user", "content": script}],
        stream_options={"include_usage": True},
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert deltas == ["", "The ", "answer ", "is 42."]
    assert final.choices[0].message.content == "The answer is 42."
    assert final.choices[0].finish_reason == "stop"
    assert final.usage is not None
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == (120, 20)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([{"say": ["Hello", " ", "Wörld 👋🏽"]}], id="text"),
        pytest.param([{"think": ["a", "b"]}, {"say": ["c"]}], id="reasoning"),
        pytest.param([{"say_whole": "no delta came"}], id="no-delta"),
        pytest.param([{"say": ["one"]}, {"say": ["two"]}], id="two-messages"),
        pytest.param([{"say": ["cut"]}, {"incomplete": "max_output_tokens"}], id="length"),
        pytest.param([{"usage": {"input_tokens": 7, "output_tokens": 3}}, {"say": ["x"]}], id="usage"),
        pytest.param([{"think": ["only thought"]}], id="nothing-visible"),
    ],
)
def test_stream_folds_to_the_body(gateway: Gateway, script: list[dict[str, Any]]) -> None:
    """Parity: what the SDK makes of the stream is what the non-stream body says."""
    request: dict[str, Any] = {
        "model": "scripted-model",
        "messages": [{"role": "user", "content": json.dumps(script)}],
    }
    client = build_client(gateway)
    body = client.chat.completions.create(**request)
    folded = fold_stream(client, request)
    expected, seen = body.choices[0], folded.choices[0]
    assert (seen.message.content or "", seen.finish_reason, folded.usage) == (
        expected.message.content,
        expected.finish_reason,
        body.usage,
    )
    assert getattr(seen.message, "reasoning_content", None) == getattr(
        expected.message, "reasoning_content", None
    )


def fold_stream(client: openai.OpenAI, request: dict[str, Any]) -> Any:
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        try:
            return stream.get_final_completion()
        except openai.LengthFinishReasonError as error:  # how the SDK hands out what was cut
            return error.completion


def test_the_model_sees_the_clients_words_and_nothing_else(gateway: Gateway, model: ScriptedModel) -> None:
    messages = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "un"},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": PIXEL}},
                {"type": "text", "text": '[{"say": ["deux"]}]'},
            ],
        },
    ]
    answer = ask(gateway, "", messages=messages, reasoning_effort="low")
    assert answer["choices"][0]["message"]["content"] == "deux"
    upstream = model.requests[-1]
    seen = [(item["role"], [strip(part) for part in item["content"]]) for item in upstream["input"]]
    assert seen == [
        ("developer", [{"type": "input_text", "text": "Answer in French."}]),
        ("user", [{"type": "input_text", "text": "one"}]),
        ("assistant", [{"type": "output_text", "text": "un"}]),
        ("developer", [{"type": "input_text", "text": "Be brief."}]),
        (
            "user",
            [
                {"type": "input_image", "image_url": PIXEL},
                {"type": "input_text", "text": '[{"say": ["deux"]}]'},
            ],
        ),
    ]
    assert not upstream.get("tools")
    assert not upstream.get("instructions")
    assert upstream["reasoning"]["effort"] == "low"


def strip(part: dict[str, Any]) -> dict[str, Any]:
    """Without what codex adds to an image on its own."""
    return {key: part[key] for key in ("type", "text", "image_url") if key in part}


@pytest.mark.parametrize("model_id", ["gpt-5.5", "gpt-6.1-sol"])
def test_no_model_of_the_catalogue_brings_tools(
    gateway: Gateway, model: ScriptedModel, model_id: str
) -> None:
    ask(gateway, "hi", model=model_id)
    assert not model.requests[-1].get("tools")
    assert [item["role"] for item in model.requests[-1]["input"]] == ["user"]


def test_history_of_500_messages_arrives_in_order(gateway: Gateway, model: ScriptedModel) -> None:
    """1 MB in one write, with the turn's start right behind it."""
    texts = [f"{number} " + "x" * 2000 for number in range(500)]
    history = [
        {"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)
    ]
    ask(gateway, "", messages=[*history, {"role": "user", "content": "go"}])
    assert [item["content"][0]["text"] for item in model.requests[-1]["input"]] == [*texts, "go"]


def test_choices_are_threads_on_one_pipe(gateway: Gateway) -> None:
    body = ask(gateway, [{"say": ["a", "b"]}], n=3)
    assert [(c["index"], c["message"]["content"]) for c in body["choices"]] == [
        (0, "ab"),
        (1, "ab"),
        (2, "ab"),
    ]
    assert body["usage"]["completion_tokens"] == 60


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        pytest.param({"http": 401, "error": {"message": "bad"}}, 502, "upstream_unauthorized", id="login"),
        pytest.param({"http": 404, "error": {"message": "no"}}, 404, "model_not_found", id="model"),
        pytest.param({"http": 429, "error": {"message": "slow"}}, 429, "rate_limit_exceeded", id="rate"),
        pytest.param(
            {"http": 429, "error": {"type": "usage_limit_reached", "message": "used up"}},
            429,
            "insufficient_quota",
            id="quota",
        ),
        pytest.param({"http": 503, "error": {"message": "busy"}}, 503, "backend_unavailable", id="busy"),
        pytest.param(
            {"http": 400, "error": {"message": "Bad x", "type": "invalid_request_error", "code": "bad_x"}},
            400,
            "bad_x",
            id="bad-request",
        ),
        pytest.param(
            {"fail": {"code": "context_length_exceeded", "message": "too long"}},
            400,
            "context_length_exceeded",
            id="context",
        ),
    ],
)
def test_upstream_errors_are_real_statuses(
    gateway: Gateway, script: dict[str, Any], status: int, code: str, stream: bool
) -> None:
    response = gateway.chat([script], stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert "127.0.0.1" not in response.text
    assert ("retry-after" in response.headers) == (status in (429, 503))


def test_upstream_that_drops_after_text_ends_in_an_error(gateway: Gateway) -> None:
    frames = gateway.chat([{"say": ["part"]}, {"wait": 0.5}, {"drop": 1}], stream=True).text.split("\n\n")
    assert frames.count("data: [DONE]") == 1
    assert frames[-3].startswith('data: {"error":')
    assert sum('"content":"part"' in frame for frame in frames) == 1


def test_unknown_models_are_404(gateway: Gateway, model: ScriptedModel) -> None:
    before = len(model.requests)
    response = gateway.chat("hi", model="gpt-nope", stream=True)
    assert (response.status_code, response.json()["error"]["param"]) == (404, "model")
    assert len(model.requests) == before


def test_models_list_codex_configuration_and_demo(gateway: Gateway) -> None:
    owners = {model.id: model.owned_by for model in build_client(gateway).models.list()}
    assert owners["demo"] == "codex-gateway-demo"
    assert owners["scripted-model"] == "codex-gateway"
    assert owners["gpt-5.5"] == "openai"
    assert build_client(gateway).models.retrieve("gpt-5.5-low").id == "gpt-5.5-low"


def test_demo_answers_through_the_real_codex(gateway: Gateway) -> None:
    body = ask(gateway, "say exactly: bonjour", model="demo")
    assert body["choices"][0]["message"]["content"] == "bonjour"


def test_a_stopped_stream_stops_the_model(gateway: Gateway, model: ScriptedModel) -> None:
    """The turn is interrupted within two seconds; the process lives on."""
    before, pids = model.closed_early, gateway.codex_pids
    response = gateway.chat([{"say": ["w "] * 600, "pause_s": 0.05}], stream=True)
    next(response.iter_lines())
    response.close()
    assert model.wait_for(lambda scripted: scripted.closed_early > before, 2)
    assert ask(gateway, "still there?")["choices"][0]["message"]["content"] == "echo: still there?"
    assert gateway.codex_pids >= pids


def test_no_login_is_told_at_once(tmp_path: pathlib.Path) -> None:
    with run_gateway(tmp_path, PROXY_DEMO="true") as gateway:
        response = gateway.chat("hi", model="gpt-5.5", stream=True)
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unauthorized")
        assert "make login" in response.json()["error"]["message"]
        assert response.headers["x-should-retry"] == "false"
        assert ask(gateway, "say exactly: hi", model="demo")["choices"][0]["message"]["content"] == "hi"


def test_six_processes_boot_at_once_and_keep_nothing(tmp_path: pathlib.Path, model: ScriptedModel) -> None:
    """On an empty state folder; a client's words are in no file of codex's afterwards."""
    provider = write_provider(tmp_path, model.base_url)
    nonces = [f"nonce-{number}-{'z' * 12}" for number in range(6)]
    with run_gateway(
        tmp_path, PROXY_CODEX_CONFIG_FILE=provider, PROXY_WARM_PROCESSES="0", ready=False
    ) as gateway:
        gateway.wait_listening()

        def converse(nonce: str) -> str:
            history = [
                {"role": "system", "content": f"system {nonce}"},
                {"role": "user", "content": f"history {nonce}"},
                {"role": "assistant", "content": f"answer {nonce}"},
            ]
            script = json.dumps([{"wait": 1}, {"say": [f"reply {nonce}"]}])
            body = ask(gateway, "", messages=[*history, {"role": "user", "content": script}])
            return str(body["choices"][0]["message"]["content"])

        with ThreadPoolExecutor(6) as executor:
            assert list(executor.map(converse, nonces)) == [f"reply {nonce}" for nonce in nonces]
        assert len(gateway.codex_pids) == 6
        gateway.stop()
    files = [path for path in gateway.state_dir.rglob("*") if path.is_file()]
    assert files
    leaks = [path for path in files if any(nonce.encode() in path.read_bytes() for nonce in nonces)]
    assert leaks == []
    assert list((gateway.state_dir / "processes").iterdir()) == []
    assert gateway.state_dir.stat().st_mode & 0o777 == 0o700


def test_bad_input_costs_codex_nothing(gateway: Gateway, model: ScriptedModel) -> None:
    before = len(model.requests)
    url, headers = f"{gateway.base_url}/v1/chat/completions", {"content-type": "application/json"}
    too_big = b'{"model": "x", "messages": [{"role": "user", "content": "' + b"x" * 20_000_000 + b'"}]}'
    bodies = {b"": 400, b"{": 400, b"[]": 400, b'{"a": "\xff"}': 400, b'{"a": "\\ud800"}': 400, too_big: 413}
    seen = [requests.post(url, data=data, headers=headers, timeout=30) for data in bodies]
    assert [response.status_code for response in seen] == list(bodies.values())
    assert all(set(response.json()["error"]) == {"message", "type", "param", "code"} for response in seen)
    assert len(model.requests) == before
    wait_until(lambda: any(line.get("status") == 413 for line in gateway.lines()))
