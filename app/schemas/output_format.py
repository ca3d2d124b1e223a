"""The form a request wants its answer in."""

from __future__ import annotations

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
    if read_kind(raw) != "json_schema":
        return OTHERS[raw["type"]]
    return read_schema_format(read_object(raw.get("json_schema"), "json_schema"), "json_schema")


def read_text_format(value: Any) -> JsonFormat | None:
    """Responses' `text.format`, which is flat."""
    raw = read_object(value)
    return read_schema_format(raw) if read_kind(raw) == "json_schema" else OTHERS[raw["type"]]


def read_kind(raw: dict[str, Any]) -> str:
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise complain(f"Must be one of: {', '.join(KINDS)}.", "type")
    return kind


def read_schema_format(raw: dict[str, Any], *path: str) -> JsonFormat:
    for key, (kind, rule) in FIELDS.items():
        if raw.get(key) is not None and not isinstance(raw[key], kind):
            raise complain(rule, *path, key)
    validate_extent(raw.get("schema"), *path, "schema")
    return JsonFormat(raw.get("schema"), bool(raw.get("strict")))


#: Without a schema.
OTHERS: dict[str, JsonFormat | None] = {"text": None, "json_object": JsonFormat()}
KINDS = (*OTHERS, "json_schema")
