"""Input items as they are stored and listed: what codex is given, with what clients look for besides."""

from __future__ import annotations

from typing import Any

from app.lib.prompt import build_item
from app.lib.request import HistoryItem

Item = dict[str, Any]

PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
#: Where an item holds parts, and what clients want to see of them.
PARTS = ("content", "output")
PART_DETAILS: dict[str, Item] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
}


def build_input_item(item: HistoryItem, number: str) -> Item:
    """The item under an id that ends in `number`."""
    told = build_item(item)
    kind: str = told["type"]
    parts = {key: describe(told[key]) for key in PARTS if key in told}
    named = {"id": f"{PREFIXES[kind]}_{number}", **told, **parts}
    if kind != "reasoning":
        return named | {"status": "completed"}
    # Reasoning has no status; what the client was not given of it is left out.
    return {key: value for key, value in named.items() if value is not None}


def describe(value: str | list[Item]) -> str | list[Item]:
    if isinstance(value, str):
        return value
    return [part | PART_DETAILS.get(part["type"], {}) for part in value]
