"""Schemas in the strict subset, and values on the way back."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.optional_nulls import drop_nulls, has_optional
from app.lib.strict_schema import to_strict
from app.lib.tool_validation import find_mismatch

STRING = {"type": "string"}
NULL = {"type": "null"}
EMPTY = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def closed(**properties: Any) -> dict[str, Any]:
    """A strict object."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def holding(schema: Any, **beside: Any) -> dict[str, Any]:
    """An object with the schema as its one property, which is required."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **beside}


def optional(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = holding(STRING)
    for _ in range(levels - 1):
        schema = holding(schema)
    return schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, EMPTY, id="nothing"),
        pytest.param({"type": "object"}, EMPTY, id="only-an-object"),
        pytest.param({"type": ["object"], "additionalProperties": False}, EMPTY, id="closed-and-empty"),
        pytest.param({"properties": {"a": STRING}, "required": ["a"]}, closed(a=STRING), id="no-type"),
        pytest.param(
            {"$schema": "x", "$id": "y", "title": "T", "description": "D", "default": {}, "examples": [{}]},
            EMPTY | {"title": "T", "description": "D"}, id="annotations",
        ),
        pytest.param({"allOf": [{"properties": {"a": NULL}}]}, closed(a=NULL), id="root-allof-of-one"),
    ],
)  # fmt: skip
def test_a_root(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert to_strict(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(STRING, STRING, id="scalar"),
        pytest.param(STRING | {"title": 3, "description": "D"}, STRING | {"description": "D"}, id="notes"),
        pytest.param({"type": ["string", "null", "string"]}, {"type": ["string", "null"]}, id="two-types"),
        pytest.param(
            {"type": "string", "format": "date", "pattern": "^a", "minLength": 1, "minimum": 1},
            {"type": "string", "format": "date"}, id="of-strings",
        ),
        pytest.param({"type": "string", "format": "uri"}, STRING, id="unknown-format"),
        pytest.param({"type": "string", "format": ["date"]}, STRING, id="format-is-none"),
        pytest.param(
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1.5, "multipleOf": 0.5, "format": "date"},
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1.5, "multipleOf": 0.5}, id="of-numbers",
        ),
        pytest.param(
            {"type": "integer", "maximum": 9, "exclusiveMinimum": True},
            {"type": "integer", "maximum": 9}, id="draft-4-bound",
        ),
        pytest.param(
            {"type": "array", "items": STRING, "minItems": 1, "maxItems": -1, "uniqueItems": True},
            {"type": "array", "items": STRING, "minItems": 1}, id="array",
        ),
        pytest.param({"items": STRING}, {"type": "array", "items": STRING}, id="array-without-type"),
        pytest.param({"type": "object", "additionalProperties": False}, EMPTY, id="empty-object"),
        pytest.param({"type": "object", "unevaluatedProperties": False}, EMPTY, id="unevaluated"),
        pytest.param(holding(STRING, patternProperties={}), closed(a=STRING), id="no-patterns"),
        pytest.param(holding(STRING, dependentRequired={"a": []}), closed(a=STRING), id="only-narrows"),
        pytest.param(
            {"type": ["object", "null"], "properties": {"b": STRING}, "required": ["b"], "description": "D"},
            {"anyOf": [NULL, closed(b=STRING)], "description": "D"}, id="object-or-null",
        ),
        pytest.param(
            {"type": ["array", "string"], "items": STRING},
            {"anyOf": [STRING, {"type": "array", "items": STRING}]}, id="list-or-string",
        ),
        pytest.param(
            {"enum": ["a", 1, 2.5, None, True, "b"]},
            {"type": ["string", "integer", "number", "null", "boolean"]}
            | {"enum": ["a", 1, 2.5, None, True, "b"]},
            id="enum-without-type",
        ),
        pytest.param(
            {"type": ["string", "null"], "enum": ["a", "b", 3]}, {"type": "string", "enum": ["a", "b"]},
            id="enum-and-type-agree",
        ),
        pytest.param(
            {"type": "integer", "enum": [1, 2.0, 2.5, True]}, {"type": "integer", "enum": [1, 2.0]},
            id="enum-of-integers",
        ),
        pytest.param(
            {"type": "number", "enum": [1, True]}, {"type": "number", "enum": [1]}, id="enum-of-numbers"
        ),
        pytest.param({"const": "x"}, {"type": "string", "const": "x"}, id="const"),
        pytest.param({"const": None, "enum": [1]}, {"type": "null", "const": None}, id="const-before-enum"),
        pytest.param(
            {"oneOf": [STRING, NULL], "description": "D", "type": ["string", "null"]},
            {"anyOf": [STRING, NULL], "description": "D"}, id="oneof",
        ),
        pytest.param(
            holding(STRING, anyOf=[{"required": ["a"]}], oneOf=[{"required": ["a"], "title": "T"}]),
            closed(a=STRING), id="union-that-only-narrows",
        ),
        pytest.param({"$ref": "#", "description": "D", "minLength": 1}, {"$ref": "#"}, id="root-reference"),
        pytest.param({"allOf": [{"$ref": "#"}], "description": "D"}, {"$ref": "#"}, id="allof-of-reference"),
        pytest.param(
            {"allOf": [{"type": "string", "description": "inner"}], "description": "outer"},
            {"type": "string", "description": "outer"}, id="allof-of-one",
        ),
    ],
)  # fmt: skip
def test_a_required_property(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert to_strict(holding(schema)) == closed(a=expected)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(STRING, {"type": ["string", "null"]}, id="scalar"),
        pytest.param(NULL, NULL, id="null"),
        pytest.param({"type": ["null", "string"]}, {"type": ["null", "string"]}, id="null-already"),
        pytest.param(
            {"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}, id="enum"
        ),
        pytest.param({"const": 1}, {"type": ["integer", "null"], "enum": [1, None]}, id="const"),
        pytest.param({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}, id="enum-nil"),
        pytest.param(holding(NULL), {"anyOf": [closed(a=NULL), NULL]}, id="object"),
        pytest.param(
            {"type": "array", "items": STRING}, {"anyOf": [{"type": "array", "items": STRING}, NULL]},
            id="array",
        ),
        pytest.param({"$ref": "#"}, {"anyOf": [{"$ref": "#"}, NULL]}, id="reference"),
        pytest.param(
            {"anyOf": [STRING, {"$ref": "#"}], "title": "T"},
            {"anyOf": [STRING, {"$ref": "#"}, NULL], "title": "T"}, id="union",
        ),
        pytest.param({"anyOf": [STRING, NULL]}, {"anyOf": [STRING, NULL]}, id="union-with-null"),
        pytest.param(
            {"anyOf": [{"anyOf": [STRING, NULL]}]}, {"anyOf": [{"anyOf": [STRING, NULL]}]},
            id="union-in-a-union",
        ),
    ],
)  # fmt: skip
def test_an_optional_property(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert to_strict(optional(schema)) == closed(a=expected)


NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
STRICT_NODE = closed(next={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            holding({"$ref": "#/definitions/B"}, definitions={"B": STRING, "Unused": True}),
            closed(a={"$ref": "#/$defs/B"}) | {"$defs": {"B": STRING}}, id="used-definitions-only",
        ),
        pytest.param(
            holding({"$ref": "#/$defs/B"}, **{"$defs": {"B": {"items": {"$ref": "#/$defs/C"}}, "C": NULL}}),
            closed(a={"$ref": "#/$defs/B"})
            | {"$defs": {"B": {"type": "array", "items": {"$ref": "#/$defs/C"}}, "C": NULL}},
            id="through-another",
        ),
        pytest.param(
            {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, STRICT_NODE | {"$defs": {"Node": STRICT_NODE}},
            id="root-only-points-and-recursion",
        ),
        pytest.param(holding({"$ref": "#/$defs/B"}), None, id="leads-nowhere"),
        pytest.param(holding({"$ref": "#/properties/a"}), None, id="elsewhere"),
        pytest.param(holding({"$ref": "https://a.example/b"}), None, id="remote"),
        pytest.param(holding({"$ref": 3}), None, id="no-text"),
        pytest.param(
            holding({"$ref": "#/$defs/a~1b"}, **{"$defs": {"a/b": STRING, "a~1b": STRING}}), None,
            id="escaped",
        ),
        pytest.param(
            holding({"$ref": "#/$defs/B"}, definitions={"B": NULL}, **{"$defs": {"B": STRING}}), None,
            id="one-name-for-two",
        ),
        pytest.param(holding({"$ref": "#", "properties": {}}), None, id="more-beside-it"),
        pytest.param(holding({"$ref": "#/$defs/B"}, **{"$defs": {"B": {}}}), None, id="definition-of-any"),
        pytest.param({"$ref": "#"}, None, id="root-to-itself"),
        pytest.param({"$ref": "#/$defs/B"}, None, id="root-to-nowhere"),
        pytest.param({"$ref": "#/$defs/B", "$defs": {"B": STRING}}, None, id="root-to-no-object"),
        pytest.param({"$ref": "#/$defs/B", "$defs": {"B": NODE}, "anyOf": []}, None, id="root-with-more"),
        pytest.param({"$ref": "#/$defs/B", "$defs": []}, None, id="definitions-are-none"),
    ],
)  # fmt: skip
def test_references(schema: dict[str, Any], expected: dict[str, Any] | None) -> None:
    assert to_strict(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array", "items": STRING}, id="root-array"),
        pytest.param({"type": ["object", "null"]}, id="root-or-null"),
        pytest.param({"anyOf": [holding(STRING)]}, id="root-union"),
        pytest.param({"enum": ["a"]}, id="root-enum"),
        pytest.param({"additionalProperties": True}, id="root-open"),
        pytest.param({"required": ["a"]}, id="required-but-unknown"),
        pytest.param({"required": [["a"]]}, id="required-is-no-name"),
        pytest.param({"required": "a"}, id="required-is-no-list"),
        pytest.param({"properties": []}, id="properties-are-none"),
        pytest.param({"patternProperties": {"^x": STRING}}, id="pattern-properties"),
        *(
            pytest.param(holding(schema), id=name)
            for name, schema in {
                "true": True,
                "any": {},
                "free-form": {"type": "object"},
                "no-properties": {"type": "object", "properties": {}},
                "open": holding(STRING, additionalProperties=True),
                "open-by-schema": holding(STRING, additionalProperties=STRING),
                "open-unevaluated": holding(STRING, unevaluatedProperties=True),
                "any-items": {"type": "array"},
                "tuple": {"items": [STRING]},
                "prefix-items": {"items": STRING, "prefixItems": [STRING]},
                "unknown-type": {"type": "any"},
                "type-is-none": {"type": {"a": 1}},
                "allof-of-two": {"allOf": [STRING, STRING]},
                "allof-that-disagrees": {"allOf": [STRING], "type": "null"},
                "allof-of-true": {"allOf": [True]},
                "not": STRING | {"not": {"const": "a"}},
                "if": STRING | {"if": {"const": "a"}},
                "dependent-schemas": holding(STRING, dependentSchemas={"a": NULL}),
                "no-way": {"anyOf": []},
                "ways-are-none": {"anyOf": {"a": STRING}},
                "way-is-true": {"anyOf": [STRING, True]},
                "two-unions": {"anyOf": [STRING], "oneOf": [STRING]},
                "union-beside-properties": holding(STRING, anyOf=[optional(STRING)]),
                "enum-of-objects": {"enum": [{}]},
                "enum-of-none": {"enum": []},
                "enum-is-none": {"enum": "a"},
                "enum-against-type": {"type": "string", "const": 1},
            }.items()
        ),
    ],
)
def test_what_the_subset_cannot_say(schema: dict[str, Any]) -> None:
    assert to_strict(schema) is None


def tagged(tag: Any) -> dict[str, Any]:
    return {"properties": {"kind": tag, "b": STRING}, "required": ["kind"]}


DEFINES_B = {"$defs": {"B": optional(STRING)}}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        pytest.param(nested(10), True, id="ten-levels"),
        pytest.param(nested(11), False, id="eleven-levels"),
        pytest.param(nested(5000), False, id="deeper-than-the-stack"),
        pytest.param(holding({"enum": [str(i) for i in range(1000)]}), True, id="thousand-values"),
        pytest.param(holding({"enum": [str(i) for i in range(1001)]}), False, id="a-value-more"),
        pytest.param(holding({"enum": ["x" * 100] * 250}), True, id="long-values"),
        pytest.param(holding({"enum": ["x" * 100] * 251}), False, id="too-many-long-values"),
        pytest.param({"properties": {str(i): NULL for i in range(5000)}}, True, id="properties"),
        pytest.param({"properties": {str(i): NULL for i in range(5001)}}, False, id="a-property-more"),
        pytest.param(holding({"const": "x" * 119_999}), True, id="chars"),
        pytest.param(holding({"const": "x" * 120_000}), False, id="a-char-more"),
        pytest.param(
            holding({"anyOf": [tagged({"const": "x"}), tagged({"enum": ["y", "z"]}), EMPTY]}), True,
            id="told-apart-by-values",
        ),
        pytest.param(
            holding({"anyOf": [tagged({"const": "x"}), {"$ref": "#/$defs/B"}]}, **DEFINES_B), True,
            id="told-apart-by-keys",
        ),
        pytest.param(holding({"anyOf": [tagged(STRING), tagged({"const": "x"})]}), False, id="one-is-open"),
        pytest.param(holding({"anyOf": [tagged({"const": "x"})] * 2}), False, id="the-same-value"),
        pytest.param(
            holding({"anyOf": [optional(STRING), {"$ref": "#/$defs/B"}]}, **DEFINES_B), False,
            id="the-same-key-by-reference",
        ),
    ],
)  # fmt: skip
def test_limits(schema: dict[str, Any], fits: bool) -> None:
    assert (to_strict(schema) is not None) is fits


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            *(
                STRING,
                NULL,
                {"type": ["integer", "null"], "minimum": 0},
                {"enum": ["a", 1]},
                {"const": "c"},
                {},
                True,
            ),
            *({"$ref": "#"}, {"$ref": "#/$defs/d"}, {"$ref": "#/definitions/e"}, {"type": "object"}),
        ]
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={
                "type": st.sampled_from(["object", ["object", "null"]]),
                "required": st.just(["a"]),
                "additionalProperties": st.just(False),
                "description": st.just("D"),
            },
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.builds(
            lambda key, ways: {key: ways},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, max_size=3),
        )
    ),
    max_leaves=8,
)
ROOTS = st.builds(
    lambda root, d, e: {
        **(root if isinstance(root, dict) else {}),
        "$defs": {"d": d},
        "definitions": {"e": e},
    },
    *(SCHEMAS, SCHEMAS, SCHEMAS),
)


@given(ROOTS)
def test_a_strict_schema_stays_as_it_is(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    strict = to_strict(schema)
    assert schema == before
    assert strict is None or to_strict(strict) == strict


CLIENT = {
    "type": "object",
    "properties": {
        "need": STRING,
        "may": STRING,
        "null": {"type": ["string", "null"]},
        "any": {},
        "list": {"type": "array", "items": {"$ref": "#/definitions/Item"}},
        "item": {"allOf": [{"$ref": "#/definitions/Item"}]},
    },
    "required": ["need"],
    "definitions": {"Item": optional(STRING)},
}
UNION = {
    "anyOf": [
        {"properties": {"kind": {"const": "x"}, "b": STRING}, "required": ["kind"]},
        {"properties": {"kind": {"enum": ["y"]}, "b": STRING}, "required": ["kind"]},
        {"items": optional(STRING)},
        {"$ref": "#/$defs/lost"},
        True,
    ]
}
OPEN_UNION = {"oneOf": [optional(STRING), optional({"type": "integer"})]}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        pytest.param({"need": "n", "may": None}, CLIENT, {"need": "n"}, id="optional"),
        pytest.param({"list": [{"a": "x"}, {"a": None}]}, CLIENT, {"list": [{"a": "x"}, {}]}, id="in-a-list"),
        pytest.param({"item": {"a": None}}, CLIENT, {"item": {}}, id="in-an-allof-of-one"),
        pytest.param({"item": None}, CLIENT, {}, id="whole-object"),
        pytest.param({"kind": "y", "b": None}, UNION, {"kind": "y"}, id="in-a-union"),
        pytest.param([{"a": None}], UNION, [{}], id="in-a-list-of-a-union"),
        pytest.param({"a": None}, optional({"const": "x"}), {}, id="const"),
        pytest.param({"a": None}, optional({"enum": ["x"]}), {}, id="enum"),
        pytest.param({"a": None}, optional({"anyOf": [STRING, {"type": "integer"}]}), {}, id="no-way-null"),
        pytest.param({"a": None}, optional({"allOf": [{}, STRING]}), {}, id="not-all-are-null"),
    ],
)  # fmt: skip
def test_nulls_are_dropped(value: Any, schema: dict[str, Any], expected: Any) -> None:
    before = copy.deepcopy(value)
    assert drop_nulls(value, schema) == expected
    assert value == before


LOOP = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
DEEP: dict[str, Any] = {"a": None}
for _ in range(100):
    DEEP = {"b": DEEP}
TREE = {"properties": {"a": STRING, "b": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        pytest.param({"a": None}, None, id="no-schema"),
        pytest.param({"need": None}, CLIENT, id="required"),
        pytest.param({"null": None, "any": None, "other": None}, CLIENT, id="null-may-be-meant"),
        pytest.param({"need": "n", "list": [{"a": "x"}], "item": {}}, CLIENT, id="no-null"),
        pytest.param({"a": None}, OPEN_UNION, id="union-that-leaves-it-open"),
        pytest.param({"kind": "z", "b": None}, UNION, id="union-without-the-value"),
        pytest.param({"kind": "x", "c": None}, UNION, id="union-without-the-key"),
        pytest.param({"a": None}, LOOP, id="loop"),
        pytest.param({"a": None}, optional({"$ref": "#/$defs/l"}) | {"$defs": {"l": {}}}, id="any"),
        pytest.param({"a": None}, optional({}) | {"required": 3}, id="required-is-none"),
        pytest.param({"a": None}, {"properties": 3}, id="properties-are-none"),
        pytest.param({"a": None}, {"type": "object"}, id="no-properties"),
        pytest.param({"a": None}, optional({"anyOf": 3, "allOf": True}), id="unions-are-none"),
        pytest.param(DEEP, TREE, id="deeper-than-is-looked-at"),
        pytest.param(None, CLIENT, id="null"),
        pytest.param("x", CLIENT, id="text"),
    ],
)  # fmt: skip
def test_an_unchanged_value_is_the_same_object(value: Any, schema: dict[str, Any] | None) -> None:
    assert drop_nulls(value, schema) is value


def test_a_schema_of_too_many_values_is_not_converted() -> None:
    """Converting this one would take 6 s."""
    schema = {"properties": {str(index): {"type": "string"} for index in range(400_000)}}
    start = time.thread_time()
    assert to_strict(schema) is None
    assert time.thread_time() - start < 0.5


def test_the_steps_have_a_bound() -> None:
    loop = [{"$ref": "#/$defs/loop"}] * 3
    schema = {"items": loop[0], "$defs": {"loop": {"anyOf": loop}}}
    value = [{"a": None} for _ in range(1000)]
    start = time.thread_time()
    assert drop_nulls(value, schema) is value
    assert time.thread_time() - start < 2


def test_what_the_model_writes_for_a_schema_comes_back_as_the_client_wants_it() -> None:
    written = {"need": "n", "may": None, "null": None, "list": [{"a": None}], "item": None}
    schema = CLIENT | {"properties": {k: v for k, v in CLIENT["properties"].items() if k != "any"}}
    assert find_mismatch(to_strict(schema), written, time.thread_time) is None
    slim = drop_nulls(written, schema)
    assert json.dumps(slim) == '{"need": "n", "null": null, "list": [{}]}'
    assert find_mismatch(schema, slim, time.thread_time) is None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"properties": {"a": {}}, "required": ["a"]}, False, id="all-required"),
        pytest.param({"properties": {"a": {}, "b": {}}, "required": ["a"]}, True, id="one-not-required"),
        pytest.param({"properties": {"a": {}}}, True, id="nothing-required"),
        pytest.param({"items": [{"anyOf": [{"properties": {"a": {}}}]}]}, True, id="deep-inside"),
        pytest.param({"properties": ["a"], "required": "a"}, True, id="no-schema-at-all"),
        pytest.param({"type": "object"}, False, id="names-nothing"),
        pytest.param(True, False, id="a-flag"),
    ],
)
def test_has_optional(schema: Any, expected: bool) -> None:
    assert has_optional(schema) == expected
