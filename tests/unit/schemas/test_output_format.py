"""Response formats, good and bad."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
import pytest

from app.lib.request import JsonFormat
from app.schemas.loading import find_first
from app.schemas.output_format import read_response_format
from app.schemas.tools import DEPTH_RULE, MAX_SCHEMA_LEVELS, MAX_SCHEMA_VALUES, SIZE_RULE

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def json_schema(**nested: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": nested}


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"type": "text"}, None, id="text"),
        pytest.param({"type": "json_object"}, JsonFormat(), id="object"),
        pytest.param(
            json_schema(name="a", description="b", schema=SCHEMA, strict=True),
            JsonFormat(SCHEMA, True),
            id="strict",
        ),
        pytest.param(json_schema(name="a", schema=SCHEMA, strict=False), JsonFormat(SCHEMA), id="not-strict"),
        pytest.param(json_schema(name="a", schema=SCHEMA), JsonFormat(SCHEMA), id="strictness-unsaid"),
        pytest.param(
            json_schema(name="a", description=None, schema=None, strict=None), JsonFormat(), id="nulls"
        ),
        pytest.param(json_schema(schema={}, x=1), JsonFormat({}), id="no-name-and-an-unknown-key"),
        pytest.param(
            json_schema(schema=nest(MAX_SCHEMA_LEVELS)), JsonFormat(nest(MAX_SCHEMA_LEVELS)), id="deepest"
        ),
    ],
)
def test_formats(value: Any, expected: JsonFormat | None) -> None:
    assert read_response_format(value) == expected


KINDS = "Must be one of: text, json_object, json_schema."


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        pytest.param("json_object", "", "Must be an object.", id="a-word"),
        pytest.param([], "", "Must be an object.", id="a-list"),
        pytest.param({}, "type", KINDS, id="no-type"),
        pytest.param({"type": "xml"}, "type", KINDS, id="unknown"),
        pytest.param({"type": ["text"]}, "type", KINDS, id="type-list"),
        pytest.param({"type": "json_schema"}, "json_schema", "Must be an object.", id="no-schema"),
        pytest.param(
            {"type": "json_schema", "schema": SCHEMA}, "json_schema", "Must be an object.", id="flat"
        ),
        pytest.param(json_schema(name=5), "json_schema.name", "Must be a string.", id="name"),
        pytest.param(
            json_schema(description=5),
            "json_schema.description",
            "Must be a string or null.",
            id="description",
        ),
        pytest.param(
            json_schema(schema="object"),
            "json_schema.schema",
            "Must be a JSON schema object or null.",
            id="schema-text",
        ),
        pytest.param(
            json_schema(strict="yes"), "json_schema.strict", "Must be true, false or null.", id="strict-text"
        ),
        pytest.param(
            json_schema(schema=nest(MAX_SCHEMA_LEVELS + 1)), "json_schema.schema", DEPTH_RULE, id="deep"
        ),
        pytest.param(
            json_schema(schema={"enum": [1] * MAX_SCHEMA_VALUES}), "json_schema.schema", SIZE_RULE, id="large"
        ),
    ],
)
def test_bad_formats(value: Any, path: str, message: str) -> None:
    with pytest.raises(ma.ValidationError) as raised:
        read_response_format(value)
    assert find_first(raised.value.messages) == (path, message)
