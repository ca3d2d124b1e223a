"""The client's tools as codex takes them, and what must be said in words because codex would cut it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from app.backend.tool_names import ToolNames
from app.lib.errors import InvalidRequest
from app.lib.json_depth import is_deeper
from app.lib.json_text import dump_json
from app.lib.tool_registry import ToolSpec

Schema = dict[str, Any]

ANY_OBJECT: Schema = {"type": "object", "properties": {}}
# From here on codex drops descriptions, then definitions, then what lies deep.
MAX_SCHEMA_BYTES = 5000
# A line nested deeper than 127 is never answered; some levels of it are the call around a schema.
MAX_SCHEMA_DEPTH = 123
MAX_OUTPUT_SCHEMA_DEPTH = 125
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
# A root that only takes null is refused.
NULL_TYPES = ("null", ["null"])
BY_NAME = ("properties", "$defs", "definitions")
ONE = ("items", "additionalProperties")
SEVERAL = ("anyOf", "oneOf", "allOf")
# Demands on a value that codex leaves out; a strict tool's arguments would be refused for them.
UNTOLD = frozenset(
    {
        *("pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("maxItems", "uniqueItems", "prefixItems", "contains", "minContains", "maxContains"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
        *(
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedProperties",
            "unevaluatedItems",
        ),
        *("not", "if", "const", "nullable"),
    }
)


def build_dynamic_tools(specs: Sequence[ToolSpec], names: ToolNames) -> list[dict[str, Any]]:
    return [build_dynamic_tool(spec, names.to_codex(spec.name)) for spec in specs]


def build_dynamic_tool(spec: ToolSpec, name: str) -> dict[str, Any]:
    schema = ANY_OBJECT if spec.parameters is None else spec.parameters
    taken = schema if is_taken(schema) else ANY_OBJECT
    is_whole = taken is schema and not is_cut_short(spec, schema)
    return {
        "type": "function",
        "name": name,
        "description": "\n\n".join(describe(spec, name, None if is_whole else dump_json(schema))),
        "inputSchema": taken,
    }


def describe(spec: ToolSpec, name: str, schema: str | None) -> Iterator[str]:
    """What codex requires, if the client has not said it, and what it would otherwise lose."""
    yield spec.description or f"Calls {spec.name}."
    if name != spec.name:
        yield f"Elsewhere this tool is called `{spec.name}`."
    if schema is not None:
        yield f"The arguments must conform to this JSON schema:\n{schema}"


def is_cut_short(spec: ToolSpec, schema: Schema) -> bool:
    """Whether codex passes on less of a schema than the model needs."""
    if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
        return True
    parts = (part for part in walk(schema) if isinstance(part, dict))
    return bool(spec.strict) and any(not UNTOLD.isdisjoint(part) for part in parts)


def is_taken(schema: Schema) -> bool:
    """Whether codex takes a schema, or would refuse the whole thread for it."""
    # The order counts: what nests too deep cannot be walked.
    is_walkable = schema.get("type") not in NULL_TYPES and not is_deeper(schema, MAX_SCHEMA_DEPTH)
    return is_walkable and all(map(is_readable, walk(schema)))


def walk(schema: Any) -> Iterator[Any]:
    """Every schema in this one, itself first, also those that are none."""
    yield schema
    if not isinstance(schema, dict):
        return
    for part in find_parts(schema):
        yield from walk(part)


def find_parts(schema: Schema) -> Iterator[Any]:
    for keyword in BY_NAME:
        if isinstance(named := schema.get(keyword), dict):
            yield from named.values()
    for keyword in SEVERAL:
        if isinstance(several := schema.get(keyword), list):
            yield from several
    for keyword in ONE:
        if schema.get(keyword) is not None:
            yield schema[keyword]


def is_readable(schema: Any) -> bool:
    """Whether codex takes a schema, its parts aside; to it null is a keyword left out."""
    if not isinstance(schema, dict):
        return isinstance(schema, bool)
    checked = ((KEYWORD_CHECKS.get(keyword), value) for keyword, value in schema.items())
    return all(check is None or value is None or check(value) for check, value in checked)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not is_flag(value) and value >= 0


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_schema(value: Any) -> bool:
    return is_object(value) or is_flag(value)


def is_list_of_texts(value: Any) -> bool:
    return is_list(value) and all(map(is_text, value))


def is_type(value: Any) -> bool:
    return all(each in TYPES for each in (value if is_list(value) else [value]))


#: What a keyword must be where codex reads it.
KEYWORD_CHECKS: dict[str, Callable[[Any], bool]] = {
    "type": is_type,
    "description": is_text,
    "$ref": is_text,
    "encrypted": is_flag,
    "minItems": is_count,
    "enum": is_list,
    "anyOf": is_list,
    "oneOf": is_list,
    "allOf": is_list,
    "required": is_list_of_texts,
    "properties": is_object,
    "items": is_schema,
    "additionalProperties": is_schema,
}


def validate_output_schema(schema: Schema | None) -> None:
    if is_deeper(schema, MAX_OUTPUT_SCHEMA_DEPTH):
        raise InvalidRequest(f"The answer's schema nests deeper than {MAX_OUTPUT_SCHEMA_DEPTH} levels.")
