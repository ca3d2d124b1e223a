"""The inputs of stored responses: chains of segments, of which a conversation's responses share the front."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from app.store.database import Database, TooMuch

#: A segment's number and its items, encoded.
Segment = tuple[int, bytes]

# The items stay out of the recursion, which copies all that it carries.
CHAIN = """
    WITH RECURSIVE chain (place, number) AS (
        VALUES (0, ?)
        UNION ALL SELECT place - 1, earlier FROM chain JOIN segments USING (number) WHERE earlier IS NOT NULL
    )
"""
READ_CHAIN = CHAIN + "SELECT place, number, items FROM chain JOIN segments USING (number)"  # noqa: S608
MEASURE_CHAIN = CHAIN + "SELECT coalesce(sum(length(items)), 0) FROM chain JOIN segments USING (number)"  # noqa: S608
IS_HELD = """
    SELECT EXISTS (SELECT 1 FROM responses WHERE segment = ?1)
        OR EXISTS (SELECT 1 FROM segments WHERE earlier = ?1)
"""


def read_chain(database: Database, last: int | None, max_bytes: int) -> list[Segment] | None:
    """From the first to the last; None if they are gone.

    A segment never changes, and those before it stay as long as it does: it is all of them or none.
    """
    if last is None:
        return []
    if sum(size for (size,) in database.read(MEASURE_CHAIN, (last,))) > max_bytes:
        raise TooMuch
    rows = sorted(database.read(READ_CHAIN, (last,)))
    return [(number, items) for _, number, items in rows] or None


def has_segment(connection: sqlite3.Connection, number: int) -> bool:
    return bool(connection.execute("SELECT 1 FROM segments WHERE number = ?", (number,)).fetchall())


def insert_segments(connection: sqlite3.Connection, last: int | None, pieces: Iterable[bytes]) -> int | None:
    """Put a segment for each piece behind that one; the number of the last."""
    for items in pieces:
        last = connection.execute(
            "INSERT INTO segments (earlier, items) VALUES (?, ?)", (last, items)
        ).lastrowid
    return last


def delete_response(connection: sqlite3.Connection, condition: str, parameters: tuple[Any, ...]) -> bool:
    """The one that meets the condition, with all that only it needs; false if there is none."""
    sql = f"SELECT number, segment FROM responses WHERE {condition}"  # noqa: S608  every condition is ours
    for number, segment in connection.execute(sql, parameters).fetchall():
        connection.execute("DELETE FROM responses WHERE number = ?", (number,))
        release(connection, segment)
        return True
    return False


def release(connection: sqlite3.Connection, last: int | None) -> None:
    """Delete segments from that one to the front, as far as nothing else holds them."""
    while last is not None and not connection.execute(IS_HELD, (last,)).fetchone()[0]:
        (earlier,) = connection.execute("SELECT earlier FROM segments WHERE number = ?", (last,)).fetchone()
        connection.execute("DELETE FROM segments WHERE number = ?", (last,))
        last = earlier
