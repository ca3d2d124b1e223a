"""The stored responses: whose they are, how long they stay, what survives."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from app.store.database import StoreFault
from app.store.responses import ResponseStore
from tests.support.store_process import OWNER, TTL_S, build_body, run_store
from tests.unit.store.conftest import Clock, OpenStore, count_rows, find_call, find_item, list_kept

OTHER = "key-2"
STATUSES = ("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
STOPPED = {"code": "server_error", "message": "The gateway stopped before the answer was complete."}
MESSAGE = {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Grüße 🎈\x00"}]}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
QUESTION = {"id": "msg_0", "type": "message", "role": "user", "content": "Why?"}
RESULT = {"id": "fco_1", "type": "function_call_output", "call_id": "call_0", "output": "42"}
OUTPUT = [MESSAGE, CALL]
INPUT = [QUESTION, RESULT, {"type": "message", "role": "user", "content": "without an id"}]
EVENTS = [(0, b"event: a\n\n"), (1, b"event: b\n\n"), (2, b"\x00\xff")]


def begin_full(store: ResponseStore, response_id: str = "resp_1") -> dict[str, Any]:
    """Begun and finished, with everything that can be looked up."""
    store.begin(OWNER, build_body(response_id, "queued", background=True), INPUT)
    store.add_events(response_id, EVENTS)
    body = build_body(response_id, "completed", output=OUTPUT)
    assert store.update(OWNER, body)
    return body


def look_up(store: ResponseStore, owner: str, response_id: str = "resp_1") -> list[Any]:
    """Everything a client can ask for."""
    recalled = store.recall(owner, response_id), store.recall_call(owner, "call_1")
    return [
        store.get(owner, response_id),
        store.read_input(owner, response_id),
        find_item(store, owner, "msg_0"),
        find_item(store, owner, "msg_1"),
        find_call(store, owner, "call_1"),
        *(conversation and (conversation.items, conversation.tail) for conversation in recalled),
    ]


def list_locks(folder: pathlib.Path) -> int:
    return len(list(folder.glob("worker-*.lock")))


def test_a_response_is_read_as_it_was_written_by_any_worker(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    written = begin_full(one)
    recalled = (INPUT + OUTPUT, OUTPUT)
    expected = [written, INPUT, QUESTION, MESSAGE, CALL, recalled, recalled]
    assert [look_up(each, OWNER) for each in (one, other)] == [expected] * 2


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_can_be_begun_and_finished_with(store: ResponseStore, status: str) -> None:
    store.begin(OWNER, build_body("begun", status), [])
    store.begin(OWNER, build_body("finished"), [])
    store.update(OWNER, build_body("finished", status))
    expected = [build_body("begun", status), build_body("finished", status)]
    assert [store.get(OWNER, "begun"), store.get(OWNER, "finished")] == expected


@pytest.mark.parametrize("owner", [OTHER, ""])
def test_another_owner_sees_and_changes_nothing(store: ResponseStore, owner: str) -> None:
    written = begin_full(store)
    store.begin(OWNER, build_body("resp_2"), [])
    tried = [
        store.delete(owner, "resp_1"),
        store.update(owner, build_body("resp_1", "failed")),
        store.ask_cancel(owner, "resp_2"),
        store.is_cancel_asked("resp_2"),
    ]
    assert (look_up(store, owner), tried, store.get(OWNER, "resp_1")) == ([None] * 7, [False] * 4, written)


def test_an_open_gateway_has_an_owner_too(store: ResponseStore) -> None:
    store.begin("", build_body("resp_1"), [])
    assert (store.get("", "resp_1"), store.get(OWNER, "resp_1")) == (build_body("resp_1"), None)


def test_an_id_is_taken_once(store: ResponseStore) -> None:
    written = begin_full(store)
    with pytest.raises(StoreFault):
        store.begin(OTHER, build_body("resp_1"), [])
    assert store.get(OWNER, "resp_1") == written


@pytest.mark.parametrize(
    ("find", "key", "expected"),
    [
        pytest.param(find_item, "msg_1", MESSAGE, id="output"),
        pytest.param(find_item, "fc_1", CALL, id="call-by-its-item-id"),
        pytest.param(find_item, "msg_0", QUESTION, id="input"),
        pytest.param(find_item, "call_1", None, id="a-call-id-is-no-item-id"),
        pytest.param(find_item, "resp_1", None, id="unknown"),
        pytest.param(find_call, "call_1", CALL, id="call"),
        pytest.param(find_call, "call_0", None, id="a-result-is-no-call"),
        pytest.param(find_call, "fc_1", None, id="an-item-id-is-no-call-id"),
    ],
)
def test_items_are_found_by_their_ids(
    store: ResponseStore, find: Callable[..., Any], key: str, expected: Any
) -> None:
    begin_full(store)
    assert find(store, OWNER, key) == expected


def test_the_newest_of_equal_ids_is_found(store: ResponseStore) -> None:
    begin_full(store)
    newer = [MESSAGE | {"content": "newer"}, CALL | {"arguments": "newer"}]
    store.begin(OWNER, build_body("resp_2", "completed", output=newer), [])
    store.begin(OTHER, build_body("resp_3", "completed", output=OUTPUT), [])
    found = [find_item(store, OWNER, "msg_1"), find_call(store, OWNER, "call_1")]
    maker = store.recall_call(OWNER, "call_1")
    assert (found, maker and maker.items) == (newer, newer)


def test_deleting_leaves_nothing(folder: pathlib.Path, store: ResponseStore) -> None:
    begin_full(store)
    deleted = [store.delete(OWNER, "resp_1"), store.delete(OWNER, "resp_1")]
    rows = count_rows(store)
    assert (deleted, look_up(store, OWNER), rows) == ([True, False], [None] * 7, dict.fromkeys(rows, 0))


def test_what_was_deleted_under_way_stays_deleted(store: ResponseStore) -> None:
    store.begin(OWNER, build_body("resp_1"), [])
    store.delete(OWNER, "resp_1")
    tried = [
        store.is_cancel_asked("resp_1"),
        store.add_events("resp_1", EVENTS),
        store.update(OWNER, build_body("resp_1", "completed", output=OUTPUT)),
    ]
    assert (tried, look_up(store, OWNER), store.read_events("resp_1", -1, 9)) == (
        [True, False, False],
        [None] * 7,
        [],
    )


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [(-1, 9, EVENTS), (0, 9, EVENTS[1:]), (-1, 2, EVENTS[:2]), (2, 9, []), (0, 1, EVENTS[1:2])],
)
def test_events_are_read_in_order(
    store: ResponseStore, after: int, limit: int, expected: list[tuple[int, bytes]]
) -> None:
    store.begin(OWNER, build_body("resp_1"), [])
    store.begin(OWNER, build_body("resp_2"), [])
    store.add_events("resp_2", [(1, b"of another")])
    store.add_events("resp_1", EVENTS[1:])
    store.add_events("resp_1", EVENTS)
    assert store.read_events("resp_1", after, limit) == expected


def test_looking_for_events_reads_none_of_them(store: ResponseStore) -> None:
    """Whoever follows a response looks twenty times a second. Measured: 1.1x; 100x and more if it did."""
    taken_s = []
    for name, frame in (("small", b"x"), ("large", b"x" * 4_000_000)):
        store.begin(OWNER, build_body(name), [])
        store.add_events(name, [(number, frame) for number in range(6)])
        began_s = time.thread_time()
        assert [store.read_events(name, 5, 1000) for _ in range(200)] == [[]] * 200
        taken_s.append(time.thread_time() - began_s)
    assert taken_s[1] < 10 * taken_s[0]


def test_a_cancel_reaches_the_worker_that_makes_the_response(
    open_store: OpenStore,
) -> None:
    maker, asker = open_store(), open_store()
    maker.begin(OWNER, build_body("resp_1"), [])
    maker.begin(OWNER, build_body("resp_2"), [])
    before = maker.is_cancel_asked("resp_1")
    asked = asker.ask_cancel(OWNER, "resp_1")
    assert (before, asked, maker.is_cancel_asked("resp_1"), maker.is_cancel_asked("resp_2")) == (
        False,
        True,
        True,
        False,
    )


def test_what_is_finished_cannot_be_cancelled(store: ResponseStore) -> None:
    begin_full(store)
    assert (store.ask_cancel(OWNER, "resp_1"), store.is_cancel_asked("resp_1")) == (False, False)


@pytest.mark.parametrize(("age_s", "is_kept"), [(TTL_S - 1, True), (TTL_S + 1, False)], ids=["young", "old"])
def test_a_response_expires(
    folder: pathlib.Path, store: ResponseStore, clock: Clock, age_s: float, is_kept: bool
) -> None:
    begin_full(store)
    clock.now_s += age_s
    seen = [each is not None for each in look_up(store, OWNER)]
    before = count_rows(store)
    store.start()
    after = count_rows(store)
    assert (seen, before["events"], after) == (
        [is_kept] * 7,
        len(EVENTS),
        before if is_kept else dict.fromkeys(before, 0),
    )


def test_an_expired_response_is_not_deleted_under_its_maker(store: ResponseStore, clock: Clock) -> None:
    store.begin(OWNER, build_body("resp_1"), [])
    clock.now_s += TTL_S + 1
    store.start()
    finished = store.update(OWNER, build_body("resp_1", "completed"))
    assert (finished, store.delete(OWNER, "resp_1")) == (True, False)


def test_threads_share_a_store(store: ResponseStore) -> None:
    def make(prefix: str) -> None:
        for number in range(50):
            begin_full(store, f"{prefix}-{number}")

    threads = [threading.Thread(target=make, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ids = [f"{name}-{number}" for name in "abcd" for number in range(50)]
    assert list_kept(store, ids) == ids


def test_processes_that_write_at_once_lose_nothing(folder: pathlib.Path, store: ResponseStore) -> None:
    """From the very first use on: both make the file."""
    with run_store(folder) as one, run_store(folder) as other:
        one.send("make_many", "one", 300)
        other.send("make_many", "other", 300)
        replies = [one.receive(), other.receive()]
    ids = [f"{name}-{number}" for name in ("one", "other") for number in range(300)]
    found = [store.get(OWNER, each) for each in ids]
    expected = [build_body(each, "completed", text=each.partition("-")[0]) for each in ids]
    assert (replies, found) == (["done", "done"], expected)


def test_a_killed_worker_loses_nothing_it_had_finished(folder: pathlib.Path, store: ResponseStore) -> None:
    with run_store(folder) as killed:
        replies = [killed.tell("begin", "resp_1"), killed.tell("finish", "resp_1", "kept")]
        killed.kill()
    store.start()
    assert (replies, store.get(OWNER, "resp_1")) == (
        ["done", "done"],
        build_body("resp_1", "completed", text="kept"),
    )


def test_what_a_killed_worker_had_under_way_fails_and_nothing_else(
    folder: pathlib.Path, store: ResponseStore
) -> None:
    with run_store(folder) as living, run_store(folder) as killed:
        replies = [living.tell("begin", "living"), killed.tell("begin", "killed")]
        store.begin(OWNER, build_body("own"), [])
        store.start()
        before = store.get(OWNER, "killed")
        killed.kill()
        store.start()
        found = [store.get(OWNER, each) for each in ("living", "killed", "own")]
        finished = living.tell("finish", "living", "on")
        locks = list_locks(folder)
    expected = [
        build_body("living"),
        build_body("killed", "failed", error=STOPPED),
        build_body("own"),
    ]
    assert (replies, before) == (["done", "done"], build_body("killed"))
    assert (found, finished, locks) == (expected, "done", 2)


def test_a_worker_that_ends_in_order_leaves_no_lock(open_store: OpenStore, folder: pathlib.Path) -> None:
    first, second = open_store(), open_store()
    first.begin(OWNER, build_body("resp_1"), [])
    first.close()
    left = list_locks(folder)
    second.start()
    assert (left, second.get(OWNER, "resp_1")) == (0, build_body("resp_1", "failed", error=STOPPED))


def test_repair_happens_without_a_start_too(open_store: OpenStore) -> None:
    gone, worker = open_store(), open_store()
    gone.begin(OWNER, build_body("resp_1"), [])
    gone.close()
    worker.begin(OWNER, build_body("resp_2", "completed"), [])
    assert worker.get(OWNER, "resp_1") == build_body("resp_1", "failed", error=STOPPED)


def test_a_worker_whose_lock_file_was_removed_takes_a_new_one(
    open_store: OpenStore, folder: pathlib.Path
) -> None:
    worker, other = open_store(), open_store()
    worker.start()
    for path in folder.glob("worker-*.lock"):
        path.unlink()
    worker.begin(OWNER, build_body("resp_1"), [])
    other.start()
    assert other.get(OWNER, "resp_1") == build_body("resp_1")


def test_a_disk_without_room_is_said_and_passes(folder: pathlib.Path, store: ResponseStore) -> None:
    with run_store(folder) as worker:
        replies = [
            worker.tell(*words)
            for words in [
                ("fill", "before", 1000),
                ("limit_files", 200_000),
                ("fill", "refused", 1_000_000),
                ("limit_files", "none"),
                ("fill", "after", 1_000_000),
            ]
        ]
    refused = orjson.dumps({"unavailable": "The store cannot be used: disk I/O error."}).decode()
    kept = list_kept(store, ["before", "refused", "after"])
    assert (replies, kept) == (["done", "done", refused, "done", "done"], ["before", "after"])


def test_a_start_that_cannot_open_says_so(folder: pathlib.Path, store: ResponseStore) -> None:
    folder.parent.mkdir()
    folder.write_text("a file in the way")
    with pytest.raises(StoreFault, match="File exists"):
        store.start()


def test_a_worker_without_its_lock_begins_nothing(folder: pathlib.Path, store: ResponseStore) -> None:
    folder.parent.mkdir()
    folder.write_text("a file in the way")
    with pytest.raises(StoreFault, match="File exists"):
        store.begin(OWNER, build_body("resp_1"), [])
