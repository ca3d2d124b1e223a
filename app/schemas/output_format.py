"""The form a request wants its answer in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.lib.request import JsonFormat
from app.schemas.tools import complain, read_object, validate_extent

#: What a `json_schema` may say, and how to say what is wrong; codex has a name of its own for it.
FIELDS: dict[str, tuple[type, str]] = {
    "name": (str, "Must be a string."),
    "description": (str, "Must be a string or null."),
    "schema": (dict, "Must be a JSON schema object or null."),
    "strict": (bool, "Must be true, false or null."),
}


def read_response_format(value: Any) -> JsonFormat | None:
    """Chat's `response_format`; plain text is none."""
    raw = read_object(value)
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise complain(f"Must be one of: {', '.join(KINDS)}.", "type")
    return KINDS[kind](raw)


def read_schema_format(raw: dict[str, Any]) -> JsonFormat:
    nested = read_object(raw.get("json_schema"), "json_schema")
    for key, (kind, rule) in FIELDS.items():
        if nested.get(key) is not None and not isinstance(nested[key], kind):
            raise complain(rule, "json_schema", key)
    validate_extent(nested.get("schema"), "json_schema", "schema")
    return JsonFormat(nested.get("schema"), bool(nested.get("strict")))


KINDS: dict[str, Callable[[dict[str, Any]], JsonFormat | None]] = {
    "text": lambda _: None,
    "json_object": lambda _: JsonFormat(),
    "json_schema": read_schema_format,
}
