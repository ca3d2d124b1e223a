"""What keys and models used: a row an hour, key and model, and the newest requests one by one."""

from __future__ import annotations

import logging
import pathlib
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.lib.account_limits import AccountLimits, build_limits
from app.lib.keys import STRANGER
from app.store.database import Database, StoreFault
from app.store.pauses import with_pauses
from app.store.usage_schema import MIGRATIONS

log = logging.getLogger(__name__)

FILE_NAME = "usage.sqlite3"
HOUR_S = 3600
DAY_S = 24 * HOUR_S
PRUNE_PERIOD_S = 300.0
#: What one transaction writes or deletes at most: the worker stands still meanwhile.
BITE_ROWS = 500
#: Numbers of a request's log line that add up, as the columns of an hour are named.
ADDED = (
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "tool_calls",
)
BUFFERS = ("tool_buffer_started", "tool_buffer_flushed", "tool_buffer_aborted")
COLUMNS = ("requests", "errors", *ADDED, *BUFFERS)
FAILED = 400
#: Of the newest requests, this part may be of those who have no key.
STRANGERS_SHARE = 10

Fields = dict[str, Any]
#: An hour (in hours since the epoch), a key's name, a model.
Place = tuple[int, str, str]
#: A number, a time, and what was kept.
NumberedEntry = tuple[int, float, Fields]

ADD_HOUR = f"""
    INSERT INTO hours (hour, key, model, {", ".join(COLUMNS)}) VALUES (?, ?, ?{", ?" * len(COLUMNS)})
    ON CONFLICT DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in COLUMNS)}
"""  # noqa: S608  the names are ours
READ_HOURS = f"""
    SELECT hour, key, model, {", ".join(COLUMNS)} FROM hours
    WHERE hour >= ? AND hour < ? AND (? IS NULL OR key = ?) ORDER BY hour, key, model
"""  # noqa: S608  the names are ours
READ_ENTRIES = """
    SELECT number, at_s, entry FROM entries
    WHERE at_s >= ? AND at_s < ? AND number < ? ORDER BY number DESC LIMIT ?
"""
READ_NEWEST = "SELECT number, at_s, entry FROM entries ORDER BY number DESC LIMIT ?"
READ_ENTRIES_OF = READ_ENTRIES.replace("WHERE", "WHERE key = ? AND")
READ_LIMITS = "SELECT told_s, limits FROM account"

#: What goes first, each in bites.
DROP_OLD_HOURS = f"""
    DELETE FROM hours WHERE number IN (SELECT number FROM hours WHERE hour < ? LIMIT {BITE_ROWS})
"""  # noqa: S608  the number is ours
DROP_OLD_ENTRIES = f"""
    DELETE FROM entries WHERE number IN (SELECT number FROM entries WHERE at_s < ? LIMIT {BITE_ROWS})
"""  # noqa: S608  the number is ours
DROP_EXCESS_ENTRIES = f"""
    DELETE FROM entries WHERE number IN (
        SELECT number FROM entries
        WHERE number <= (SELECT number FROM entries ORDER BY number DESC LIMIT 1 OFFSET ?) LIMIT {BITE_ROWS}
    )
"""  # noqa: S608  the number is ours
DROP_STRANGERS = f"""
    DELETE FROM entries WHERE number IN (
        SELECT number FROM entries WHERE key = ? AND number <= (
            SELECT number FROM entries WHERE key = ? ORDER BY number DESC LIMIT 1 OFFSET ?
        ) LIMIT {BITE_ROWS}
    )
"""  # noqa: S608  the number is ours


@dataclass(frozen=True, slots=True)
class Entry:
    """A request that ended."""

    at_s: float
    #: One of the models there are, or what stands for the others.
    model: str
    #: Those of its log line.
    fields: Fields

    @property
    def place(self) -> Place:
        return int(self.at_s // HOUR_S), self.fields.get("key", ""), self.model

    def count(self) -> Counter[str]:
        """What it adds to its hour."""
        fields = self.fields
        is_failed = "error" in fields or fields.get("status", 0) >= FAILED
        # What went on behind its request: that has an entry of its own.
        is_request = not fields.get("background")
        counts = Counter(requests=int(is_request), errors=int(is_failed))
        for name in ADDED:
            counts[name] += fields.get(name, 0)
        counts.update(count_buffers(fields))
        return counts


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, and whose use of it is asked for; `None` is everybody's."""

    start_s: float
    end_s: float
    key: str | None = None


@dataclass(frozen=True, slots=True)
class HourRow:
    hour: int
    key: str
    model: str
    counts: Counter[str]


class UsageStore:
    """One for each worker, all on the same file; any operation may raise StoreFault."""

    def __init__(
        self,
        folder: pathlib.Path,
        days: int,
        most_entries: int,
        lock_timeout_s: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._days = days
        self._most_entries = most_entries
        self._clock = clock
        self._database = Database(folder / FILE_NAME, MIGRATIONS, lock_timeout_s)
        self._next_prune_s = 0.0
        self._unpruned = 0

    def start(self) -> None:
        """Open; in the worker, after fork."""
        self._database.open()

    def close(self) -> None:
        self._database.close()

    def add(self, entries: list[Entry], limits: AccountLimits | None = None) -> None:
        """Keep these, all or none."""
        if not entries and limits is None:
            return
        rows = [(entry.at_s, entry.fields.get("key", ""), orjson.dumps(entry.fields)) for entry in entries]
        hours = add_up(entries)

        def keep(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT INTO entries (at_s, key, entry) VALUES (?, ?, ?)", rows)
            for place, counts in hours.items():
                connection.execute(ADD_HOUR, (*place, *(counts[name] for name in COLUMNS)))
            if limits is not None:
                known = find_limits(connection.execute(READ_LIMITS)).update(limits)
                row = (self._clock(), orjson.dumps(known.to_dict()))
                connection.execute("INSERT OR REPLACE INTO account VALUES (1, ?, ?)", row)

        self._database.write(keep)
        self._unpruned += len(entries)
        self._prune_if_due()

    def read_hours(self, span: Span) -> Iterator[HourRow]:
        """Every hour that the span touches; read a day at a time, between which others have their turn."""
        first, behind = int(span.start_s // HOUR_S), int(-(-span.end_s // HOUR_S))
        first = max(first, int((self._clock() - self._days * DAY_S) // HOUR_S))
        for day in with_pauses(range(first, behind, 24)):
            until = min(day + 24, behind)
            for row in self._database.read(READ_HOURS, (day, until, span.key, span.key)):
                hour, key, model, *counts = row
                yield HourRow(hour, key, model, Counter(dict(zip(COLUMNS, counts, strict=True))))

    def read_entries(self, span: Span, before: int, limit: int) -> list[NumberedEntry]:
        """The newest of the span first, behind the one of that number."""
        when = (span.start_s, span.end_s, before, limit)
        rows = (
            self._database.read(READ_ENTRIES, when)
            if span.key is None
            else self._database.read(READ_ENTRIES_OF, (span.key, *when))
        )
        return parse_entries(rows)

    def read_newest(self, limit: int) -> list[NumberedEntry]:
        """Of everybody's, the newest first."""
        return parse_entries(self._database.read(READ_NEWEST, (limit,)))

    def read_limits(self) -> tuple[float, AccountLimits] | None:
        """What was told last, and when."""
        rows = self._database.read(READ_LIMITS)
        return (rows[0][0], find_limits(rows)) if rows else None

    def _prune_if_due(self) -> None:
        """What was kept is kept, whatever becomes of this; it is due again."""
        is_much = self._unpruned * STRANGERS_SHARE >= self._most_entries
        if not is_much and time.monotonic() < self._next_prune_s:
            return
        self._next_prune_s = time.monotonic() + PRUNE_PERIOD_S
        self._unpruned = 0
        try:
            self._prune()
        except StoreFault as error:
            log.warning("what was used long ago could not be dropped: %s", error)

    def _prune(self) -> None:
        oldest_s = self._clock() - self._days * DAY_S
        # Whoever has no key must not push out what those did who have one.
        strangers = (STRANGER.name, STRANGER.name, self._most_entries // STRANGERS_SHARE)
        self._drop_all(DROP_OLD_HOURS, (oldest_s / HOUR_S - 1,))
        self._drop_all(DROP_OLD_ENTRIES, (oldest_s,))
        self._drop_all(DROP_STRANGERS, strangers)
        self._drop_all(DROP_EXCESS_ENTRIES, (self._most_entries,))

    def _drop_all(self, sql: str, parameters: tuple[Any, ...]) -> None:
        def drop(connection: sqlite3.Connection) -> int:
            return connection.execute(sql, parameters).rowcount

        for _ in with_pauses(iter(lambda: self._database.write(drop), 0)):
            pass


def parse_entries(rows: Iterable[tuple[int, float, bytes]]) -> list[NumberedEntry]:
    return [(number, at_s, orjson.loads(entry)) for number, at_s, entry in rows]


def find_limits(rows: Iterable[tuple[float, bytes]]) -> AccountLimits:
    """Those of the one row there may be."""
    return next((build_limits(orjson.loads(limits)) for _, limits in rows), AccountLimits())


def count_buffers(fields: Fields) -> Counter[str]:
    """How much was held back, whatever the spelling and the reason."""
    counts: Counter[str] = Counter()
    for name, value in fields.items():
        kind = name.partition(".")[0]
        if kind in BUFFERS:
            counts[kind] += value
    return counts


def add_up(entries: list[Entry]) -> dict[Place, Counter[str]]:
    hours: dict[Place, Counter[str]] = {}
    for entry in entries:
        hours.setdefault(entry.place, Counter()).update(entry.count())
    return hours
