"""Finds items by what clients name them by; a response that holds several is read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from app.store.database import Database, TooMuch
from app.store.encoding import decode
from app.store.item_keys import Key, Named, name_items, name_output
from app.store.pauses import with_pauses

#: An owner, and since when what is stored counts.
Scope = tuple[str, float]

#: Between two of these the other greenlets have their turn.
KEYS_AT_ONCE = 300
#: How to measure and how to read what a response holds.
BODY = ("SELECT length(body) FROM responses WHERE number = ?", "SELECT body FROM responses WHERE number = ?")
OWN_SEGMENT = "FROM responses JOIN segments ON segments.number = segment WHERE responses.number = ?"
OWN_ITEMS = (f"SELECT length(items) {OWN_SEGMENT}", f"SELECT items {OWN_SEGMENT}")


class Reader:
    """Reads what was stored, up to a limit for all of it."""

    def __init__(self, database: Database, max_bytes: int) -> None:
        self._database = database
        self._left_bytes = max_bytes

    def read(self, queries: tuple[str, str], number: int) -> Any:
        """None where there is nothing."""
        measure, read = queries
        self._left_bytes -= sum(size for (size,) in self._database.read(measure, (number,)))
        if self._left_bytes < 0:
            raise TooMuch
        return next((decode(blob) for (blob,) in self._database.read(read, (number,))), None)


def find_items(database: Database, scope: Scope, keys: Collection[Key], max_bytes: int) -> Named:
    """The newest item of each key, from the output of a response or its own input; a call as it was made."""
    reader = Reader(database, max_bytes)
    found: Named = {}
    for number, wanted in with_pauses(find_holders(database, scope, keys).items()):
        found |= pick(reader, number, wanted)
    return found


def find_holders(database: Database, scope: Scope, keys: Collection[Key]) -> dict[int, set[Key]]:
    """The newest response for each key."""
    holders: dict[int, set[Key]] = defaultdict(set)
    for some in with_pauses(split(sorted(keys))):
        rows = database.read(
            "SELECT kind, key, max(number) FROM item_keys JOIN responses ON number = response"  # noqa: S608
            f" WHERE (kind, key) IN (VALUES {', '.join(['(?, ?)'] * len(some))})"
            " AND owner = ? AND created_s > ? GROUP BY kind, key",
            (*(each for key in some for each in key), *scope),
        )
        for kind, key, number in rows:
            holders[number].add((kind, key))
    return holders


def split(keys: list[Key]) -> Iterator[list[Key]]:
    return (keys[start : start + KEYS_AT_ONCE] for start in range(0, len(keys), KEYS_AT_ONCE))


def pick(reader: Reader, number: int, wanted: set[Key]) -> Named:
    """From the output; only what is not there is looked for in the input, which may be large."""
    named = name_output((reader.read(BODY, number) or {}).get("output", ()))
    if not wanted <= named.keys():
        named = name_items(reader.read(OWN_ITEMS, number) or ()) | named
    return {key: named[key] for key in wanted if key in named}
