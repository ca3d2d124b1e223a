"""Stores on one file, by a clock that the test sets."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Callable, Iterator

import pytest

from app.store.item_keys import Item
from app.store.limits import Limits
from app.store.responses import Conversation, ResponseStore
from app.store.segments import read_chain
from tests.support.store_process import MAX_BYTES, OWNER, TTL_S

OpenStore = Callable[..., ResponseStore]
Find = Callable[[ResponseStore, str, str], Item | None]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "state" / "store"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(folder: pathlib.Path, clock: Clock) -> Iterator[OpenStore]:
    with contextlib.ExitStack() as stack:

        def open_store(max_bytes: int = MAX_BYTES, lock_timeout_s: float = 10) -> ResponseStore:
            store = ResponseStore(folder, Limits(TTL_S, max_bytes), lock_timeout_s, clock)
            return stack.enter_context(contextlib.closing(store))

        yield open_store


@pytest.fixture
def store(open_store: OpenStore) -> ResponseStore:
    return open_store()


def count_rows(store: ResponseStore) -> dict[str, int]:
    """Of every table that is ours."""
    named = store._database.read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    names = [name for (name,) in named if not name.startswith("sqlite_")]
    return {name: store._database.read(f"SELECT count(*) FROM {name}")[0][0] for name in names}


def list_kept(store: ResponseStore, ids: list[str]) -> list[str]:
    """Those that are in the file, whatever their worker says of them."""
    kept = {row[0] for row in store._database.read("SELECT id FROM responses")}
    return [each for each in ids if each in kept]


def recall(store: ResponseStore, response_id: str) -> Conversation:
    found = store.recall(OWNER, response_id)
    assert found
    return found


@contextlib.contextmanager
def hold_write_lock(path: pathlib.Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def find_item(store: ResponseStore, owner: str, item_id: str) -> Item | None:
    return store.find_items(owner, {("item", item_id)}).get(("item", item_id))


def find_call(store: ResponseStore, owner: str, call_id: str) -> Item | None:
    return store.find_items(owner, {("call", call_id)}).get(("call", call_id))


def list_segments(store: ResponseStore, conversation: Conversation) -> list[int]:
    """The numbers of all that hold its input."""
    return [number for number, _ in read_chain(store._database, conversation.segment, MAX_BYTES) or ()]
