"""Housekeeping of the stored responses: what killed workers left, what is too old, what is too much."""

from __future__ import annotations

import logging
import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterable

from app.store.database import Database, StoreFault
from app.store.encoding import decode, encode
from app.store.limits import Limits
from app.store.pauses import with_pauses
from app.store.segments import delete_response
from app.store.workers import list_workers, take_over

log = logging.getLogger(__name__)

SWEEP_PERIOD_S = 60.0
#: When a sweep left something to do.
SHORT_PERIOD_S = 1.0
#: A worker that has written this part of the limit does not wait for the minute to end.
SWEEP_SHARE = 16
#: What one transaction deletes at most: the worker stands still meanwhile.
BITE_BYTES = 1 << 20
BITE_ROWS = 64
BITE_PAGES = 256
#: Free pages kept for what comes next, rather than given back and taken again.
SPARE_PAGES = 1024
#: What a request that happens to sweep waits for it at most; the next one goes on.
SWEEP_BUDGET_S = 0.1
STOPPED = {"code": "server_error", "message": "The gateway stopped before the answer was complete."}
OLDEST_FINISHED = """
    SELECT number FROM responses WHERE worker IS NULL AND created_s < ? ORDER BY created_s, number LIMIT ?
"""

#: Part of a chore, in one transaction; false when there is nothing left to do.
Bite = Callable[[sqlite3.Connection], bool]


class Sweeper:
    """One worker's share of the housekeeping, done in passing by what it writes."""

    def __init__(
        self, database: Database, folder: pathlib.Path, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._next_s = 0.0
        self._unswept_bytes = 0
        self._disowned: set[str] = set()

    def count(self, written_bytes: int) -> None:
        self._unswept_bytes += written_bytes

    def disown(self, response_id: str) -> None:
        """Have it deleted by the first sweep that can."""
        self._disowned.add(response_id)
        self._hurry()

    def has_disowned(self, response_id: str) -> bool:
        return response_id in self._disowned

    def sweep_if_due(self) -> None:
        is_much = self._unswept_bytes * SWEEP_SHARE >= self._limits.max_bytes
        if is_much or time.monotonic() >= self._next_s:
            self.sweep()

    def sweep(self) -> None:
        """As far as it can be done now; nobody is to fail for it."""
        # First of all, so that the requests that come meanwhile do not sweep as well.
        self._next_s = time.monotonic() + SWEEP_PERIOD_S
        self._unswept_bytes = 0
        try:
            self._delete_disowned()
            if not do_chores(self._database, self._folder, self._limits, self._clock()):
                self._hurry()
        except (StoreFault, OSError) as error:  # the next one does what this one could not
            log.warning("the stored responses could not be swept: %s", error)
        if self._disowned:
            self._hurry()

    def _hurry(self) -> None:
        self._next_s = min(self._next_s, time.monotonic() + SHORT_PERIOD_S)

    def _delete_disowned(self) -> None:
        ids = tuple(self._disowned)[:BITE_ROWS]
        if ids:
            self._database.write(lambda connection: delete_all(connection, ids))
        self._disowned.difference_update(ids)


def do_chores(database: Database, folder: pathlib.Path, limits: Limits, now_s: float) -> bool:
    """In bites, between which others have their turn; false if it is more than one sweep may do."""
    repair(database, folder)
    until_s = time.monotonic() + SWEEP_BUDGET_S
    steps: tuple[Bite, ...] = (
        lambda connection: delete_expired(connection, now_s - limits.ttl_s),
        lambda connection: evict(connection, limits.max_bytes),
        give_back_pages,
    )
    return all(take_bites(database, step, until_s) for step in steps)


def take_bites(database: Database, bite: Bite, until_s: float = float("inf")) -> bool:
    """Repeat it until it finds nothing; false if time ran out before."""
    taken = iter(lambda: bool(database.write(bite)), False)
    return all(time.monotonic() < until_s for _ in with_pauses(taken))


def repair(database: Database, folder: pathlib.Path) -> None:
    """Fail what a worker that is gone had under way; one that lives keeps its lock, and its rows."""
    under_way = database.read("SELECT DISTINCT worker FROM responses WHERE worker IS NOT NULL")
    for name in {row[0] for row in under_way} | list_workers(folder):
        with take_over(folder, name) as is_gone:
            if is_gone:
                fail_all(database, name)


def fail_all(database: Database, worker: str) -> None:
    take_bites(database, lambda connection: fail_some(connection, worker))


def fail_some(connection: sqlite3.Connection, worker: str) -> bool:
    rows = connection.execute(
        "SELECT number, body FROM responses WHERE worker = ? LIMIT ?", (worker, BITE_ROWS)
    ).fetchall()
    for number, body in rows:
        fail(connection, number, body)
    return bool(rows)


def fail(connection: sqlite3.Connection, number: int, body: bytes) -> None:
    try:
        failed = encode(decode(body) | {"status": "failed", "error": STOPPED})
    except StoreFault:  # nothing is left to tell of, and it must not be in the way of the others
        delete_response(connection, "number = ?", (number,))
        return
    connection.execute(
        "UPDATE responses SET status = 'failed', worker = NULL, body = ? WHERE number = ?", (failed, number)
    )


def delete_all(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    for response_id in ids:
        delete_response(connection, "id = ?", (response_id,))


def delete_expired(connection: sqlite3.Connection, before_s: float) -> bool:
    return delete_oldest(connection, before_s, BITE_BYTES)


def evict(connection: sqlite3.Connection, max_bytes: int) -> bool:
    excess = count_used_bytes(connection) - max_bytes
    return excess > 0 and delete_oldest(connection, float("inf"), min(excess, BITE_BYTES))


def delete_oldest(connection: sqlite3.Connection, before_s: float, enough_bytes: int) -> bool:
    """Delete finished responses, oldest first, until so many bytes are free; whether there were any.

    How much one frees is known only behind: segments stay for the responses that share them.
    """
    numbers = connection.execute(OLDEST_FINISHED, (before_s, BITE_ROWS)).fetchall()
    goal_bytes = count_used_bytes(connection) - enough_bytes
    for number in numbers:
        delete_response(connection, "number = ?", number)
        if count_used_bytes(connection) <= goal_bytes:
            break
    return bool(numbers)


def give_back_pages(connection: sqlite3.Connection) -> bool:
    spare = read_pragma(connection, "freelist_count") - SPARE_PAGES
    if spare <= 0:
        return False
    for _ in range(min(spare, BITE_PAGES)):
        # Page by page: it frees one a step, and the module takes a single step of what yields no columns.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return True


def count_used_bytes(connection: sqlite3.Connection) -> int:
    """By pages: known without looking at a row."""
    pages = read_pragma(connection, "page_count") - read_pragma(connection, "freelist_count")
    return pages * read_pragma(connection, "page_size")


def read_pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
