"""A client's JSON schema in the subset that an answer can be held to; for the way back see `optional_nulls`.

The subset is that of OpenAI's structured outputs: closed objects whose properties are all required. It may
allow more than the client's own schema, never other things: an answer is checked against that one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.lib.schema_check.effort import count_values
from app.lib.strict_limits import fits_limits, list_targets, list_types, list_values

# More than the subset allows of anything; a schema of as many takes 40 ms to convert.
MAX_VALUES = 32_000
SCALARS = ("string", "integer", "number", "boolean", "null")
NOTES = frozenset(("title", "description"))
# The subset lacks these, and without them the rest of a schema may not mean what it did.
REFUSED = frozenset(
    ("allOf", "not", "if", "dependentSchemas", "dependencies", "prefixItems", "$dynamicRef", "$recursiveRef")
)
SHAPES = frozenset(("properties", "items", "enum", "const"))
UNIONS = ("anyOf", "oneOf")
NOT_BESIDE_REF = SHAPES | frozenset(UNIONS)
OPENNESS = ("additionalProperties", "unevaluatedProperties")
FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
NUMBERS = frozenset(("integer", "number"))


class Inexpressible(Exception):
    """The subset cannot say this."""


def to_strict(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in the strict subset; `None` where the subset cannot say it."""
    if count_values(schema, MAX_VALUES) >= MAX_VALUES:
        return None
    try:
        strict = Converter(schema).convert_root()
    except (Inexpressible, RecursionError):
        return None
    return strict if fits_limits(strict) else None


def is_format(value: Any) -> bool:
    return isinstance(value, str) and value in FORMATS


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# The narrowing keywords that the subset knows, with the types they say something of. It has `pattern` too,
# but refuses many a pattern (lookarounds), and a refused schema fails the turn.
KEYWORDS: dict[str, tuple[frozenset[str], Callable[[Any], bool]]] = {
    "format": (frozenset(("string",)), is_format),
    "minimum": (NUMBERS, is_number),
    "maximum": (NUMBERS, is_number),
    "exclusiveMinimum": (NUMBERS, is_number),
    "exclusiveMaximum": (NUMBERS, is_number),
    "multipleOf": (NUMBERS, is_number),
    "minItems": (frozenset(("array",)), is_count),
    "maxItems": (frozenset(("array",)), is_count),
}


class Converter:
    """Converts one schema; of its definitions those that are used."""

    __slots__ = ("_definitions", "_pending", "_root", "_targets")

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._targets = list_targets(root)
        self._definitions: dict[str, dict[str, Any]] = {}
        self._pending: list[tuple[str, Any]] = []

    def convert_root(self) -> dict[str, Any]:
        root = self._enter_root()
        names = [pointer.rpartition("/")[2] for pointer in self._targets]
        if root.get("type", "object") not in ("object", ["object"]) or len(set(names)) < len(names):
            raise Inexpressible
        # A tool without parameters often says no more than that they are an object.
        strict = self.convert({"properties": {}, "additionalProperties": False, **root, "type": "object"})
        while self._pending:
            name, schema = self._pending.pop()
            self._definitions[name] = self.convert(schema)
        return strict | ({"$defs": self._definitions} if self._definitions else {})

    def _enter_root(self) -> dict[str, Any]:
        """The root, or the definition that it only points to."""
        if "$ref" not in self._root:
            return merge_only(self._root)
        if NOT_BESIDE_REF & self._root.keys():
            raise Inexpressible
        return merge_only(self._targets.get(str(self._root["$ref"])))

    def convert(self, schema: Any) -> dict[str, Any]:
        schema = merge_only(schema)
        if REFUSED & schema.keys():
            raise Inexpressible
        if "$ref" in schema:
            return self._convert_ref(schema)
        shape = self._convert_union(schema) or convert_values(schema) or self._convert_types(schema)
        return shape | {key: schema[key] for key in NOTES if isinstance(schema.get(key), str)}

    def _convert_ref(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A reference, alone: the subset allows not even a description beside it."""
        ref = schema["$ref"]
        if not isinstance(ref, str) or ref not in self._targets or NOT_BESIDE_REF & schema.keys():
            raise Inexpressible
        if ref == "#":
            return {"$ref": ref}
        name = ref.rpartition("/")[2]
        if name not in self._definitions:
            self._definitions[name] = {}
            self._pending.append((name, self._targets[ref]))
        return {"$ref": f"#/$defs/{name}"}

    def _convert_union(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        unions = [key for key in UNIONS if key in schema]
        if not unions:
            return None
        ways = [way for key in unions for way in read(schema, key, list, [])]
        shaped = SHAPES & schema.keys()
        if shaped and all(map(is_narrowing, ways)):
            return None
        if shaped or not ways or len(unions) > 1:
            raise Inexpressible
        return {"anyOf": [self.convert(way) for way in ways]}

    def _convert_types(self, schema: dict[str, Any]) -> dict[str, Any]:
        types = read_types(schema) or infer_types(schema)
        scalars = [each for each in types if each in SCALARS]
        parts = [build_typed(scalars, schema)] if scalars else []
        if "object" in types:
            parts.append(self._convert_object(schema))
        if "array" in types:
            parts.append(build_typed(["array"], schema) | {"items": self.convert(schema.get("items"))})
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _convert_object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties = read(schema, "properties", dict, {})
        required = set(map(str, read(schema, "required", list, [])))
        opened = [schema[key] for key in OPENNESS if key in schema]
        if any(each is not False for each in opened) or schema.get("patternProperties"):
            raise Inexpressible
        if not (properties or opened) or required - properties.keys():
            raise Inexpressible
        converted = {name: self.convert(each) for name, each in properties.items()}
        strict = {name: each if name in required else to_nullable(each) for name, each in converted.items()}
        closed = {"required": list(strict), "additionalProperties": False}
        return {"type": "object", "properties": strict, **closed}


def merge_only(schema: Any) -> dict[str, Any]:
    """The schema with an `allOf` of one taken into it: so Pydantic 1 describes a reference."""
    if not isinstance(schema, dict):
        raise Inexpressible
    match schema.get("allOf"):
        case [dict(only)] if not (only.keys() & schema.keys()) - NOTES:
            return only | {key: value for key, value in schema.items() if key != "allOf"}
        case _:
            return schema


def is_narrowing(way: Any) -> bool:
    """Whether a way of a union only asks that some of the properties beside the union be there."""
    return isinstance(way, dict) and way.keys() <= NOTES | {"required"}


def convert_values(schema: dict[str, Any]) -> dict[str, Any] | None:
    """`enum` or `const`, with the values and types that go together."""
    values = [schema["const"]] if "const" in schema else read(schema, "enum", list, None)
    if values is None:
        return None
    if any(isinstance(value, dict | list) for value in values):
        raise Inexpressible
    types = read_types(schema) or list(dict.fromkeys(map(name_type, values)))
    allowed = [value for value in values if any(is_of(value, each) for each in types)]
    used = [each for each in types if any(is_of(value, each) for value in allowed)]
    if not used:
        raise Inexpressible
    return {"type": join_types(used)} | ({"const": values[0]} if "const" in schema else {"enum": allowed})


def name_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def is_of(value: Any, kind: str) -> bool:
    if kind == "number":
        return is_number(value)
    return name_type(value) == kind or (kind == "integer" and isinstance(value, float) and value.is_integer())


def read_types(schema: dict[str, Any]) -> list[str]:
    types = list_types(schema.get("type", []))
    if any(each not in (*SCALARS, "object", "array") for each in types):
        raise Inexpressible
    return list(dict.fromkeys(types))


def infer_types(schema: dict[str, Any]) -> list[str]:
    types = [kind for key, kind in (("properties", "object"), ("items", "array")) if key in schema]
    if not types:
        raise Inexpressible
    return types


def build_typed(types: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: schema[key]
        for key, (kinds, is_good) in KEYWORDS.items()
        if key in schema and kinds & set(types) and is_good(schema[key])
    }
    return {"type": join_types(types), **kept}


def join_types(types: list[str]) -> str | list[str]:
    return types[0] if len(types) == 1 else types


def to_nullable(strict: dict[str, Any]) -> dict[str, Any]:
    """What a property that may be left out becomes: `null` stands for its absence."""
    if allows_null(strict):
        return strict
    null = {"type": "null"}
    match strict:
        case {"anyOf": [*ways]}:
            return strict | {"anyOf": [*ways, null]}
        case {"$ref": _} | {"type": "object" | "array"}:
            return {"anyOf": [strict, null]}
        case _:
            return to_nullable_scalar(strict)


def to_nullable_scalar(strict: dict[str, Any]) -> dict[str, Any]:
    values = list_values(strict)
    enum = {"enum": [*values, None]} if values else {}
    rest = {key: value for key, value in strict.items() if key != "const"}
    return rest | {"type": [*list_types(strict["type"]), "null"]} | enum


def allows_null(strict: dict[str, Any]) -> bool:
    if "anyOf" in strict:
        return any(map(allows_null, strict["anyOf"]))
    return "null" in list_types(strict.get("type"))


def read(schema: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    value = schema.get(key, default)
    if key in schema and not isinstance(value, kind):
        raise Inexpressible
    return value
