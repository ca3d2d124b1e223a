"""What the strict subset allows of a schema as a whole: its size, its depth, unions it can tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

# As OpenAI documents them; past one of them the request is refused.
MAX_LEVELS = 10
MAX_PROPERTIES = 5000
MAX_CHARS = 120_000
MAX_ENUM_VALUES = 1000
LONG_ENUM_VALUES = 250
MAX_LONG_ENUM_CHARS = 15_000
SECTIONS = ("$defs", "definitions")
# These stand for others in a pointer; names that need them are rare.
ESCAPED = frozenset("/~%")

Schema = dict[str, Any]


def list_targets(schema: Schema) -> dict[str, Any]:
    """What a reference within the schema can lead to, by the reference."""
    sections = [(key, schema[key]) for key in SECTIONS if isinstance(schema.get(key), dict)]
    return {"#": schema} | {
        f"#/{key}/{name}": each
        for key, section in sections
        for name, each in section.items()
        if not ESCAPED & set(name)
    }


def list_types(kind: Any) -> list[Any]:
    """`type` has one, or a list of them."""
    return kind if isinstance(kind, list) else [kind]


def list_values(strict: Schema) -> list[Any]:
    """The only values that a strict schema allows, where it lists them."""
    return [strict["const"]] if "const" in strict else strict.get("enum", [])


def fits_limits(strict: Schema) -> bool:
    """Whether a schema of the subset keeps to what is said of all its parts together."""
    nodes = list(iterate_nodes(strict))
    names = [name for node, _ in nodes for name in node.get("properties", ())]
    enums = [list_values(node) for node, _ in nodes]
    targets = list_targets(strict)
    texts = [*names, *strict.get("$defs", ()), *(value for enum in enums for value in enum)]
    return (
        max(level for _, level in nodes) <= MAX_LEVELS
        and len(names) <= MAX_PROPERTIES
        and sum(map(len, enums)) <= MAX_ENUM_VALUES
        and count_chars(texts) <= MAX_CHARS
        and all(len(enum) <= LONG_ENUM_VALUES or count_chars(enum) <= MAX_LONG_ENUM_CHARS for enum in enums)
        and all(tells_apart(node["anyOf"], targets) for node, _ in nodes if "anyOf" in node)
    )


def count_chars(values: list[Any]) -> int:
    return sum(len(str(value)) for value in values)


def iterate_nodes(strict: Schema) -> Iterator[tuple[Schema, int]]:
    """Every schema within, and the objects and arrays around it, itself among them."""
    pending = [(strict, 0), *((each, 0) for each in strict.get("$defs", {}).values())]
    while pending:
        node, above = pending.pop()
        level = above + (node.get("type") in ("object", "array"))
        yield node, level
        items = [node["items"]] if "items" in node else []
        inner = [*node.get("properties", {}).values(), *node.get("anyOf", ()), *items]
        pending.extend((each, level) for each in inner)


def tells_apart(ways: list[Schema], targets: dict[str, Schema]) -> bool:
    """Whether the objects of a union differ in their first key, or in what it can be.

    Some models refuse the schema otherwise: "must not share identical first keys".
    """
    firsts: dict[str, list[list[Any]]] = defaultdict(list)
    for way in ways:
        properties = targets.get(way.get("$ref", ""), way).get("properties", {})
        for name in list(properties)[:1]:
            firsts[name].append(list_values(properties[name]))
    return all(len(enums) == 1 or are_disjoint(enums) for enums in firsts.values())


def are_disjoint(enums: list[list[Any]]) -> bool:
    values = [value for enum in enums for value in enum]
    return all(enums) and len(set(values)) == len(values)
