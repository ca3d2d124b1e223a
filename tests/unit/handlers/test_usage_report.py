"""Hours of use, added up as they are asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.handlers.usage import build_report
from app.store.usage import COLUMNS, DAY_S, HOUR_S, HourRow, Span

#: A midnight.
DAY = 20_000
SPAN = Span(DAY * DAY_S, (DAY + 2) * DAY_S)
NO_BUFFERS = {"tool_buffer_started": 0, "tool_buffer_flushed": 0, "tool_buffer_aborted": 0}
NOTHING = {
    "requests": 0,
    "errors": 0,
    "input_tokens": 0,
    "cached_tokens": 0,
    "output_tokens": 0,
    "reasoning_tokens": 0,
    "tool_calls": 0,
}


def row(hour: int, key: str = "me", model: str = "gpt-5.5", **counts: int) -> HourRow:
    return HourRow(DAY * 24 + hour, key, model, Counter(dict.fromkeys(COLUMNS, 0) | counts))


def result(key: str, model: str | None, buffers: dict[str, int] | None = None, **counts: int) -> Any:
    told = NOTHING | counts | {"tool_buffer_metrics": NO_BUFFERS | (buffers or {})}
    return {"key": key, "model": model} | told


def bucket(start_s: int, width_s: int, *results: Any) -> dict[str, Any]:
    return {
        "object": "bucket",
        "start_time": start_s,
        "end_time": start_s + width_s,
        "results": [*results],
    }


def test_nothing_was_used() -> None:
    assert build_report(SPAN, [], DAY_S) == {
        "object": "usage",
        "start_time": DAY * DAY_S,
        "end_time": (DAY + 2) * DAY_S,
        "total": NOTHING,
        "data": [],
        "tool_buffer_metrics": NO_BUFFERS,
    }


ROWS = [
    row(0, requests=1, input_tokens=10, tool_buffer_started=2),
    row(0, key="(none)", model="", requests=1, errors=1),
    row(23, requests=2, input_tokens=20, tool_buffer_started=1, tool_buffer_aborted=3),
    row(24, model="demo", requests=4, tool_calls=5),
]
TOTAL = NOTHING | {"requests": 8, "errors": 1, "input_tokens": 30, "tool_calls": 5}
BUFFERS = {"tool_buffer_started": 3, "tool_buffer_flushed": 0, "tool_buffer_aborted": 3}


@pytest.mark.parametrize(
    ("width_s", "buckets"),
    [
        pytest.param(
            DAY_S,
            [
                bucket(
                    DAY * DAY_S,
                    DAY_S,
                    result("(none)", None, requests=1, errors=1),
                    result("me", "gpt-5.5", BUFFERS, requests=3, input_tokens=30),
                ),
                bucket((DAY + 1) * DAY_S, DAY_S, result("me", "demo", requests=4, tool_calls=5)),
            ],
            id="by-day",
        ),
        pytest.param(
            HOUR_S,
            [
                bucket(
                    DAY * DAY_S,
                    HOUR_S,
                    result("(none)", None, requests=1, errors=1),
                    result("me", "gpt-5.5", {"tool_buffer_started": 2}, requests=1, input_tokens=10),
                ),
                bucket(
                    (DAY + 1) * DAY_S - HOUR_S,
                    HOUR_S,
                    result(
                        "me",
                        "gpt-5.5",
                        {"tool_buffer_started": 1, "tool_buffer_aborted": 3},
                        requests=2,
                        input_tokens=20,
                    ),
                ),
                bucket((DAY + 1) * DAY_S, HOUR_S, result("me", "demo", requests=4, tool_calls=5)),
            ],
            id="by-hour",
        ),
    ],
)
def test_hours_add_up(width_s: int, buckets: list[Any]) -> None:
    report = build_report(SPAN, ROWS, width_s)
    assert (report["total"], report["tool_buffer_metrics"], report["data"]) == (TOTAL, BUFFERS, buckets)


@pytest.mark.parametrize(
    ("span", "told"),
    [
        pytest.param(Span(HOUR_S, 2 * HOUR_S), (HOUR_S, 2 * HOUR_S), id="whole-hours"),
        pytest.param(Span(HOUR_S + 1, 2 * HOUR_S + 0.5), (HOUR_S, 3 * HOUR_S), id="those-that-are-touched"),
        pytest.param(Span(-1.5, 0), (-HOUR_S, 0), id="before-the-epoch"),
    ],
)
def test_which_time_it_tells_of(span: Span, told: tuple[int, int]) -> None:
    report = build_report(span, [], DAY_S)
    assert (report["start_time"], report["end_time"]) == told
