"""Runs a schema over a body, and names the field that is wrong in one sentence."""

from __future__ import annotations

from typing import Any

import marshmallow as ma

from app.lib.errors import InvalidRequest


def load_body(schema: ma.Schema, body: Any) -> Any:
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.")
    try:
        return schema.load(body)
    except ma.ValidationError as error:
        path, message = find_first(error.messages)
        raise InvalidRequest(f"{path}: {message}" if path else message, param=path or None) from error


def find_first(messages: Any, path: str = "") -> tuple[str, str]:
    """The first complaint, as (`messages[3].content`, text)."""
    match messages:
        case {"_schema": rest}:  # marshmallow's word for the value as a whole
            return find_first(rest, path)
        case dict() if messages:
            key, rest = next(iter(messages.items()))
            step = f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
            return find_first(rest, path + step)
        case list() if messages:
            return find_first(messages[0], path)
        case _:
            return path, str(messages)
