"""What those who watch are told."""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from prometheus_client import Metric

from app.handlers.live import MOST_BEHIND, MOST_WATCHERS, NEWEST, PERIOD_S, LiveFeed
from app.handlers.meters import Meters
from app.handlers.tool_buffers import BufferEvent
from app.lib.errors import GatewayBusy
from app.lib.events import NoteKind
from app.pipeline import Census
from app.store.usage import Entry, UsageStore

ANSWERED = {
    "route": "/v1/chat/completions",
    "status": 200,
    "duration_ms": 20.0,
    "first_token_ms": 250.0,
    "input_tokens": 120,
    "cached_tokens": 100,
    "output_tokens": 20,
    "reasoning_tokens": 5,
    "tool_calls": 2,
    "text_calls": 1,
}
IDLE = dict.fromkeys(("requests_open", "streams_open", "idle", "owned", "parked", "ending", "queued"), 0)
NOTHING = dict.fromkeys(
    (
        *("requests", "errors", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
        *("tool_calls", "tool_buffer_started", "tool_buffer_flushed", "tool_buffer_aborted"),
        *("first_tokens", "first_token_s"),
    ),
    0,
)


class Seat:
    """A client that sits there until it is told to leave."""

    patience_s = 1.0
    is_gone = False

    def has_left(self) -> bool:
        return self.is_gone


class Times:
    now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[UsageStore]:
    with contextlib.closing(UsageStore(tmp_path, 90, 10**6, 0.1, lambda: 2000.0)) as store:
        yield store


@pytest.fixture
def feed(meters: Meters, store: UsageStore, times: Times) -> LiveFeed:
    return LiveFeed(meters, store, times)


Watch = Callable[[], Generator[bytes, None, None]]


@pytest.fixture
def watch(feed: LiveFeed) -> Iterator[Watch]:
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(feed.watch(Seat())))


def read(chunk: bytes) -> list[dict[str, Any]]:
    """The frames of a chunk; when they were told is the clock's."""
    frames = [json.loads(frame.removeprefix("data: ")) for frame in chunk.decode().split("\n\n")[:-1]]
    for frame in frames:
        frame.pop("at", None)
    return frames


def add(store: UsageStore, *ids: int) -> None:
    store.add([Entry(1000.0 + each, "gpt-5.5", {"request_id": f"req_{each}"}) for each in ids])


def pick_ids(frame: dict[str, Any]) -> list[str]:
    return [entry["request_id"] for entry in frame["data"]]


def tick_periods(feed: LiveFeed, times: Times, count: int) -> None:
    for _ in range(count):
        times.now_s += PERIOD_S
        feed.tick()


def test_who_comes_is_told_what_was(feed: LiveFeed, store: UsageStore, times: Times, watch: Watch) -> None:
    add(store, 1, 2)
    tick_periods(feed, times, 3)
    history, requests = read(next(watch()))
    samples = [{name: value for name, value in each.items() if name != "at"} for each in history["samples"]]
    # The first look only tells where to count from.
    assert (history["type"], history["period_s"], samples) == ("history", PERIOD_S, [IDLE | NOTHING] * 2)
    assert (requests["type"], pick_ids(requests)) == ("requests", ["req_2", "req_1"])
    assert requests["data"][1] == {"number": 1, "time": 1001.0, "request_id": "req_1"}


def test_then_every_second_what_is_so_now(feed: LiveFeed, meters: Meters, times: Times, watch: Watch) -> None:
    meters.show_open(requests=3, streams=2)
    meters.show_pool(Census(idle=4, owned=5, parked=6, ending=7, queued=8, process_starts=9))
    feed.tick()
    told = watch()
    next(told)
    feed.tick()
    now = {
        "requests_open": 3,
        "streams_open": 2,
        "idle": 4,
        "owned": 5,
        "parked": 6,
        "ending": 7,
        "queued": 8,
    }
    assert read(next(told)) == [{"type": "now", **now}]


def test_every_ten_seconds_what_these_added(
    feed: LiveFeed, meters: Meters, times: Times, watch: Watch
) -> None:
    feed.tick()
    told = watch()
    next(told)
    for _ in range(2):
        meters.count_request(ANSWERED, "gpt-5.5")
        meters.count_request({**ANSWERED, "route": "/v1/responses", "error": "overloaded"}, "other")
        meters.count_buffer(BufferEvent(NoteKind.BUFFER_STARTED, "obsidian-xml", "use_tool", ""))
        meters.publish()
        tick_periods(feed, times, 1)
        sample, now = read(next(told)) + read(next(told))
        added = {"requests": 2, "errors": 1, "input_tokens": 240, "cached_tokens": 200, "output_tokens": 40}
        more = {"reasoning_tokens": 10, "tool_calls": 4, "tool_buffer_started": 1, "first_tokens": 2}
        expected = {"type": "sample", **IDLE, **NOTHING, **added, **more, "first_token_s": 0.5}
        assert (sample, now) == (expected, {"type": "now", **IDLE})


def test_an_hour_is_remembered(feed: LiveFeed, times: Times, watch: Watch) -> None:
    tick_periods(feed, times, 400)
    history, _ = read(next(watch()))
    assert len(history["samples"]) * PERIOD_S == 3600


def test_requests_are_told_once_each(feed: LiveFeed, store: UsageStore, times: Times, watch: Watch) -> None:
    """To who came before they ended, and to who came after."""
    feed.tick()
    early = watch()
    assert pick_ids(read(next(early))[1]) == []
    add(store, 1)
    late = watch()
    assert pick_ids(read(next(late))[1]) == ["req_1"]
    add(store, 2, 3)
    feed.tick()
    assert [read(next(early))[0] for _ in range(3)] == [
        {"type": "requests", "data": [{"number": 1, "time": 1001.0, "request_id": "req_1"}]},
        {"type": "now", **IDLE},
        {
            "type": "requests",
            "data": [{"number": n, "time": 1000.0 + n, "request_id": f"req_{n}"} for n in (3, 2)],
        },
    ]
    assert [read(next(late))[0]["type"] for _ in range(2)] == ["now", "requests"]


def test_of_many_the_newest(feed: LiveFeed, store: UsageStore, watch: Watch) -> None:
    add(store, *range(1, 2 * NEWEST + 1))
    [_, requests] = read(next(watch()))
    assert pick_ids(requests) == [f"req_{n}" for n in range(2 * NEWEST, NEWEST, -1)]


def test_a_store_out_of_reach_leaves_the_rest(
    feed: LiveFeed, store: UsageStore, tmp_path: pathlib.Path, watch: Watch
) -> None:
    (tmp_path / "usage.sqlite3").mkdir()
    feed.tick()
    told = watch()
    assert [frame["type"] for frame in read(next(told))] == ["history", "requests"]
    feed.tick()
    assert read(next(told)) == [{"type": "now", **IDLE}]


class Looks:
    """A metric of its own, which notes when it is looked at."""

    def __init__(self, times: Times) -> None:
        self.at_s: list[float] = []
        self._times = times

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        self.at_s.append(self._times.now_s)
        return []


def test_numbers_that_begin_anew(
    feed: LiveFeed, store: UsageStore, tmp_path: pathlib.Path, watch: Watch
) -> None:
    """As they do in the file that takes the place of one that broke."""
    add(store, 1, 2)
    told = watch()
    next(told)
    store.close()
    for path in tmp_path.iterdir():
        path.unlink()
    add(store, 3)
    feed.tick()
    [_, requests] = read(next(told)) + read(next(told))
    assert pick_ids(requests) == ["req_3"]


def test_nobody_watching_costs_no_look(feed: LiveFeed, meters: Meters, times: Times) -> None:
    looks = Looks(times)
    meters.registry.register(looks)
    for _ in range(3 * PERIOD_S):
        times.now_s += 1
        feed.tick()
    assert looks.at_s == [5001.0, 5011.0, 5021.0]


def test_when_the_worker_stops_everyone_is_let_go(feed: LiveFeed, watch: Watch) -> None:
    told = [watch(), watch()]
    for each in told:
        next(each)
    feed.end()
    feed.tick()
    assert [next(each, None) for each in told] == [None, None]
    # Who comes now is let go next time.
    late = watch()
    next(late)
    feed.tick()
    assert next(late, None) is None


def test_who_does_not_keep_up_is_let_go(feed: LiveFeed, watch: Watch) -> None:
    slow, quick = watch(), watch()
    for each in (slow, quick):
        next(each)
    for _ in range(MOST_BEHIND + 1):
        feed.tick()
        next(quick)
    # What it is told ends somewhere; the other's goes on.
    assert [*itertools.islice(slow, 2)][1:] == []
    feed.tick()
    assert read(next(quick)) == [{"type": "now", **IDLE}]


def test_who_leaves_is_forgotten(feed: LiveFeed, times: Times) -> None:
    seat = Seat()
    told = feed.watch(seat)
    next(told)
    seat.is_gone = True
    assert next(told, None) is None
    assert feed.watchers == 0


def test_there_is_room_for_so_many(feed: LiveFeed, watch: Watch) -> None:
    for _ in range(MOST_WATCHERS):
        feed.check_room()
        next(watch())
    with pytest.raises(GatewayBusy, match="watching"):
        feed.check_room()
