"""What a worker counts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.handlers.meters import CODES, COUNTERS, GAUGES, TIMES, Meters
from app.handlers.tool_buffers import BufferEvent
from app.lib.events import Note, NoteKind, Placed
from app.lib.placement import Origin, Tier
from app.pipeline import Census
from tests.support.gateway import ROOT

CHAT = {"route": "/v1/chat/completions", "status": 200, "duration_ms": 1500.0}
Samples = dict[str, float]


@pytest.fixture
def meters() -> Meters:
    return Meters()


def read(meters: Meters) -> Samples:
    """What is told and not zero; of the times how many there were, and their sum."""
    meters.publish()
    return {
        name_sample(sample): sample.value
        for family in text_string_to_metric_families(meters.render().decode())
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_bucket", "_created"))
    }


def name_sample(sample: Any) -> str:
    values = ",".join(f"{name}={value}" for name, value in sample.labels.items())
    return sample.name.removeprefix("codex_") + (f"{{{values}}}" if values else "")


ONE_REQUEST = {
    "requests_total{model=gpt-5.5,route=/v1/chat/completions,status=200}": 1,
    "request_seconds_count{route=/v1/chat/completions}": 1,
    "request_seconds_sum{route=/v1/chat/completions}": 1.5,
}


@pytest.mark.parametrize(
    ("fields", "model", "expected"),
    [
        pytest.param(CHAT, "gpt-5.5", ONE_REQUEST, id="an-answer"),
        pytest.param(
            CHAT | {"stream": True, "frames": 12, "first_token_ms": 250.0},
            "gpt-5.5",
            ONE_REQUEST
            | {
                "streams_total{route=/v1/chat/completions}": 1,
                "stream_frames_total{route=/v1/chat/completions}": 12,
                "first_token_seconds_count{route=/v1/chat/completions}": 1,
                "first_token_seconds_sum{route=/v1/chat/completions}": 0.25,
            },
            id="a-stream",
        ),
        pytest.param(
            CHAT | {"frames": 0},
            "gpt-5.5",
            ONE_REQUEST | {"streams_total{route=/v1/chat/completions}": 1},
            id="a-stream-that-said-nothing",
        ),
        pytest.param(
            CHAT | {"input_tokens": 120, "cached_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5},
            "gpt-5.5",
            ONE_REQUEST
            | {
                "tokens_total{kind=input,model=gpt-5.5}": 120,
                "tokens_total{kind=cached,model=gpt-5.5}": 100,
                "tokens_total{kind=output,model=gpt-5.5}": 20,
                "tokens_total{kind=reasoning,model=gpt-5.5}": 5,
            },
            id="tokens",
        ),
        pytest.param(
            CHAT
            | {"tools": 2, "tool_names": ["f", "g"], "tool_calls": 3, "text_calls": 1, "echoed_calls": 4},
            "gpt-5.5",
            ONE_REQUEST
            | {
                "tool_requests_total": 1,
                "tool_calls_total{transport=text}": 1,
                "tool_calls_total{transport=native}": 2,
                "echoed_calls_total": 4,
            },
            id="tools",
        ),
        pytest.param(
            CHAT | {"tool_calls": 1, "text_calls": 2},
            "gpt-5.5",
            ONE_REQUEST | {"tool_calls_total{transport=text}": 1},
            id="a-call-that-two-blocks-told",
        ),
        pytest.param(
            CHAT | {"error": "backend_unavailable"},
            "gpt-5.5",
            ONE_REQUEST | {"errors_total{code=backend_unavailable,route=/v1/chat/completions}": 1},
            id="an-error-in-band",
        ),
        pytest.param(
            {"route": None, "status": 404, "error": "not_found", "duration_ms": 1.0},
            "",
            {
                "requests_total{model=,route=other,status=404}": 1,
                "errors_total{code=not_found,route=other}": 1,
                "request_seconds_count{route=other}": 1,
                "request_seconds_sum{route=other}": 0.001,
            },
            id="no-route",
        ),
        pytest.param(
            {"route": "/v1/responses", "status": 400, "error": None, "duration_ms": 1.0},
            "",
            {
                "requests_total{model=,route=/v1/responses,status=400}": 1,
                "errors_total{code=invalid_request,route=/v1/responses}": 1,
                "request_seconds_count{route=/v1/responses}": 1,
                "request_seconds_sum{route=/v1/responses}": 0.001,
            },
            id="an-error-without-a-code",
        ),
        pytest.param(
            {
                "route": "/v1/responses",
                "status": 200,
                "duration_ms": 60_000.0,
                "background": True,
                "output_tokens": 20,
                "error": "backend_timeout",
            },
            "gpt-5.5",
            {
                "tokens_total{kind=output,model=gpt-5.5}": 20,
                "errors_total{code=backend_timeout,route=/v1/responses}": 1,
            },
            id="what-went-on-behind-its-request",
        ),
    ],
)
def test_a_request(meters: Meters, fields: dict[str, Any], model: str, expected: Samples) -> None:
    meters.count_request(fields, model)
    assert read(meters) == expected


def test_every_code_of_ours_is_told() -> None:
    """None of them is `other`, as one that upstream made up is."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py"))
    assert {*re.findall(r'\b(?:code=|CODE = )"(\w+)"', sources)} - CODES == set()


def test_counts_add_up(meters: Meters) -> None:
    """Also over what was handed over already."""
    for _ in range(3):
        meters.count_request(CHAT, "gpt-5.5")
        meters.count_request(CHAT, "demo")
        read(meters)
    told = read(meters)
    assert told["requests_total{model=gpt-5.5,route=/v1/chat/completions,status=200}"] == 3
    assert told["request_seconds_count{route=/v1/chat/completions}"] == 6


def test_what_is_noted_of_a_turn(meters: Meters) -> None:
    for kind, reason in ((NoteKind.BUFFER_STARTED, ""), (NoteKind.BUFFER_FLUSHED, "complete")):
        meters.count_buffer(BufferEvent(kind, "obsidian-xml", "use_tool", reason))
    meters.count_buffer(BufferEvent(NoteKind.BUFFER_ABORTED, "openai-json", "tool_call", "prose"))
    meters.count_note(Note(0, NoteKind.ARGUMENTS_REPAIRED, "tool_call"))
    for origin in (Origin.TURN, Origin.TURN, Origin.UNKNOWN):
        meters.count_placed(Placed(Tier.PARKED if origin is Origin.TURN else Tier.COLD, origin))
    assert read(meters) == {
        "tool_buffer_started_total{mode=obsidian-xml,reason=,row=use_tool}": 1,
        "tool_buffer_flushed_total{mode=obsidian-xml,reason=complete,row=use_tool}": 1,
        "tool_buffer_aborted_total{mode=openai-json,reason=prose,row=tool_call}": 1,
        "tool_notes_total{kind=tool_arguments_repaired,reason=,row=tool_call}": 1,
        "continuations_total{reason=turn,tier=parked}": 2,
        "continuations_total{reason=unknown,tier=cold}": 1,
    }


def test_processes(meters: Meters) -> None:
    """Gauges say what is so now; what grows is counted once, however often somebody looks."""
    meters.show_pool(Census(2, 1, 0, 0, 5, process_starts=3, process_deaths=1, parks=1))
    for _ in range(2):
        meters.show_pool(Census(1, 0, 1, 1, 0, process_starts=4, process_deaths=1, parks=3))
    assert read(meters) == {
        "processes{state=idle}": 1,
        "processes{state=parked}": 1,
        "processes{state=ending}": 1,
        "process_starts_total": 4,
        "process_deaths_total": 1,
        "parks_total": 3,
    }


def test_what_is_under_way(meters: Meters) -> None:
    for requests, streams in ((4, 3), (2, 1)):
        meters.show_open(requests, streams)
    assert read(meters) == {"requests_open": 2, "streams_open": 1}


ROW = re.compile(r"^\| `codex_(\w+)` \|([^|]*)\|", re.MULTILINE)


def test_the_page_names_every_metric() -> None:
    """With its labels, and no other."""
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    named = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in ROW.findall(page)}
    assert named == (
        {f"{name}_total": labels for name, _, labels in COUNTERS}
        | {name: labels for name, _, labels in GAUGES}
        | {name: ("route",) for name, _, _ in TIMES}
    )


def test_the_page_asks_for_no_other() -> None:
    """Its alarms and questions are about metrics that there are."""
    page = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
    asked = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"\bcodex_(\w+)", page)}
    known = {name for name, *_ in (*COUNTERS, *GAUGES, *TIMES)}
    assert asked - known == {"pid"}  # a field of the log
