"""Conversations: what follow-ups share, and what stays of them whatever is deleted."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.store.database import StoreFault, TooMuch
from app.store.limits import Limits
from app.store.responses import NOTHING, Conversation, ResponseStore
from tests.support.store_process import MAX_BYTES, OWNER, TTL_S, build_body
from tests.unit.store.conftest import (
    Clock,
    OpenStore,
    count_rows,
    find_call,
    find_item,
    list_segments,
    recall,
)

Item = dict[str, Any]
#: Who follows whom: a conversation that forks.
TREE = {"a": None, "b": "a", "c": "b", "d": "a"}
WHOLE = {
    "a": ["ask-a", "say-a"],
    "b": ["ask-a", "say-a", "ask-b", "say-b"],
    "c": ["ask-a", "say-a", "ask-b", "say-b", "ask-c", "say-c"],
    "d": ["ask-a", "say-a", "ask-d", "say-d"],
}


def build_item(name: str, content: str = "") -> Item:
    return {"id": name, "type": "message", "content": content}


def build_call(call_id: str) -> Item:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "call_id": call_id,
        "name": "f",
        "arguments": "{}",
    }


def keep(
    store: ResponseStore, response_id: str, earlier: Conversation = NOTHING, status: str = "completed"
) -> None:
    """A response to one question, with one answer."""
    response = build_body(response_id, status, output=[build_item(f"say-{response_id}")])
    store.begin(OWNER, response, [build_item(f"ask-{response_id}")], earlier)


def keep_tree(store: ResponseStore) -> None:
    for response_id, previous in TREE.items():
        keep(store, response_id, recall(store, previous) if previous else NOTHING)


def list_names(items: list[Item]) -> list[str]:
    return [item["id"] for item in items]


def list_conversations(store: ResponseStore) -> dict[str, list[str]]:
    found = {each: store.recall(OWNER, each) for each in TREE}
    return {each: list_names(conversation.items) for each, conversation in found.items() if conversation}


def count_used_bytes(store: ResponseStore) -> int:
    read = store._database.read
    return int((read("PRAGMA page_count")[0][0] - read("PRAGMA freelist_count")[0][0]) * 4096)


def watch(store: ResponseStore, see: Callable[[str], None]) -> None:
    """Be told of every statement before it runs."""
    store._database.open()
    connection = store._database._connection
    assert connection
    connection.set_trace_callback(see)


def test_a_follow_up_stands_behind_the_whole_conversation(store: ResponseStore) -> None:
    keep_tree(store)
    inputs = {each: store.read_input(OWNER, each) for each in TREE}
    tails = {each: list_names(recall(store, each).tail) for each in TREE}
    assert list_conversations(store) == WHOLE
    assert {each: list_names(items or []) for each, items in inputs.items()} == {
        each: names[:-1] for each, names in WHOLE.items()
    }
    assert tails == {each: [f"say-{each}"] for each in TREE}


def test_a_stored_response_gains_its_output_when_it_is_finished(store: ResponseStore) -> None:
    store.begin(OWNER, build_body("a"), [build_item("ask-a")])
    before = recall(store, "a")
    store.update(OWNER, build_body("a", "completed", output=[build_item("say-a")]))
    after = recall(store, "a")
    found = [(list_names(each.items), list_names(each.tail)) for each in (before, after)]
    assert found == [(["ask-a"], []), (["ask-a", "say-a"], ["say-a"])]
    assert before.segment == after.segment


ASKED, SAID = [build_item("asked")], [build_item("said")]


@pytest.mark.parametrize(
    ("first", "output", "own", "expected"),
    [
        pytest.param(ASKED, SAID, ASKED, 3, id="an-output-and-own-items"),
        pytest.param(ASKED, SAID, [], 2, id="no-own-items"),
        pytest.param(ASKED, [], ASKED, 2, id="no-output"),
        pytest.param(ASKED, [], [], 1, id="nothing-new"),
        pytest.param([], SAID, ASKED, 2, id="nothing-was-asked"),
        pytest.param([], [], [], 0, id="nothing-at-all"),
    ],
)
def test_a_follow_up_adds_a_segment_for_each_that_is_not_empty(
    store: ResponseStore, first: list[Item], output: list[Item], own: list[Item], expected: int
) -> None:
    store.begin(OWNER, build_body("a", "completed", output=output), first)
    store.begin(OWNER, build_body("b", "completed"), own, recall(store, "a"))
    segments = count_rows(store)["segments"]
    assert (store.read_input(OWNER, "b"), segments) == ([*first, *output, *own], expected)


def test_a_long_conversation_is_kept_once(store: ResponseStore) -> None:
    """Neither its items nor their keys grow with the square of its length."""
    image = build_item("image", "x" * 1_000_000)
    store.begin(OWNER, build_body("0", "completed", output=[build_item("say-0")]), [image])
    for number in range(1, 21):
        keep(store, str(number), recall(store, str(number - 1)))
    rows = count_rows(store)
    names = list_names(recall(store, "20").items)
    expected = [name for number in range(1, 21) for name in (f"ask-{number}", f"say-{number}")]
    assert names == ["image", "say-0", *expected]
    assert (rows["segments"], rows["item_keys"]) == (1 + 20 * 2, 21 * 2)
    assert count_used_bytes(store) < 1_500_000


@pytest.mark.parametrize(
    "order", [pytest.param(order, id="".join(order)) for order in itertools.permutations(TREE)]
)
def test_what_is_deleted_takes_nothing_from_the_others(store: ResponseStore, order: tuple[str, ...]) -> None:
    keep_tree(store)
    left = dict(WHOLE)
    for each in order:
        store.delete(OWNER, each)
        del left[each]
        assert list_conversations(store) == left
    rows = count_rows(store)
    assert rows == dict.fromkeys(rows, 0)


def expire_a(store: ResponseStore, clock: Clock) -> None:
    clock.now_s += TTL_S / 2 + 1
    store.start()


def disown_a(store: ResponseStore, clock: Clock) -> None:
    store.disown("a")
    store.start()


def evict_a(store: ResponseStore, clock: Clock) -> None:
    without_room = ResponseStore(store._database._path.parent, Limits(TTL_S, 1), 10, clock)
    with contextlib.closing(without_room):
        without_room.start()


def delete_a(store: ResponseStore, clock: Clock) -> None:
    store.delete(OWNER, "a")


@pytest.mark.parametrize("remove", [delete_a, expire_a, evict_a, disown_a])
def test_however_a_response_goes_its_follow_up_stays_whole(
    store: ResponseStore, clock: Clock, remove: Callable[[ResponseStore, Clock], None]
) -> None:
    keep(store, "a")
    clock.now_s += TTL_S / 2
    keep(store, "b", recall(store, "a"), "in_progress")
    remove(store, clock)
    found = list_conversations(store)
    store.update(OWNER, build_body("b", "completed", output=[build_item("say-b")]))
    clock.now_s += TTL_S + 1
    store.start()
    rows = count_rows(store)
    assert (found, rows) == ({"b": WHOLE["b"]}, dict.fromkeys(rows, 0))


def take_a_number(store: ResponseStore) -> None:
    """By another's response: what was deleted had the highest number, which is free again."""
    store.begin("key-2", build_body("secret", "completed"), [build_item("secret")])


def delete(store: ResponseStore) -> None:
    store.delete(OWNER, "a")


def delete_and_reuse(store: ResponseStore) -> None:
    store.delete(OWNER, "a")
    take_a_number(store)


def remove_file(store: ResponseStore) -> None:
    store._database._path.unlink()


def replace_file(store: ResponseStore) -> None:
    remove_file(store)
    take_a_number(store)


@pytest.mark.parametrize("remove", [delete, delete_and_reuse, remove_file, replace_file])
def test_what_is_deleted_behind_a_recall_is_written_again(
    open_store: OpenStore, remove: Callable[[ResponseStore], None]
) -> None:
    store, other = open_store(), open_store()
    keep(store, "a")
    earlier = recall(store, "a")
    remove(other)
    keep(store, "b", earlier)
    found = recall(store, "b")
    assert (list_names(found.items), len(list_segments(store, found))) == (WHOLE["b"], 2)


def test_segments_that_another_response_still_holds_are_shared(store: ResponseStore) -> None:
    keep_tree(store)
    earlier = recall(store, "a")
    store.delete(OWNER, "a")
    keep(store, "e", earlier)
    found = recall(store, "e")
    names = [*WHOLE["a"], "ask-e", "say-e"]
    assert list_names(found.items) == names
    assert list_segments(store, found)[0] == list_segments(store, recall(store, "b"))[0]


def test_a_conversation_that_was_never_stored_is_written_whole(store: ResponseStore) -> None:
    keep(store, "b", Conversation([build_item("ask-a"), build_item("say-a")]))
    assert list_conversations(store) == {"b": WHOLE["b"]}


@pytest.mark.parametrize("ask", [ResponseStore.recall, ResponseStore.read_input])
@pytest.mark.parametrize("is_followed", [False, True], ids=["alone", "followed"])
def test_a_deletion_amid_reading_leaves_all_or_nothing(
    open_store: OpenStore, ask: Callable[..., Any], is_followed: bool
) -> None:
    reader, other = open_store(), open_store()
    keep(reader, "a")
    if is_followed:
        keep(reader, "b", recall(reader, "a"))
    expected = ask(reader, OWNER, "a") if is_followed else None

    def delete_first(sql: str) -> None:
        if "chain" in sql:
            other.delete(OWNER, "a")
            keep(other, "other")

    watch(reader, delete_first)
    assert (ask(reader, OWNER, "a"), other.get(OWNER, "a")) == (expected, None)


def test_a_failed_begin_leaves_no_segments(store: ResponseStore) -> None:
    keep(store, "a")
    before = count_rows(store)
    with pytest.raises(StoreFault, match="UNIQUE"):
        keep(store, "a", recall(store, "a"))
    assert count_rows(store) == before


@pytest.mark.parametrize(
    ("ask", "key"),
    [
        pytest.param(ResponseStore.get, "a", id="get"),
        pytest.param(find_item, "fc_1", id="an-item-of-the-output"),
        pytest.param(find_call, "1", id="a-call"),
    ],
)
def test_an_input_is_not_read_for_what_is_not_in_it(
    store: ResponseStore, ask: Callable[..., Any], key: str
) -> None:
    store.begin(OWNER, build_body("a", "completed", output=[build_call("1")]), [build_item("ask-a")])
    read: list[str] = []
    watch(store, read.append)
    assert ask(store, OWNER, key)
    assert [sql for sql in read if "segments" in sql] == []


@pytest.mark.parametrize(
    ("item_id", "expected"),
    [
        pytest.param("ask-b", build_item("ask-b"), id="own-input"),
        pytest.param("say-b", build_item("say-b"), id="output"),
        pytest.param("ask-a", None, id="input-of-a-response-that-is-gone"),
        pytest.param("say-a", None, id="output-of-a-response-that-is-gone"),
    ],
)
def test_an_item_is_found_where_it_came_from(
    store: ResponseStore, item_id: str, expected: Item | None
) -> None:
    """A response answers for its own items, not for the conversation before them."""
    keep(store, "a")
    keep(store, "b", recall(store, "a"))
    had_all = all(find_item(store, OWNER, each) for each in WHOLE["b"])
    store.delete(OWNER, "a")
    assert (had_all, find_item(store, OWNER, item_id)) == (True, expected)


def test_a_call_recalls_the_conversation_in_which_it_was_made(store: ResponseStore) -> None:
    """Not that of a response that merely follows."""
    store.begin(OWNER, build_body("a", "completed", output=[build_call("1")]), [build_item("ask-a")])
    keep(store, "b", recall(store, "a"))
    store.begin("key-2", build_body("c", "completed", output=[build_call("1")]), [])
    found = store.recall_call(OWNER, "1")
    assert (found, store.recall_call(OWNER, "2")) == (recall(store, "a"), None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "follow", "follow", "follow", "delete", "late", "age"]),
        st.integers(0, 9),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=25,
)


class Model:
    """The store, beside a plain record of what it should hold."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.clock = Clock()
        self.store = ResponseStore(folder, Limits(TTL_S, MAX_BYTES), 10, self.clock)
        self.held: dict[str, list[Item]] = {}
        self.made_s: dict[str, float] = {}

    def pick(self, number: int) -> str | None:
        return list(self.held)[number % len(self.held)] if self.held else None

    def begin(self, earlier: Conversation, own: int, output: int) -> None:
        name = f"resp_{len(self.made_s)}"
        asked = [build_item(f"ask-{name}-{number}") for number in range(own)]
        said = [build_item(f"say-{name}-{number}") for number in range(output)]
        self.store.begin(OWNER, build_body(name, "completed", output=said), asked, earlier)
        self.held[name] = [*earlier.items, *asked, *said]
        self.made_s[name] = self.clock.now_s

    def delete(self, name: str) -> None:
        assert self.store.delete(OWNER, name)
        del self.held[name]

    def age(self) -> None:
        self.clock.now_s += TTL_S / 2 + 1
        self.store.start()
        oldest_s = self.clock.now_s - TTL_S
        self.held = {name: items for name, items in self.held.items() if self.made_s[name] > oldest_s}

    def step(self, kind: str, number: int, own: int, output: int) -> None:
        previous = self.pick(number)
        earlier = recall(self.store, previous) if previous and kind != "begin" else NOTHING
        if kind == "age":
            self.age()
            return
        if previous and kind in ("delete", "late"):
            self.delete(previous)
        if kind != "delete":
            self.begin(earlier, own, output)

    def check(self) -> None:
        recalled = {name: recall(self.store, name) for name in self.held}
        assert {name: each.items for name, each in recalled.items()} == self.held
        linked = {number for each in recalled.values() for number in list_segments(self.store, each)}
        assert count_rows(self.store)["segments"] == len(linked)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_whatever_comes_and_goes_each_conversation_is_whole(steps: list[tuple[str, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(pathlib.Path(folder))
        with contextlib.closing(model.store):
            for step in steps:
                model.step(*step)
                model.check()
            for name in list(model.held):
                model.delete(name)
            rows = count_rows(model.store)
    assert rows == dict.fromkeys(rows, 0)


def test_a_response_that_holds_several_items_is_read_once(store: ResponseStore) -> None:
    items = [build_item(f"ask-{number}") for number in range(700)]
    store.begin(OWNER, build_body("a", "completed"), items)
    read: list[str] = []
    watch(store, read.append)
    found = store.find_items(OWNER, {("item", item["id"]) for item in items})
    assert found == {("item", item["id"]): item for item in items}
    assert sum("SELECT body" in sql or "SELECT items" in sql for sql in read) == 2


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda store: store.recall(OWNER, "b"), id="a-conversation"),
        pytest.param(lambda store: store.read_input(OWNER, "b"), id="an-input"),
        pytest.param(
            lambda store: store.find_items(OWNER, {("item", "ask-a"), ("item", "ask-b")}), id="items"
        ),
    ],
)
def test_no_request_has_more_read_than_it_may(
    folder: pathlib.Path, clock: Clock, ask: Callable[[ResponseStore], object]
) -> None:
    for max_read_bytes, is_enough in ((1 << 20, True), (1000, False)):
        limits = Limits(TTL_S, MAX_BYTES, max_read_bytes)
        with contextlib.closing(ResponseStore(folder, limits, 10, clock)) as store:
            if is_enough:
                store.begin(OWNER, build_body("a", "completed"), [build_item("ask-a", "x" * 600)])
                own = [build_item("ask-b", "x" * 600)]
                store.begin(OWNER, build_body("b", "completed"), own, recall(store, "a"))
                assert ask(store)
            else:
                with pytest.raises(TooMuch):
                    ask(store)
