"""Takes out the nulls that the strict subset makes a model write for the properties it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any

from app.lib.strict_limits import list_targets, list_types

MAX_DEPTH = 100
MAX_HOPS = 20
MAX_STEPS = 100_000
UNIONS = ("anyOf", "oneOf")

Schema = dict[str, Any]


def drop_nulls(value: Any, schema: Schema | None) -> Any:
    """The value without each null of a property that the schema lets be absent but not null.

    The very same object where there is no such null, or where a union leaves open which schema counts.
    """
    return value if schema is None else NullDropper(schema).drop(value, schema)


class NullDropper:
    """Reads values by one schema, in a bounded number of steps: what lies past them stays as it is."""

    __slots__ = ("_steps", "_targets")

    def __init__(self, root: Schema) -> None:
        self._targets = list_targets(root)
        self._steps = MAX_STEPS

    def drop(self, value: Any, schema: Any, depth: int = MAX_DEPTH) -> Any:
        found = self._resolve(schema, value) if isinstance(value, dict | list) and depth else None
        if found is None:
            return value
        drop = self._drop_in_list if isinstance(value, list) else self._drop_in_object
        return drop(value, found, depth - 1)

    def _drop_in_list(self, value: list[Any], schema: Schema, depth: int) -> list[Any]:
        dropped = [self.drop(each, schema.get("items"), depth) for each in value]
        return value if all(map(is_, dropped, value)) else dropped

    def _drop_in_object(self, value: dict[str, Any], schema: Schema, depth: int) -> dict[str, Any]:
        properties, required = self._read(schema)
        dropped = {
            name: self.drop(each, properties.get(name), depth)
            for name, each in value.items()
            if each is not None or name in required or self._allows_null(properties.get(name))
        }
        same = len(dropped) == len(value) and all(map(is_, dropped.values(), value.values()))
        return value if same else dropped

    def _resolve(self, schema: Any, value: Any, hops: int = MAX_HOPS) -> Schema | None:
        """The schema that says what is in the value; `None` where that is not clear."""
        self._steps -= 1
        if not isinstance(schema, dict) or not hops or self._steps < 0:
            return None
        if "properties" in schema or "items" in schema:
            return schema
        return self._resolve(self._hop(schema, value, hops - 1), value, hops - 1)

    def _hop(self, schema: Schema, value: Any, hops: int) -> Any:
        match schema:
            case {"$ref": str(ref)}:
                return self._targets.get(ref)
            case {"allOf": [only]}:
                return only
            case {"anyOf": list(ways)} | {"oneOf": list(ways)}:
                found = [self._resolve(way, value, hops) for way in ways]
                fitting = [way for way in found if way and self._may_hold(way, value)]
                return fitting[0] if len(fitting) == 1 else None
            case _:
                return None

    def _may_hold(self, way: Schema, value: Any) -> bool:
        if isinstance(value, list):
            return "items" in way
        self._steps -= len(value)
        properties, required = self._read(way)
        return required <= value.keys() <= properties.keys() and all(
            each is None or is_listed(each, properties[name]) for name, each in value.items()
        )

    def _read(self, schema: Schema) -> tuple[dict[str, Any], set[str]]:
        properties, required = schema.get("properties"), schema.get("required")
        names = set(map(str, required)) if isinstance(required, list) else set()
        self._steps -= len(names)
        return (properties if isinstance(properties, dict) else {}), names

    def _allows_null(self, schema: Any, hops: int = MAX_HOPS) -> bool:
        """Whether null may be meant; it may where that is not clear."""
        self._steps -= 1
        if not isinstance(schema, dict) or not hops or self._steps < 0:
            return True
        return all(self._judge_null(schema, hops - 1))

    def _judge_null(self, schema: Schema, hops: int) -> Iterator[bool]:
        """What each keyword that can forbid null says of it."""
        yield is_listed(None, schema)
        yield "null" in list_types(schema.get("type", "null"))
        for key in UNIONS:
            if isinstance(schema.get(key), list):
                yield any(self._allows_null(way, hops) for way in schema[key])
        for way in list_types(schema.get("allOf", [])):
            yield self._allows_null(way, hops)
        yield self._allows_null(self._targets.get(str(schema.get("$ref"))), hops)


def is_listed(value: Any, schema: Any) -> bool:
    """Whether the value is among those of an `enum` or a `const`, where the schema has one."""
    match schema:
        case {"const": only}:
            return bool(value == only)
        case {"enum": list(values)}:
            return value in values
        case _:
            return True


def has_optional(schema: Any) -> bool:
    """Whether a schema names a property anywhere that may be left out."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if not list_names(part.get("properties")) <= list_names(part.get("required")):
                return True
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return False


def list_names(names: Any) -> set[str]:
    """The names in a list of them, or those that an object has."""
    return {name for name in names if isinstance(name, str)} if isinstance(names, dict | list) else set()
