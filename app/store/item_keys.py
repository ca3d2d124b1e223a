"""What a client may name an item by: its id, or the call_id of a call."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

Item = dict[str, Any]
Key = tuple[str, str]
#: An item under each of its names.
Named = dict[Key, Item]


def insert_keys(connection: sqlite3.Connection, response: int | None, keys: Iterable[Key]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO item_keys VALUES (?, ?, ?)", [(*key, response) for key in keys]
    )


def name_output(output: Collection[Item]) -> Named:
    """What a model made: its calls go by two names."""
    return name_items(output) | {("call", item["call_id"]): item for item in output if is_call(item)}


def name_items(items: Iterable[Item]) -> Named:
    return {("item", item["id"]): item for item in items if isinstance(item.get("id"), str)}


def is_call(item: Item) -> bool:
    return str(item.get("type")).endswith("_call") and isinstance(item.get("call_id"), str)
