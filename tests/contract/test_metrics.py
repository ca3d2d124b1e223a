"""GET /metrics, and the counters that tests may read and reset."""

from __future__ import annotations

import pathlib
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from app.handlers.meters import COUNTERS, GAUGES, TIMES
from app.lib.errors import BackendUnavailable
from app.lib.events import Placed
from app.lib.placement import Origin, Tier
from app.settings import Settings
from tests.contract.conftest import BODY, OBSIDIAN, Ask, Post, name_sample, without_folder
from tests.support.scripted_backend import ScriptedBackend, Step, call, end, say

ME, ADMIN = "sk-me-0123456789", "sk-admin-0123456789"
KEYED = Settings(api_keys=(ME,), admin_keys=(ADMIN,))
OPEN = Settings()
PROXIED = {"x-forwarded-for": "192.0.2.1"}
ANSWER = [say("Hi"), end()]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
BLOCK = "<use_tool><name>f</name></use_tool>"
TEXT_CALL = '<tool_call>{"name":"f","arguments":{"a":1,}}</tool_call>'

Samples = dict[str, float]


def read(client: FlaskClient) -> Samples:
    """Every series with its value, as Prometheus reads them; of the times how many there were."""
    response = client.get("/metrics", buffered=True)
    assert (response.status_code, response.content_type) == (200, CONTENT_TYPE_LATEST)
    return {
        name_sample(sample).removeprefix("codex_"): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created", "_sum"))
    }


def list_series(client: FlaskClient) -> set[str]:
    families = text_string_to_metric_families(client.get("/metrics", buffered=True).text)
    return {str((sample.name, sample.labels)) for family in families for sample in family.samples}


def test_every_metric_can_be_read(client: FlaskClient) -> None:
    """By Prometheus's own parser; each with words that say what it is."""
    families = text_string_to_metric_families(client.get("/metrics", buffered=True).text)
    told = [(family.name, family.type, family.documentation) for family in families]
    # The times of birth are told where no workers share.
    assert [each for each in told if not each[0].endswith("_created")] == [
        *((f"codex_{name}", "counter", about) for name, about, _ in COUNTERS),
        *((f"codex_{name}", "gauge", about) for name, about, _ in GAUGES),
        *((f"codex_{name}", "histogram", about) for name, about, _ in TIMES),
    ]


CHAT = "/v1/chat/completions"
ONE = {f"requests_total{{gpt-5.5,{CHAT},200}}": 1, f"request_seconds_count{{{CHAT}}}": 1}
TOLD = {f"first_token_seconds_count{{{CHAT}}}": 1}
USED = {
    "tokens_total{input,gpt-5.5}": 120,
    "tokens_total{cached,gpt-5.5}": 100,
    "tokens_total{output,gpt-5.5}": 20,
    "tokens_total{reasoning,gpt-5.5}": 5,
}


@pytest.mark.parametrize(
    ("script", "request_", "expected"),
    [
        pytest.param(ANSWER, {}, ONE | TOLD | USED, id="an-answer"),
        pytest.param(
            ANSWER,
            {"stream": True},
            ONE | TOLD | USED | {f"streams_total{{{CHAT}}}": 1, f"stream_frames_total{{{CHAT}}}": 4},
            id="a-stream",
        ),
        pytest.param(
            [BackendUnavailable("Gone.")],
            {},
            {
                f"requests_total{{gpt-5.5,{CHAT},503}}": 1,
                f"request_seconds_count{{{CHAT}}}": 1,
                f"errors_total{{backend_unavailable,{CHAT}}}": 1,
            },
            id="an-error",
        ),
        pytest.param(
            [[Placed(Tier.WARM, Origin.THREAD)], *ANSWER],
            {},
            ONE | TOLD | USED | {"continuations_total{thread,warm}": 1},
            id="a-continuation",
        ),
        pytest.param(
            [call("f", "{}"), end()],
            {"tools": TOOLS},
            ONE | TOLD | USED | {"tool_requests_total": 1, "tool_calls_total{native}": 1},
            id="a-call",
        ),
        pytest.param(
            [say("<use_tool><a", BLOCK), end()],
            {"headers": OBSIDIAN},
            ONE
            | TOLD
            | {
                "tool_calls_total{text}": 1,
                "tool_buffer_started_total{obsidian-xml,,use_tool}": 2,
                "tool_buffer_flushed_total{obsidian-xml,complete,use_tool}": 1,
                "tool_buffer_aborted_total{obsidian-xml,nested,use_tool}": 1,
            },
            id="blocks",
        ),
        pytest.param(
            [say(TEXT_CALL), end()],
            {"tools": TOOLS},
            ONE
            | TOLD
            | USED
            | {
                "tool_requests_total": 1,
                "tool_calls_total{text}": 1,
                "tool_notes_total{tool_arguments_repaired,,tool_call}": 1,
                "tool_buffer_started_total{openai-json,,tool_call}": 1,
                "tool_buffer_flushed_total{openai-json,complete,tool_call}": 1,
            },
            id="a-call-that-was-mended",
        ),
    ],
)
def test_what_a_request_is_counted_as(
    post: Post,
    client: FlaskClient,
    backend: ScriptedBackend,
    script: list[Step],
    request_: dict[str, Any],
    expected: Samples,
) -> None:
    backend.script = script
    before = read(client)
    post(**request_)
    after = read(client)
    assert {name: value - before.get(name, 0) for name, value in after.items() if value} == expected


def test_streams_under_way(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Whether they are read to their end or left."""
    backend.script = [say("a"), say("b"), end()]
    open_streams = []
    responses = [post(stream=True, buffered=False) for _ in range(2)]
    for act in (lambda: responses[0].data, responses[0].close, responses[1].close):
        open_streams.append(read(client)["streams_open"])
        act()
    assert [*open_streams, read(client)["streams_open"]] == [2, 2, 1, 0]


def test_a_background_response_is_one_request(
    app: flask.Flask, ask: Ask, client: FlaskClient, backend: ScriptedBackend
) -> None:
    backend.script = ANSWER
    ask(background=True)
    app.extensions["background"].wait(5)
    told = read(client)
    counts = told["requests_total{gpt-5.5,/v1/responses,200}"], told["request_seconds_count{/v1/responses}"]
    assert (counts, told["tokens_total{output,gpt-5.5}"]) == ((1, 1), 20)


def test_a_background_response_that_never_began_is_not_under_way(
    ask: Ask, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    backend.script = ANSWER
    ask()
    before = read(client)["requests_open"]
    with without_folder(tmp_path / "responses"):
        assert ask(background=True).status_code == 503
    assert read(client)["requests_open"] == before


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/metrics"])
def test_who_watches_is_not_counted(client: FlaskClient, path: str) -> None:
    before = read(client)
    client.get(path, buffered=True)
    client.options(CHAT, buffered=True)
    assert read(client) == before


def test_no_name_of_a_clients_is_a_label(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Two hundred of each, and not a series more than the first of each brought: labels have a bound."""
    backend.script = ANSWER
    counts = []
    for number in range(200):
        name = f"no-such-{number}"
        post(model=name, stream=number % 2 == 0, tools=[{"type": "function", "function": {"name": name}}])
        post(model=f"{name}-high")
        post(headers={"x-proxy-output-mode": name})
        post(tool_choice=name)
        client.get(f"/v1/{name}", buffered=True)
        client.get(f"/v1/models/{name}", buffered=True)
        client.get(f"/v1/responses/{name}", buffered=True)
        client.get(f"/v1/usage?group={name}", buffered=True)
        client.open(CHAT, method=f"NO-{number}", json=BODY, buffered=True)
        client.open("/v1/models", method=f"NO-{number}", buffered=True)
        client.get("/v1/models", headers={"authorization": f"Bearer {name}", "host": name}, buffered=True)
        if number in (1, 199):
            counts.append(list_series(client))
    assert counts[0] == counts[1]
    assert "no-such" not in str(counts)
    assert read(client)[f"requests_total{{other,{CHAT},200}}"] == 400


@pytest.mark.parametrize(
    ("gateway_settings", "headers", "status"),
    [
        pytest.param(KEYED, {}, 200, id="from-this-machine"),
        pytest.param(KEYED, PROXIED, 401, id="from-elsewhere"),
        pytest.param(KEYED, PROXIED | {"authorization": f"Bearer {ME}"}, 403, id="a-clients-key"),
        pytest.param(KEYED, PROXIED | {"authorization": f"Bearer {ADMIN}"}, 200, id="an-admins-key"),
        pytest.param(KEYED, {"origin": "http://localhost:1"}, 401, id="a-page"),
        pytest.param(KEYED, {"host": "gateway.example"}, 401, id="by-another-name"),
        pytest.param(OPEN, PROXIED, 200, id="an-open-gateway"),
    ],
)
def test_who_may_see_them(client: FlaskClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/metrics", headers=headers, buffered=True).status_code == status


BUFFERS, RESET = "/__test/tool-buffer-metrics", "/__test/tool-buffer-metrics/reset"
NOTHING = {"tool_buffer_started": 0, "tool_buffer_flushed": 0, "tool_buffer_aborted": 0}
TESTED = Settings(serves_test_endpoints=True)


@pytest.mark.parametrize(("method", "path"), [("GET", BUFFERS), ("POST", RESET)])
def test_the_test_routes_are_not_there_unasked(client: FlaskClient, method: str, path: str) -> None:
    response = client.open(path, method=method, buffered=True)
    assert (response.status_code, response.get_json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "gateway_settings",
    [pytest.param(Settings(serves_test_endpoints=True, api_keys=(ME,)), id="with-a-key")],
)
@pytest.mark.parametrize(("method", "path"), [("GET", BUFFERS), ("POST", RESET)])
def test_the_test_routes_need_a_key(client: FlaskClient, method: str, path: str) -> None:
    headers = [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {ME}"}]
    replies = [client.open(path, method=method, headers=each, buffered=True) for each in headers]
    assert [reply.status_code for reply in replies] == [401, 401, 200]


@pytest.mark.parametrize("gateway_settings", [pytest.param(TESTED, id="test-endpoints")])
def test_buffers_can_be_read_and_reset(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Story 2.12 AC 4: one by one; and what operators see goes on."""
    backend.script = [say("<use_tool><a", BLOCK), end()]
    post(headers=OBSIDIAN)
    told = client.get(BUFFERS).get_json()
    emptied = client.post(RESET, buffered=True).get_json()
    again = client.get(BUFFERS).get_json()
    of_all = {"mode": "obsidian-xml", "row": "use_tool"}
    totals = {"tool_buffer_started": 2, "tool_buffer_flushed": 1, "tool_buffer_aborted": 1}
    assert told == totals | {
        "events": [
            {"kind": "tool_buffer_started", "reason": "", "count": 2} | of_all,
            {"kind": "tool_buffer_aborted", "reason": "nested", "count": 1} | of_all,
            {"kind": "tool_buffer_flushed", "reason": "complete", "count": 1} | of_all,
        ]
    }
    assert (emptied, again) == (NOTHING, NOTHING | {"events": []})
    assert client.get("/v1/usage").get_json()["tool_buffer_metrics"] == totals
    assert read(client)["tool_buffer_started_total{obsidian-xml,,use_tool}"] == 2


@pytest.mark.parametrize("gateway_settings", [pytest.param(TESTED, id="test-endpoints")])
def test_nothing_is_reset_by_looking(client: FlaskClient) -> None:
    assert client.get(RESET).status_code == 405
