"""What a client may name an item by: its id, or the call_id of a call."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

Item = dict[str, Any]
Key = tuple[str, str]


def insert_keys(connection: sqlite3.Connection, response: int | None, keys: Iterable[Key]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO item_keys VALUES (?, ?, ?)", [(*key, response) for key in keys]
    )


def list_output_keys(body: dict[str, Any]) -> set[Key]:
    output = body.get("output", ())
    return list_keys(output) | {("call", item["call_id"]) for item in output if is_call(item)}


def list_keys(items: Iterable[Item]) -> set[Key]:
    return {("item", item["id"]) for item in items if isinstance(item.get("id"), str)}


def is_call(item: Item) -> bool:
    return str(item.get("type")).endswith("_call") and isinstance(item.get("call_id"), str)
