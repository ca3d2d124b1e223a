"""The responses that clients may come back to: kept in SQLite, seen by their owner only."""

from __future__ import annotations

import pathlib
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from app.store.database import Database
from app.store.encoding import decode, encode
from app.store.item_keys import Item, Key, insert_keys, name_items, name_output
from app.store.limits import Limits
from app.store.lookup import find_items
from app.store.schema import MIGRATIONS
from app.store.segments import Segment, delete_response, has_segment, insert_segments, read_chain
from app.store.sweep import Sweeper
from app.store.workers import WorkerLock

FILE_NAME = "responses.sqlite3"
UNDER_WAY = ("queued", "in_progress")

Body = dict[str, Any]

LIVE = "id = ? AND owner = ? AND created_s > ?"
FIND_BY_ID = f"SELECT body, segment FROM responses WHERE {LIVE}"  # noqa: S608  LIVE is ours
FIND_BY_KEY = """
    SELECT body, segment FROM item_keys JOIN responses ON number = response
    WHERE kind = ? AND key = ? AND owner = ? AND created_s > ? ORDER BY number DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a response has come."""

    status: str
    is_background: bool

    @property
    def is_over(self) -> bool:
        return self.status not in UNDER_WAY


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a response belongs behind: the input and output of a stored one, or nothing."""

    #: All of it, in order.
    items: list[Item]
    #: The last of the segments that hold its input already.
    segment: int | None = None
    #: What of the items is in no segment yet: the output it ends with.
    tail: list[Item] = field(default_factory=list)


NOTHING = Conversation([])


class ResponseStore:
    """One for each worker, all on the same file; any operation may raise StoreFault."""

    def __init__(
        self,
        folder: pathlib.Path,
        limits: Limits,
        lock_timeout_s: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._database = Database(folder / FILE_NAME, MIGRATIONS, lock_timeout_s)
        self._worker = WorkerLock(folder)
        self._sweeper = Sweeper(self._database, folder, limits, clock)

    def start(self) -> None:
        """Open, and tidy up after workers that were killed; in the worker, after fork."""
        self._database.open()
        self._worker.hold()
        self._sweeper.sweep()

    def close(self) -> None:
        """Let go of the file; what is still under way counts as left behind."""
        self._worker.release()
        self._database.close()

    def begin(self, owner: str, body: Body, own_items: list[Item], earlier: Conversation = NOTHING) -> None:
        """Keep a new response; one that is under way is this worker's until its end is written."""
        encoded, own = encode(body), encode_piece(own_items)
        keys = {*name_items(own_items), *name_output(body.get("output", ()))}
        worker = self._claim_if_under_way(body["status"])
        about = (body["status"], worker, body["background"])
        row = (body["id"], owner, self._clock(), *about, encoded)

        def keep(connection: sqlite3.Connection) -> int:
            last, unwritten = find_place(connection, earlier)
            pieces = [*encode_piece(unwritten), *own]
            insert(connection, (*row, insert_segments(connection, last, pieces)), keys)
            return sum(map(len, pieces))

        self._sweeper.count(len(encoded) + self._database.write(keep))
        if worker is None:  # the client of one that is under way waits for its first token
            self._sweeper.sweep_if_due()

    def update(self, owner: str, body: Body) -> bool:
        """Write the response as it is now, whatever its status; false if it was deleted meanwhile."""
        encoded, keys = encode(body), name_output(body.get("output", ()))
        row = (body["status"], self._claim_if_under_way(body["status"]), encoded)
        whose = (body["id"], owner)
        is_there = self._database.write(lambda connection: update(connection, whose, row, keys))
        self._sweeper.count(len(encoded))
        self._sweeper.sweep_if_due()
        return is_there

    def disown(self, response_id: str) -> None:
        """Have one that could not be finished deleted as soon as that can be done."""
        self._sweeper.disown(response_id)

    def get(self, owner: str, response_id: str) -> Body | None:
        """None if it is unknown, another's, expired or deleted."""
        for body, _ in self._find_live(response_id, owner):
            found: Body = decode(body)
            return found
        return None

    def get_standing(self, owner: str, response_id: str) -> Standing | None:
        """As get, without the body; for those who look again and again."""
        if self._is_disowned(response_id):
            return None
        whose = (response_id, owner, self._oldest_s())
        sql = f"SELECT status, is_background FROM responses WHERE {LIVE}"  # noqa: S608  LIVE is ours
        rows = self._database.read(sql, whose)
        return next((Standing(status, bool(is_background)) for status, is_background in rows), None)

    def read_input(self, owner: str, response_id: str) -> list[Item] | None:
        """All that the model was told, in order; None as of get."""
        for _, segment in self._find_live(response_id, owner):
            chain = read_chain(self._database, segment, self._limits.max_read_bytes)
            return None if chain is None else join(chain)
        return None

    def recall(self, owner: str, response_id: str) -> Conversation | None:
        """What a follow-up of the response belongs behind; None as of get."""
        return self._recall(self._find_live(response_id, owner))

    def recall_call(self, owner: str, call_id: str) -> Conversation | None:
        """The same of the newest response in which a model made that call."""
        return self._recall(self._find(FIND_BY_KEY, "call", call_id, owner))

    def delete(self, owner: str, response_id: str) -> bool:
        """With its events and items; false if there was nothing to delete."""
        whose = (response_id, owner, self._oldest_s())
        return self._database.write(lambda connection: delete_response(connection, LIVE, whose))

    def find_items(self, owner: str, keys: Collection[Key]) -> dict[Key, Item]:
        """The newest item of each `("item", id)`, and of each `("call", call_id)` that a model made."""
        return find_items(self._database, (owner, self._oldest_s()), keys, self._limits.max_read_bytes)

    def add_events(self, response_id: str, events: list[tuple[int, bytes]]) -> bool:
        """Keep frames by their sequence numbers; false if the response was deleted meanwhile."""
        is_there = self._database.write(lambda connection: insert_events(connection, response_id, events))
        self._sweeper.count(sum(len(frame) for _, frame in events))
        return is_there

    def read_events(self, response_id: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._database.read(
            "SELECT sequence, frame FROM events JOIN responses ON responses.number = response"
            " WHERE id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
            (response_id, after, limit),
        )

    def ask_cancel(self, owner: str, response_id: str) -> bool:
        """Tell the worker that makes it; false if it is not under way."""
        sql = f"UPDATE responses SET is_cancel_asked = 1 WHERE {LIVE} AND worker IS NOT NULL"  # noqa: S608
        whose = (response_id, owner, self._oldest_s())
        return self._database.write(lambda connection: connection.execute(sql, whose).rowcount > 0)

    def is_cancel_asked(self, response_id: str) -> bool:
        """Also true of a response that was deleted: nobody waits for it any more."""
        rows = self._database.read("SELECT is_cancel_asked FROM responses WHERE id = ?", (response_id,))
        return not rows or bool(rows[0][0])

    def _is_disowned(self, response_id: str) -> bool:
        """Whether it only looks as if it were under way; the first who asks has it deleted."""
        if not self._sweeper.has_disowned(response_id):
            return False
        self._sweeper.sweep_if_due()
        return True

    def _find_live(self, response_id: str, owner: str) -> list[Any]:
        return [] if self._is_disowned(response_id) else self._find(FIND_BY_ID, response_id, owner)

    def _find(self, sql: str, *parameters: str) -> list[Any]:
        """The body and last segment of a response that has not expired."""
        return self._database.read(sql, (*parameters, self._oldest_s()))

    def _recall(self, found: list[Any]) -> Conversation | None:
        for body, segment in found:
            chain = read_chain(self._database, segment, self._limits.max_read_bytes)
            if chain is None:
                return None
            output = decode(body).get("output", [])
            return Conversation([*join(chain), *output], segment, output)
        return None

    def _oldest_s(self) -> float:
        return self._clock() - self._limits.ttl_s

    def _claim_if_under_way(self, status: str) -> str | None:
        """The worker's name goes into a row only with its lock held, or another would repair the row."""
        return self._worker.hold() if status in UNDER_WAY else None


def find_place(connection: sqlite3.Connection, earlier: Conversation) -> tuple[int | None, list[Item]]:
    """The segment to go on behind, and what of the conversation neither it nor those before it hold."""
    if earlier.segment is not None and has_segment(connection, earlier.segment):
        return earlier.segment, earlier.tail
    return None, earlier.items  # nothing was held, or it was deleted since it was recalled


def insert(connection: sqlite3.Connection, row: tuple[Any, ...], keys: Iterable[Key]) -> None:
    number = connection.execute(
        "INSERT INTO responses (id, owner, created_s, status, worker, is_background, body, segment)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    ).lastrowid
    insert_keys(connection, number, keys)


def update(
    connection: sqlite3.Connection, whose: tuple[str, str], row: tuple[Any, ...], keys: Iterable[Key]
) -> bool:
    found = connection.execute("SELECT number FROM responses WHERE id = ? AND owner = ?", whose).fetchone()
    if found is None:
        return False
    connection.execute(
        "UPDATE responses SET status = ?, worker = ?, body = ? WHERE number = ?", (*row, *found)
    )
    insert_keys(connection, found[0], keys)
    return True


def insert_events(connection: sqlite3.Connection, response_id: str, events: list[tuple[int, bytes]]) -> bool:
    found = connection.execute("SELECT number FROM responses WHERE id = ?", (response_id,)).fetchone()
    if found is None:
        return False
    # A writer that saw a failure may send a frame again that was kept after all.
    connection.executemany(
        "INSERT OR IGNORE INTO events (response, sequence, frame) VALUES (?, ?, ?)",
        [(*found, *event) for event in events],
    )
    return True


def encode_piece(items: list[Item]) -> list[bytes]:
    """For a segment; none for nothing."""
    return [encode(items)] if items else []


def join(chain: Iterable[Segment]) -> list[Item]:
    return [item for _, items in chain for item in decode(items)]
