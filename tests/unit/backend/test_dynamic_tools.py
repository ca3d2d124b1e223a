"""A client's tools as codex takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.backend.dynamic_tools import (
    MAX_OUTPUT_SCHEMA_DEPTH,
    build_dynamic_tools,
    validate_output_schema,
)
from app.backend.tool_names import ToolNames
from app.lib.errors import InvalidRequest
from app.lib.tool_registry import ToolSpec

ANY: dict[str, Any] = {"type": "object", "properties": {}}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = an_object(a=schema)
    return schema


def build(spec: ToolSpec) -> dict[str, Any]:
    [tool] = build_dynamic_tools([spec], ToolNames([spec]))
    return tool


def repeat(schema: dict[str, Any]) -> str:
    text = json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    return f"D.\n\nThe arguments must conform to this JSON schema:\n{text}"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            ToolSpec("f", "D.", an_object(a={"type": "string"})),
            ("f", "D.", an_object(a={"type": "string"})),
            id="whole",
        ),
        pytest.param(ToolSpec("f", "D."), ("f", "D.", ANY), id="no-parameters"),
        pytest.param(ToolSpec("f"), ("f", "Calls f.", ANY), id="no-description"),
        pytest.param(ToolSpec("f", ""), ("f", "Calls f.", ANY), id="an-empty-description"),
        pytest.param(
            ToolSpec("a.b", "D."),
            ("fn_a_b_ab888c88", "D.\n\nElsewhere this tool is called `a.b`.", ANY),
            id="under-another-name",
        ),
    ],
)
def test_a_tool(spec: ToolSpec, expected: tuple[str, str, dict[str, Any]]) -> None:
    name, description, schema = expected
    assert build(spec) == {
        "type": "function",
        "name": name,
        "description": description,
        "inputSchema": schema,
    }


LONG = an_object(a={"description": "x" * 4945})  # 5,000 bytes


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        pytest.param(LONG, None, id="as-long-as-codex-leaves-whole"),
        pytest.param(an_object(a={"pattern": "^x"}), None, id="demands-that-are-not-strict"),
        pytest.param(an_object(a={"title": "A", "default": 1}), True, id="words-that-demand-nothing"),
        pytest.param(an_object(pattern={"type": "string"}), True, id="a-property-called-like-a-demand"),
        pytest.param(
            an_object(a={"anyOf": [{"type": "null"}, True]}) | {"additionalProperties": False},
            True,
            id="a-schema-that-is-a-flag",
        ),
        pytest.param({"type": None, "items": None, "required": None}, True, id="null-is-as-good-as-nothing"),
        pytest.param({"$defs": [], "enum": [1], "minItems": 2, "type": ["object"]}, None, id="odd-but-taken"),
        pytest.param({}, True, id="empty"),
        pytest.param(nest(61), None, id="as-deep-as-codex-reads"),
    ],
)
def test_a_schema_that_says_it_all(schema: dict[str, Any], strict: bool | None) -> None:
    tool = build(ToolSpec("f", "D.", schema, strict))
    assert (tool["description"], tool["inputSchema"]) == ("D.", schema)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        pytest.param(an_object(a={"description": "x" * 4946}), None, id="too-long"),
        pytest.param(an_object(a={"description": "é" * 2473}), None, id="bytes-count"),
        pytest.param(an_object(a={"pattern": "^x"}), True, id="a-strict-demand"),
        pytest.param(an_object(a={"items": {"anyOf": [{"maximum": 1}]}}), True, id="deep-inside"),
        pytest.param({"$defs": {"d": {"const": 5}}, "$ref": "#/$defs/d"}, True, id="in-a-definition"),
    ],
)
def test_a_schema_that_codex_cuts_is_repeated(schema: dict[str, Any], strict: bool | None) -> None:
    tool = build(ToolSpec("f", "D.", schema, strict))
    assert (tool["description"], tool["inputSchema"]) == (repeat(schema), schema)


REFUSED = [
    pytest.param({"type": "null"}, id="only-null"),
    pytest.param({"type": ["null"]}, id="only-null-in-a-list"),
    pytest.param({"type": "wat", "anyOf": []}, id="an-unknown-type"),
    pytest.param({"type": ["object", 5]}, id="a-type-that-is-none"),
    pytest.param({"properties": []}, id="properties-in-a-list"),
    pytest.param(an_object(a=None), id="a-property-that-is-null"),
    pytest.param(an_object(a="string"), id="a-property-that-is-text"),
    pytest.param({"required": "a"}, id="required-as-text"),
    pytest.param({"required": ["a", 1]}, id="required-by-number"),
    pytest.param(an_object(a={"items": [{}]}), id="a-tuple"),
    pytest.param(an_object(a={"anyOf": {}}), id="alternatives-that-are-no-list"),
    pytest.param(an_object(a={"oneOf": [None]}), id="an-alternative-that-is-null"),
    pytest.param({"enum": "a"}, id="values-that-are-no-list"),
    pytest.param({"description": 1, "type": "string"}, id="a-description-that-is-no-text"),
    pytest.param({"minItems": True}, id="a-count-that-is-a-flag"),
    pytest.param({"minItems": -1}, id="a-count-below-zero"),
    pytest.param({"minItems": 1.5}, id="a-count-and-a-half"),
    pytest.param({"encrypted": 1, "type": "string"}, id="a-flag-that-is-a-number"),
    pytest.param({"additionalProperties": [], "type": "object"}, id="more-properties-in-a-list"),
    pytest.param(nest(62), id="too-deep-for-an-answer"),
]


@pytest.mark.parametrize("schema", REFUSED)
def test_a_schema_that_codex_refuses_is_told_in_words(schema: dict[str, Any]) -> None:
    tool = build(ToolSpec("f", "D.", schema))
    assert (tool["description"], tool["inputSchema"]) == (repeat(schema), ANY)


def test_a_schema_nobody_could_write_down() -> None:
    assert build(ToolSpec("f", "D.", nest(100_000))) == {
        "type": "function",
        "name": "f",
        "description": "D.",
        "inputSchema": ANY,
    }


def test_an_output_schema_may_nest_as_deep_as_codex_reads() -> None:
    validate_output_schema(None)
    validate_output_schema(nest(62))
    with pytest.raises(InvalidRequest, match=f"nests deeper than {MAX_OUTPUT_SCHEMA_DEPTH} levels"):
        validate_output_schema(nest(63))
