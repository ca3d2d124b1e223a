"""GET /v1/usage and /v1/usage/raw: what keys and models used."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import flask

from app.handlers.http import json_response
from app.handlers.query import read_number
from app.handlers.recorder import UsageRecorder
from app.handlers.stores import ask
from app.lib.account_limits import describe_limits
from app.lib.errors import InvalidRequest
from app.lib.keys import AccessKey, Role
from app.store.pauses import with_pauses
from app.store.usage import BUFFERS, COLUMNS, DAY_S, HOUR_S, HourRow, Span, UsageStore, count_buffers

GROUPS = {"hour": HOUR_S, "day": DAY_S}
DEFAULT_SPAN_S = 7 * DAY_S
MAX_ENTRIES = 1000
NO_NUMBER = 2**63 - 1
MOST_DIGITS = 12
USED = tuple(name for name in COLUMNS if name not in BUFFERS)

Body = dict[str, Any]


def build_blueprint(store: UsageStore, recorder: UsageRecorder) -> flask.Blueprint:
    blueprint = flask.Blueprint("usage", __name__)

    @blueprint.get("/v1/usage")
    def get_usage() -> flask.Response:
        width_s = read_group()
        span = read_span(flask.g.access.key)
        ask(recorder.flush)
        report = ask(lambda: build_report(span, store.read_hours(span), width_s))
        told = ask(store.read_limits)
        limits = describe_limits(*told) if told else None
        return json_response(report | {"account_limits": limits})

    @blueprint.get("/v1/usage/raw")
    def get_raw() -> flask.Response:
        span = read_span(flask.g.access.key)
        limit, before = read_number("limit", 100), read_number("before", NO_NUMBER)
        if not 1 <= limit <= MAX_ENTRIES:
            raise InvalidRequest(f"limit: Must be 1 to {MAX_ENTRIES}.", param="limit")
        ask(recorder.flush)
        found = ask(lambda: store.read_entries(span, before, limit + 1))
        data = [build_entry(*each) for each in found[:limit]]
        more = {"has_more": len(found) > limit, "next_before": data[-1]["number"] if data else None}
        return json_response({"object": "list", "data": data, **more})

    return blueprint


def read_group() -> int:
    group = flask.request.args.get("group", "day")
    if group not in GROUPS:
        raise InvalidRequest(f"group: Must be one of: {', '.join(GROUPS)}.", param="group")
    return GROUPS[group]


def read_span(key: AccessKey) -> Span:
    """The time asked for, and whose: a client's key sees its own, an admin's anyone's."""
    behind_now_s = time.time() + 1
    end_s = min(read_time("end", behind_now_s), behind_now_s)
    start_s = read_time("start", end_s - DEFAULT_SPAN_S)
    if start_s > end_s:
        raise InvalidRequest("start: Must not be behind `end`.", param="start")
    asked = flask.request.args.get("key")
    return Span(start_s, end_s, asked if key.role is Role.ADMIN else key.name)


def read_time(name: str, default_s: float) -> float:
    """A time in seconds since the epoch, or in ISO 8601; without a zone it is UTC."""
    text = flask.request.args.get(name)
    if not text:
        return default_s
    try:
        return parse_time(text)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"{name}: Must be a time, as seconds since the epoch or as 2026-01-31T12:00:00Z.", param=name
        ) from error


def parse_time(text: str) -> float:
    if text.isdecimal():
        if len(text) > MOST_DIGITS:  # milliseconds; read as ISO 8601 they may be a day long ago
            raise ValueError(text)
        return float(text)
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()


def build_report(span: Span, rows: Iterable[HourRow], width_s: int) -> Body:
    total: Counter[str] = Counter()
    buckets: dict[int, dict[tuple[str, str], Counter[str]]] = {}
    for row in rows:
        start_s = row.hour * HOUR_S // width_s * width_s
        place = buckets.setdefault(start_s, {}).setdefault((row.key, row.model), Counter())
        place.update(row.counts)
        total.update(row.counts)
    return {
        "object": "usage",
        # Whole hours are counted: those that the asked time touches.
        "start_time": int(span.start_s // HOUR_S * HOUR_S),
        "end_time": int(-(-span.end_s // HOUR_S) * HOUR_S),
        "total": pick(total, USED),
        "data": [build_bucket(start_s, width_s, places) for start_s, places in with_pauses(buckets.items())],
        "tool_buffer_metrics": pick(total, BUFFERS),
    }


def build_bucket(start_s: int, width_s: int, places: dict[tuple[str, str], Counter[str]]) -> Body:
    return {
        "object": "bucket",
        "start_time": start_s,
        "end_time": start_s + width_s,
        "results": [
            {
                "key": key,
                "model": model or None,
                **pick(counts, USED),
                "tool_buffer_metrics": pick(counts, BUFFERS),
            }
            for (key, model), counts in sorted(places.items())
        ],
    }


def build_entry(number: int, at_s: float, fields: Body) -> Body:
    held = {"tool_buffer_metrics": pick(count_buffers(fields), BUFFERS)}
    return {"number": number, "time": at_s, **fields, **held}


def pick(counts: Counter[str], names: Iterable[str]) -> dict[str, int]:
    return {name: counts[name] for name in names}
