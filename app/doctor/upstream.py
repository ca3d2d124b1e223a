"""What reached the model, beside what the client said: the difference, item by item and tool by tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Item = dict[str, Any]

# What codex gives every item, and no model reads.
UNREAD = ("id", "status")


@dataclass(frozen=True, slots=True)
class Difference:
    """By name and size: whole texts do not belong on a terminal."""

    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.added:
            parts.append(f"codex sent more than the client's words: {', '.join(self.added)}")
        if self.missing:
            parts.append(f"codex did not send, or not as the client said it: {', '.join(self.missing)}")
        return "; ".join(parts)


SAME = Difference()


def compare(bodies: Sequence[Item], items: Sequence[Item], tools: Sequence[Item]) -> Difference:
    """`bodies`: the requests that the model got for one turn of these items and tools."""
    if not bodies:
        return Difference(missing=("the request",))
    body, *more = bodies
    said = compare_lists(read_list(body, "input"), items, describe_item)
    offered = compare_lists(read_list(body, "tools"), tools, describe_tool)
    instructions = describe_instructions(body.get("instructions"))
    again = [f"further requests ({len(more)})"] if more else []
    return Difference((*instructions, *said.added, *offered.added, *again), said.missing + offered.missing)


def compare_lists(arrived: list[Any], told: Sequence[Item], describe: Callable[[Any], str]) -> Difference:
    """In order: what is not the next that was told is an addition."""
    left, added = list(told), []
    for each in arrived:
        if left and strip(each) == left[0]:
            left.pop(0)
        else:
            added.append(describe(each))
    return Difference(tuple(added), tuple(map(describe, left)))


def read_list(body: Item, key: str) -> list[Any]:
    value = body.get(key)
    return value if isinstance(value, list) else []


def strip(item: Any) -> Any:
    return (
        {key: value for key, value in item.items() if key not in UNREAD} if isinstance(item, dict) else item
    )


def describe_instructions(value: Any) -> tuple[str, ...]:
    return (f"instructions ({measure(value)})",) if value else ()


def describe_item(item: Any) -> str:
    about = item if isinstance(item, dict) else {}
    kind = str(about.get("type"))
    named = f"a {about.get('role')} message" if kind == "message" else f"an item of type `{kind}`"
    return f"{named} ({measure(about.get('content', item))})"


def describe_tool(tool: Any) -> str:
    about = tool if isinstance(tool, dict) else {}
    return f"the tool `{about.get('name') or about.get('type')}` ({measure(tool)})"


def measure(value: Any) -> str:
    """The size of a text, of a message's parts, or of anything as JSON."""
    match value:
        case str():
            size = len(value)
        case [*parts] if all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
            size = sum(len(part["text"]) for part in parts)
        case _:
            size = len(json.dumps(value, ensure_ascii=False))
    return f"{size:,} characters"
