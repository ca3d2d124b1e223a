"""What a worker counts for Prometheus; where several share a folder, each scrape adds them up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

from app.handlers.tool_buffers import BufferEvent
from app.lib.errors import ProxyError
from app.lib.events import Note, Placed
from app.pipeline import Census

#: Besides those that errors have by themselves.
MORE_CODES = (
    "admin_key_required",
    "concurrency_limit_exceeded",
    "exchange_not_kept",
    "host_not_allowed",
    "item_not_found",
    "login_replaced",
    "malformed_request",
    "origin_not_allowed",
    "page_token_required",
)


def find_codes(kind: type[ProxyError]) -> set[str]:
    """The codes of an error and of all that are one."""
    own = {kind.default_code} if kind.default_code else set()
    return own.union(*map(find_codes, kind.__subclasses__()))


PREFIX = "codex_"
#: A counter's name, what it counts, and its labels: each has few values, whatever clients send.
COUNTERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("requests", "Requests that ended.", ("route", "model", "status")),
    ("errors", "Requests that failed.", ("route", "code")),
    ("streams", "Streams that ended.", ("route",)),
    ("stream_frames", "Frames sent in streams.", ("route",)),
    ("tokens", "Tokens, as codex tells them.", ("model", "kind")),
    ("tool_requests", "Requests that declared tools.", ()),
    ("tool_calls", "Tool calls told to clients.", ("transport",)),
    ("echoed_calls", "Past calls that requests brought.", ()),
    ("tool_notes", "Calls mended, faulty or sent back.", ("kind", "row", "reason")),
    ("tool_buffer_started", "Texts held back as a tool block.", ("mode", "row", "reason")),
    ("tool_buffer_flushed", "Blocks that were told, whole.", ("mode", "row", "reason")),
    ("tool_buffer_aborted", "Texts that turned out to be no block.", ("mode", "row", "reason")),
    ("continuations", "What turns ran on, and went on from.", ("tier", "reason")),
    ("process_starts", "Codex processes that were started.", ()),
    ("process_deaths", "Codex processes that ended by themselves.", ()),
    ("parks", "Turns left to wait for tool results.", ()),
)
GAUGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("requests_open", "Requests under way.", ()),
    ("streams_open", "Streams under way.", ()),
    ("processes", "Codex processes.", ("state",)),
    ("queue", "Requests that wait for a codex process.", ()),
)
#: In seconds.
TIMES: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    (
        "first_token_seconds",
        "From a request to the first it is told of the answer.",
        (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
    ),
    (
        "request_seconds",
        "From a request to its end.",
        (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    ),
)
TOKENS = ("input", "cached", "output", "reasoning")
STATES = ("idle", "owned", "parked", "ending")
#: What a census counts since the worker's start.
GROWING = ("process_starts", "process_deaths", "parks")
NO_ROUTE = "other"
#: What an error without a code is, and one whose code upstream made up.
NO_CODE, OTHER_CODE = "invalid_request", "other"
CODES = find_codes(ProxyError) | {NO_CODE} | set(MORE_CODES)


class Meters:
    def __init__(self, folder: str | None = None) -> None:
        """`folder` is where prometheus_client was told to share them, if it was."""
        self._folder = folder
        self.registry = registry = CollectorRegistry()
        self._counters = {
            name: prometheus_client.Counter(PREFIX + name, about, labels, registry=registry)
            for name, about, labels in COUNTERS
        }
        self._gauges = {
            name: Gauge(PREFIX + name, about, labels, registry=registry, multiprocess_mode="livesum")
            for name, about, labels in GAUGES
        }
        self._times = {
            name: Histogram(PREFIX + name, about, ["route"], buckets=buckets, registry=registry)
            for name, about, buckets in TIMES
        }
        for times in self._times.values():
            times.labels(NO_ROUTE)  # opens its file now, not amid the requests
        #: What was counted since it was last published, by name and labels.
        self._fresh: Counter[tuple[str, ...]] = Counter()
        self._measured: list[tuple[str, str, float]] = []
        self._shown = Census()

    def count_request(self, fields: dict[str, Any], model: str) -> None:
        """A request that ended, by the fields of its log line."""
        route = fields.get("route") or NO_ROUTE
        if not fields.get("background"):  # what went on behind a request: that was counted when it ended
            self._count("requests", route, model, str(fields.get("status", 0)))
            self._measured.append(("request_seconds", route, fields["duration_ms"] / 1000))
        if "error" in fields:
            code = fields["error"] or NO_CODE
            self._count("errors", route, code if code in CODES else OTHER_CODE)
        if "first_token_ms" in fields:
            self._measured.append(("first_token_seconds", route, fields["first_token_ms"] / 1000))
        if "frames" in fields:
            self._count("streams", route)
            self._count("stream_frames", route, by=fields["frames"])
        for kind in TOKENS:
            self._count("tokens", model, kind, by=fields.get(f"{kind}_tokens", 0))
        self._count_tools(fields)

    def _count_tools(self, fields: dict[str, Any]) -> None:
        calls = fields.get("tool_calls", 0)
        by_text = min(fields.get("text_calls", 0), calls)
        self._count("tool_calls", "text", by=by_text)
        self._count("tool_calls", "native", by=calls - by_text)
        self._count("tool_requests", by="tool_names" in fields)
        self._count("echoed_calls", by=fields.get("echoed_calls", 0))

    def count_buffer(self, event: BufferEvent) -> None:
        self._count(event.kind, event.mode, event.row, event.reason)

    def count_note(self, note: Note) -> None:
        self._count("tool_notes", note.kind, note.row, note.reason)

    def count_placed(self, placed: Placed) -> None:
        self._count("continuations", placed.tier, placed.origin)

    def show_open(self, requests: int, streams: int) -> None:
        self._gauges["requests_open"].set(requests)
        self._gauges["streams_open"].set(streams)

    def show_pool(self, census: Census) -> None:
        for state in STATES:
            self._gauges["processes"].labels(state).set(getattr(census, state))
        self._gauges["queue"].set(census.queued)
        for name in GROWING:
            self._count(name, by=getattr(census, name) - getattr(self._shown, name))
        self._shown = census

    def _count(self, name: str, *labels: str, by: int = 1) -> None:
        if by:
            self._fresh[name, *labels] += by

    def publish(self) -> None:
        """Hand over what was counted: once for many requests, since each handing over costs as much."""
        fresh, self._fresh = self._fresh, Counter()
        for (name, *labels), count in fresh.items():
            counter = self._counters[name]
            (counter.labels(*labels) if labels else counter).inc(count)
        measured, self._measured = self._measured, []
        for name, route, seconds in measured:
            self._times[name].labels(route).observe(seconds)

    def render(self) -> bytes:
        return prometheus_client.generate_latest(self._open())

    def add_up(self) -> Counter[tuple[str, str]]:
        """What all workers have published: by name and `kind` or `state`, whatever the other labels."""
        totals: Counter[tuple[str, str]] = Counter()
        for family in self._open().collect():
            for sample in family.samples:
                part = sample.labels.get("kind") or sample.labels.get("state") or ""
                totals[sample.name.removeprefix(PREFIX), part] += sample.value  # type: ignore[assignment]
        return totals

    def _open(self) -> CollectorRegistry:
        """What there is to read: of all workers, where they share a folder."""
        if self._folder is None:
            return self.registry
        shared = CollectorRegistry()
        MultiProcessCollector(shared, self._folder)  # type: ignore[no-untyped-call]
        return shared
