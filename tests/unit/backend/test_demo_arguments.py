"""Arguments of the demo model: shaped by the schema, filled from the text."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.backend.demo_arguments import build_arguments


def an_object(required: Any = None, **properties: Any) -> dict[str, Any]:
    keys = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": keys}


TEXT, INTEGER, NUMBER, FLAG = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"]}
TREE = an_object(value=INTEGER, children={"type": "array", "items": {"$ref": "#"}})
LIST = {
    "$defs": {"node": an_object(value=INTEGER, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        pytest.param(an_object(city=TEXT), "weather in Paris?", {"city": "Paris"}, id="after-preposition"),
        pytest.param(an_object(city=TEXT), "in New York today", {"city": "New York"}, id="two-capitals"),
        pytest.param(an_object(city=TEXT), "I would like Oslo", {"city": "Oslo"}, id="capitalised"),
        pytest.param(an_object(city=TEXT), 'say "blue sky" to me', {"city": "blue sky"}, id="quoted"),
        pytest.param(an_object(city=TEXT), "please", {"city": "demo city"}, id="placeholder"),
        pytest.param(an_object(city=TEXT), "for the", {"city": "demo city"}, id="stop-word-is-no-value"),
        pytest.param(an_object(query=TEXT), "cats and dogs", {"query": "cats and dogs"}, id="whole-text"),
        pytest.param(an_object(query=TEXT), "", {"query": "demo query"}, id="whole-text-empty"),
        pytest.param(
            an_object(to=TEXT, **{"from": TEXT}),
            "fly from Berlin to Rome",
            {"to": "Rome", "from": "Berlin"},
            id="by-property-name",
        ),
        pytest.param(an_object(city=TEXT), "city=Bonn", {"city": "Bonn"}, id="by-equals-sign"),
        pytest.param(
            an_object(city=TEXT, country=TEXT),
            "in Paris",
            {"city": "Paris", "country": "demo country"},
            id="a-phrase-is-used-once",
        ),
        pytest.param(an_object(unit=UNIT), "in Fahrenheit", {"unit": "fahrenheit"}, id="enum-mentioned"),
        pytest.param(an_object(unit=UNIT), "how warm?", {"unit": "celsius"}, id="enum-first"),
        pytest.param(
            an_object([], unit=UNIT), "in fahrenheit", {"unit": "fahrenheit"}, id="optional-by-value"
        ),
        pytest.param(an_object([], city=TEXT), "the city Rome", {"city": "Rome"}, id="optional-by-name"),
        pytest.param(an_object([], city=TEXT), "hello", {}, id="optional-left-out"),
        pytest.param(an_object(x={"const": 7}), "", {"x": 7}, id="const"),
        pytest.param(an_object(a=INTEGER, b=INTEGER), "add 2 and -3", {"a": 2, "b": -3}, id="integers"),
        pytest.param(an_object(a=NUMBER), "about 2.5 km", {"a": 2.5}, id="number"),
        pytest.param(an_object(a=INTEGER), "none", {"a": 1}, id="integer-without"),
        pytest.param(an_object(a={**INTEGER, "minimum": 5.5}), "", {"a": 6}, id="integer-minimum"),
        pytest.param(an_object(a={**INTEGER, "maximum": 9}), "take 20", {"a": 9}, id="integer-maximum"),
        pytest.param(
            an_object(a={**NUMBER, "exclusiveMinimum": 3}), "", {"a": 4}, id="number-exclusive-minimum"
        ),
        pytest.param(
            an_object(a={**INTEGER, "exclusiveMaximum": 0}), "", {"a": -1}, id="integer-exclusive-maximum"
        ),
        pytest.param(an_object(a=INTEGER), "9" * 9000, {"a": 1}, id="number-too-long-to-read"),
        pytest.param(an_object(a=FLAG, b=FLAG), "with it", {"a": True, "b": True}, id="boolean"),
        pytest.param(an_object(a=FLAG), "without it", {"a": False}, id="boolean-denied"),
        pytest.param(an_object(a={"type": "null"}), "", {"a": None}, id="null"),
        pytest.param(an_object(a={"type": ["null", "integer"]}), "", {"a": 1}, id="nullable"),
        pytest.param(
            an_object(a={"type": "array", "items": INTEGER, "minItems": 2}), "4 5", {"a": [4, 5]}, id="array"
        ),
        pytest.param(
            an_object(a={"type": "array", "items": INTEGER, "minItems": 10**9}),
            "",
            {"a": [1] * 50},
            id="array-hostile-minimum",
        ),
        pytest.param(an_object(a={"items": INTEGER, "maxItems": 0}), "", {"a": []}, id="array-kept-empty"),
        pytest.param(
            an_object(a={"type": "array", "prefixItems": [TEXT, INTEGER]}),
            "",
            {"a": ["demo a", 1]},
            id="tuple",
        ),
        pytest.param(
            an_object(a=an_object(b=an_object(c=INTEGER))), "3", {"a": {"b": {"c": 3}}}, id="nested"
        ),
        pytest.param(an_object(a={"anyOf": [{"type": "null"}, INTEGER]}), "", {"a": 1}, id="any-of"),
        pytest.param(an_object(a={"oneOf": [UNIT, INTEGER]}), "", {"a": "celsius"}, id="one-of"),
        pytest.param(
            {"allOf": [an_object(a=INTEGER), an_object(b=FLAG)]}, "", {"a": 1, "b": True}, id="all-of-joins"
        ),
        pytest.param(an_object(a={"format": "date", **TEXT}), "", {"a": "2030-01-01"}, id="format"),
        pytest.param(an_object(a={"maxLength": 3, **TEXT}), "in Paris", {"a": "Par"}, id="longest"),
        pytest.param(an_object(a={"minLength": 8, **TEXT}), "in Paris", {"a": "Paris..."}, id="shortest"),
        pytest.param({"required": ["x"]}, "", {"x": "demo x"}, id="required-without-property"),
        pytest.param(
            {**an_object(a={"$ref": "#/$defs/x~1y"}), "$defs": {"x/y": INTEGER}},
            "",
            {"a": 1},
            id="ref-escaped",
        ),
        pytest.param(
            an_object(a={"anyOf": [INTEGER, TEXT]}, b={"$ref": "#/properties/a/anyOf/0"}),
            "",
            {"a": 1, "b": 1},
            id="ref-by-index",
        ),
        pytest.param(an_object(a={"$ref": "https://elsewhere/"}), "", {"a": "demo a"}, id="ref-not-local"),
        pytest.param({"$ref": "#"}, "", {}, id="ref-to-itself"),
        pytest.param(True, "", {}, id="true"),
        pytest.param(None, "", {}, id="missing"),
        pytest.param(TEXT, "", {}, id="not-an-object"),
        pytest.param({"type": "object", "properties": [], "required": "x"}, "", {}, id="odd-members"),
        pytest.param(an_object(a={"type": {"odd": 1}}), "", {"a": "demo a"}, id="odd-type"),
    ],
)
def test_arguments_follow_schema_and_text(schema: Any, text: str, expected: dict[str, Any]) -> None:
    assert build_arguments(schema, text) == expected


@pytest.mark.parametrize("schema", [pytest.param(TREE, id="tree"), pytest.param(LIST, id="linked-list")])
def test_recursive_schema_finds_its_way_out(schema: dict[str, Any]) -> None:
    jsonschema.validate(build_arguments(schema, "with 3"), schema)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(
            an_object(**{f"p{i}": {"$ref": "#"} for i in range(40)}), id="every-property-is-the-root"
        ),
        pytest.param({"allOf": [{"$ref": "#"}] * 40}, id="every-branch-is-the-root"),
    ],
)
def test_multiplying_references_stay_bounded(schema: dict[str, Any]) -> None:
    assert len(json.dumps(build_arguments(schema, ""))) < 200_000


# Neither a loaded machine nor hypothesis's first character table is a finding.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = [
    *("type", "enum", "const", "items", "properties", "required", "anyOf", "allOf", "oneOf", "$ref", "$defs"),
    *("minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "minLength", "maxLength", "format"),
]
KINDS = ["object", "array", "string", "number", "integer", "boolean", "null", "#", "#/properties/a", "date"]
ODD_SCHEMAS = st.recursive(
    JSON_VALUES | st.sampled_from(KINDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=6)
    ),
    max_leaves=30,
)


@patient
@given(schema=ODD_SCHEMAS, text=st.text(max_size=60))
def test_any_schema_gives_an_object(schema: Any, text: str) -> None:
    value = build_arguments(schema, text)
    assert isinstance(value, dict)
    json.dumps(value)


NAMES = st.sampled_from(["city", "from", "count", "isOpen", "text", "x"])
LEAVES = st.one_of(
    st.sampled_from([TEXT, INTEGER, NUMBER, FLAG, UNIT, {"type": ["string", "null"]}, {"const": "k"}]),
    st.builds(
        lambda low, span: {**INTEGER, "minimum": low, "maximum": low + span},
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
    st.builds(
        lambda low, span: {**TEXT, "minLength": low, "maxLength": low + span},
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.builds(lambda values: {"enum": values}, st.lists(JSON_VALUES, min_size=1, max_size=3)),
)
NODES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda item, least: {"type": "array", "items": item, "minItems": least}, inner, st.integers(0, 3)
        ),
        st.builds(lambda parts: an_object(**parts), st.dictionaries(NAMES, inner, max_size=3)),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)
SENTENCES = st.lists(
    st.sampled_from(["in", "Paris", "city", "is", "7", "-2.5", "not", "fahrenheit", '"a b"']), max_size=8
)


@patient
@given(properties=st.dictionaries(NAMES, NODES, max_size=4), text=SENTENCES.map(" ".join))
def test_arguments_are_valid_against_their_schema(properties: dict[str, Any], text: str) -> None:
    schema = {**an_object(**properties), "additionalProperties": False}
    jsonschema.validate(build_arguments(schema, text), schema)
