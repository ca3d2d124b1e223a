"""Housekeeping: what makes room, what is given back, and when."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import sqlite3
import time

import pytest

from app.store import sweep
from app.store.database import StoreFault
from app.store.responses import FILE_NAME, ResponseStore, Standing
from tests.support.store_process import OWNER, TTL_S, build_body
from tests.unit.store.conftest import Clock, OpenStore, count_rows, hold_write_lock, list_kept, recall


class Timer:
    """The time that passes: by sleeping, and when the test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_(self, pause_s: float) -> None:
        self.now_s += pause_s


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    timer = Timer()
    monkeypatch.setattr(time, "monotonic", timer)
    monkeypatch.setattr(time, "sleep", timer.pass_)
    return timer


def fill(store: ResponseStore, text: str) -> list[str]:
    ids = [f"resp_{number}" for number in range(100)]
    for each in ids:
        status = "in_progress" if each in ("resp_0", "resp_7") else "completed"
        store.begin(OWNER, build_body(each, status, text=text), [])
    return ids


def test_the_oldest_make_room_but_never_those_under_way(open_store: OpenStore) -> None:
    """And no more of them than must."""
    text, max_bytes = "x" * 20_000, 1 << 20
    ids = fill(open_store(), text)
    store = open_store(max_bytes)
    store.start()
    kept = list_kept(store, ids)
    is_tight = 0.85 * max_bytes < len(kept) * len(text) < max_bytes
    assert (kept, is_tight) == (["resp_0", "resp_7", *ids[2 - len(kept) :]], True)


def test_the_limit_holds_while_writing(open_store: OpenStore, folder: pathlib.Path) -> None:
    """Not only once a minute."""
    max_bytes = 1 << 20
    fill(open_store(max_bytes), "x" * 20_000)
    assert (folder / "responses.sqlite3").stat().st_size < 1.3 * max_bytes


def count_pages(store: ResponseStore) -> int:
    pages: int = store._database.read("PRAGMA page_count")[0][0]
    return pages


def test_freed_pages_are_given_back(store: ResponseStore) -> None:
    for number in range(10):
        store.begin(OWNER, build_body(f"resp_{number}", "completed", text="x" * 1_000_000), [])
    for number in range(10):
        store.delete(OWNER, f"resp_{number}")
    full = count_pages(store)
    store._database.write(sweep.give_back_pages)
    after_a_bite = count_pages(store)
    for _ in range(100):  # a sweep may leave something for the next
        store.start()
    assert full - after_a_bite >= sweep.BITE_PAGES
    assert count_pages(store) <= sweep.SPARE_PAGES + 50


def test_a_sweep_ends_in_time_and_the_next_goes_on(
    store: ResponseStore, clock: Clock, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEEP_BUDGET_S", 0.0)
    count = sweep.BITE_ROWS + 1
    for number in range(count):
        store.begin(OWNER, build_body(f"resp_{number}", "completed"), [])
    clock.now_s += TTL_S + 1
    left = []
    for _ in range(2):
        store.start()
        left.append(count_rows(store)["responses"])
    assert left == [1, 0]


def keep_chain(store: ResponseStore, size: int, last_status: str = "completed") -> list[str]:
    """Follow-ups behind an item of that size."""
    ids = [f"chain_{number}" for number in range(10)]
    store.begin(OWNER, build_body(ids[0], "completed"), [{"id": "image", "content": "x" * size}])
    for previous, each in itertools.pairwise(ids):
        status = last_status if each == ids[-1] else "completed"
        store.begin(OWNER, build_body(each, status), [{"id": f"ask-{each}"}], recall(store, previous))
    return ids


def test_what_a_conversation_shares_is_counted_when_it_is_freed(open_store: OpenStore) -> None:
    """Its responses make room only all together, and then nothing else has to go."""
    store = open_store()
    chain = keep_chain(store, 1_000_000)
    ids = fill(store, "x" * 20_000)
    smaller = open_store(max_bytes=5 * 512 * 1024)
    smaller.start()
    assert list_kept(smaller, [*chain, *ids]) == ids


def test_what_a_response_under_way_shares_is_never_evicted(open_store: OpenStore) -> None:
    """However much too much it is: all else goes, and that is the end of it."""
    store = open_store()
    ids = keep_chain(store, 1_000_000, "in_progress")
    before = store.read_input(OWNER, ids[-1])
    smaller = open_store(max_bytes=100_000)
    smaller.start()
    assert (list_kept(smaller, ids), smaller.read_input(OWNER, ids[-1])) == (ids[-1:], before)


@pytest.mark.parametrize(
    ("status", "is_swept"),
    [
        ("queued", False),
        ("in_progress", False),
        ("completed", True),
        ("incomplete", True),
        ("failed", True),
        ("cancelled", True),
    ],
)
def test_nothing_is_swept_before_the_first_token(
    open_store: OpenStore, clock: Clock, status: str, is_swept: bool
) -> None:
    """A response under way is begun while its client waits; what ends one sweeps."""
    store = open_store()
    store.begin(OWNER, build_body("old", "completed"), [])
    clock.now_s += TTL_S + 1
    worker = open_store()
    worker.begin(OWNER, build_body("new", status), [])
    begun = count_rows(worker)["responses"]
    worker.update(OWNER, build_body("new", "completed"))
    assert (begun, count_rows(worker)["responses"]) == (1 if is_swept else 2, 1)


def test_what_is_begun_under_way_counts_for_the_next_sweep(open_store: OpenStore, timer: Timer) -> None:
    """Not only once a minute."""
    store = open_store(max_bytes=1 << 20)
    store.begin(OWNER, build_body("old", "completed", text="x" * 500_000), [])
    store.begin(OWNER, build_body("new"), [{"content": "x" * 600_000}])
    begun = list_kept(store, ["old", "new"])
    store.update(OWNER, build_body("new", "completed"))
    assert (begun, list_kept(store, ["old", "new"])) == (["old", "new"], ["new"])


def test_what_could_not_be_finished_is_deleted_soon(
    open_store: OpenStore, folder: pathlib.Path, timer: Timer
) -> None:
    """By the first write that is not a begin under way; with its events and items."""
    store = open_store(lock_timeout_s=0.1)
    store.start()
    store.begin(OWNER, build_body("lost"), [{"id": "ask"}])
    store.add_events("lost", [(0, b"frame")])
    with hold_write_lock(folder / FILE_NAME), pytest.raises(StoreFault):
        store.update(OWNER, build_body("lost", "completed"))
    store.disown("lost")
    timer.pass_(sweep.SHORT_PERIOD_S)
    store.begin(OWNER, build_body("next"), [])
    before = list_kept(store, ["lost"])
    store.update(OWNER, build_body("next", "completed"))
    assert (before, count_rows(store)) == (
        ["lost"],
        {"events": 0, "item_keys": 0, "responses": 1, "segments": 0},
    )


def test_what_could_not_be_finished_is_unknown_at_once(store: ResponseStore, timer: Timer) -> None:
    """It would be told as under way otherwise; and whoever asks has it deleted."""
    store.begin(OWNER, build_body("lost"), [])
    store.disown("lost")
    assert (store.get(OWNER, "lost"), store.get_standing(OWNER, "lost")) == (None, None)
    timer.pass_(sweep.SHORT_PERIOD_S)
    store.get(OWNER, "lost")
    assert list_kept(store, ["lost"]) == []


def test_one_that_cannot_be_read_is_in_nobody_s_way(open_store: OpenStore, folder: pathlib.Path) -> None:
    """SQLite does not look after what is inside a value."""
    with contextlib.closing(open_store()) as killed:
        killed.begin(OWNER, build_body("torn"), [{"id": "ask"}])
        killed.begin(OWNER, build_body("sound"), [])
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE responses SET body = '{\"id\": ' WHERE id = 'torn'")
    store = open_store()
    store.start()
    assert list_kept(store, ["torn", "sound"]) == ["sound"]
    assert store.get_standing(OWNER, "sound") == Standing("failed", is_background=False)


def test_what_a_sweep_could_not_delete_is_left_to_the_next(
    open_store: OpenStore, folder: pathlib.Path, timer: Timer
) -> None:
    store = open_store(lock_timeout_s=0.1)
    store.begin(OWNER, build_body("lost"), [])
    store.disown("lost")
    with hold_write_lock(folder / FILE_NAME):
        store.start()
    after_a_failure = list_kept(store, ["lost"])
    timer.pass_(sweep.SHORT_PERIOD_S)
    store.begin(OWNER, build_body("next", "completed"), [])
    assert (after_a_failure, list_kept(store, ["lost", "next"])) == (["lost"], ["next"])


def test_many_that_were_disowned_are_deleted_bite_by_bite(
    store: ResponseStore, timer: Timer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BITE_ROWS", 2)
    ids = ["a", "b", "c", "d", "e"]
    for each in ids:
        store.begin(OWNER, build_body(each), [])
        store.disown(each)
    left = []
    for number in range(3):
        store.begin(OWNER, build_body(f"next_{number}", "completed"), [])
        left.append(len(list_kept(store, ids)))
        timer.pass_(sweep.SHORT_PERIOD_S)
    assert left == [3, 1, 0]


def test_one_that_was_never_begun_can_be_disowned(store: ResponseStore) -> None:
    store.disown("unknown")
    store.begin(OWNER, build_body("next", "completed"), [])
    assert list_kept(store, ["unknown", "next"]) == ["next"]
