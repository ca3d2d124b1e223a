"""Keywords of our own against the library's, and what checking costs."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from app.lib.schema_check.checker import DRAFTS, build_checker, find_draft
from app.lib.schema_check.effort import (
    PATTERNS_S,
    STEPS_PER_LOOK,
    BadPattern,
    Effort,
    OutOfTime,
    TooMuchWork,
    count_values,
)
from app.lib.schema_check.short_values import to_short

PLENTY = 10**9
DRAFT_2019, DRAFT_2020 = list(DRAFTS)[-2:]

# Neither a loaded machine nor hypothesis's first character table is a finding.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def check(schema: Any, value: Any, effort: Effort | None = None) -> list[str]:
    errors = build_checker(to_short(schema)).find_errors(to_short(value), effort or Effort(PLENTY))
    return [f"{list(error.absolute_path)} {error.message}" for error in errors]


def count_steps(schema: Any, value: Any) -> int:
    effort = Effort(PLENTY)
    check(schema, value, effort)
    return PLENTY - effort.steps


def build_bomb(keyword: str, depth: int = 30) -> dict[str, Any]:
    """A kilobyte that means two to the power of `depth` schemas."""
    steps = {f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(depth)}
    return {"$ref": "#/$defs/a0", "$defs": steps | {f"a{depth}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        pytest.param({"pattern": "^a"}, "b", ["[] 'b' does not match '^a'"], id="pattern"),
        pytest.param({"pattern": "^a"}, 5, [], id="pattern-of-no-text"),
        pytest.param(
            {"patternProperties": {"^a": {"type": "null"}}},
            {"a1": 1, "b": 1},
            ["['a1'] 1 is not of type 'null'"],
            id="pattern-properties",
        ),
        pytest.param({"patternProperties": {"^a": False}}, [], [], id="pattern-properties-of-no-object"),
        pytest.param(
            {"properties": {"a": {}}, "patternProperties": {"^b": {}}, "additionalProperties": False},
            {"a": 1, "b": 1, "c": 1, "d": 1},
            ["[] 'c', 'd': not allowed here"],
            id="additional-properties",
        ),
        pytest.param(
            {"additionalProperties": {"type": "null"}},
            {"a": 1},
            ["['a'] 1 is not of type 'null'"],
            id="additional-properties-by-schema",
        ),
        pytest.param({"additionalProperties": False}, [1], [], id="additional-properties-of-no-object"),
        pytest.param({"additionalProperties": True}, {"a": 1}, [], id="additional-properties-allowed"),
        pytest.param(
            {"propertyNames": {"pattern": "^a"}}, {"b": 1}, ["[] 'b' does not match '^a'"], id="key-pattern"
        ),
        pytest.param(
            {"$schema": DRAFT_2019, "items": [{}], "additionalItems": {"type": "null"}},
            [1, 2],
            ["[1] 2 is not of type 'null'"],
            id="additional-items",
        ),
        pytest.param(
            {"$schema": DRAFT_2019, "items": True, "additionalItems": False}, [1], [], id="no-others-left"
        ),
        pytest.param({"enum": [1, "a"]}, True, ["[] True is not one of [1, 'a']"], id="true-is-not-1"),
        pytest.param({"enum": [{"a": [1.0]}]}, {"a": [1]}, [], id="1-is-1.0"),
        pytest.param({"enum": ["1"]}, 1, ["[] 1 is not one of ['1']"], id="a-digit-is-no-number"),
        pytest.param({"enum": ["[1]"]}, [1], ["[] [1] is not one of ['[1]']"], id="a-text-is-no-list"),
        pytest.param({"const": 0}, -0.0, [], id="minus-zero"),
        pytest.param({"const": 0}, False, ["[] 0 was expected"], id="false-is-not-0"),
        pytest.param({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], [], id="all-different"),
        pytest.param({"uniqueItems": True}, [1, 2, 1.0, 2], ["[2] 1.0 is there twice"], id="twice"),
        pytest.param(
            {"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
            ["[1] {'b': 2, 'a': 1} is there twice"],
            id="in-any-order",
        ),
        pytest.param({"uniqueItems": False}, [1, 1], [], id="may-be-there-twice"),
        pytest.param({"uniqueItems": True}, {"a": 1}, [], id="unique-items-of-no-list"),
        pytest.param({"format": "email"}, "no address", [], id="formats-only-describe"),
        pytest.param({"contains": {"const": 1}}, [2, 1], [], id="contains"),
    ],
)  # fmt: skip
def test_keywords(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert check(schema, value) == expected


@pytest.mark.parametrize(
    ("schema", "is_looked_at"),
    [
        pytest.param({}, False, id="by-nothing"),
        pytest.param({"properties": {"a": {}}}, True, id="properties"),
        pytest.param({"patternProperties": {"^a": {}}}, True, id="pattern-properties"),
        pytest.param({"additionalProperties": {"type": "integer"}}, True, id="additional-properties"),
        pytest.param({"allOf": [True, {"properties": {"a": {}}}]}, True, id="all-of"),
        pytest.param({"allOf": [{"unevaluatedProperties": True}]}, True, id="unevaluated-inside"),
        pytest.param({"anyOf": [True, {"properties": {"a": {"type": "null"}}}]}, False, id="any-of-unmet"),
        pytest.param({"oneOf": [{"properties": {"a": {}}}, False]}, True, id="one-of"),
        pytest.param({"$ref": "#/$defs/a"}, True, id="reference"),
        pytest.param({"$dynamicRef": "#dynamic"}, True, id="dynamic-reference"),
        pytest.param({"dependentSchemas": {"a": {"properties": {"a": {}}}}}, True, id="dependent"),
        pytest.param({"dependentSchemas": {"b": {"properties": {"a": {}}}}}, False, id="dependent-unmet"),
        pytest.param({"if": {"properties": {"a": {}}}}, True, id="if"),
        pytest.param({"if": True, "then": {"properties": {"a": {}}}}, True, id="then"),
        pytest.param({"if": False, "else": {"properties": {"a": {}}}}, True, id="else"),
        pytest.param({"if": {"properties": {"a": {"type": "null"}}}}, False, id="if-unmet"),
    ],
)
def test_unevaluated_properties(schema: dict[str, Any], is_looked_at: bool) -> None:
    defs = {"a": {"properties": {"a": {}}}, "b": {"$dynamicAnchor": "dynamic", "properties": {"a": {}}}}
    closed = {**schema, "$defs": defs, "unevaluatedProperties": False}
    assert check(closed, {"a": 1}) == ([] if is_looked_at else ["[] 'a': not allowed here"])
    assert check(closed, [1]) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, ["[] 0, 1: not allowed here"], id="by-nothing"),
        pytest.param({"items": {}}, [], id="items"),
        pytest.param({"prefixItems": [{}]}, ["[] 1: not allowed here"], id="prefix-items"),
        pytest.param({"contains": {"const": "b"}}, ["[] 0: not allowed here"], id="contains"),
        pytest.param({"allOf": [{"prefixItems": [{}]}, {"contains": {"const": "b"}}]}, [], id="together"),
        pytest.param({"allOf": [{"unevaluatedItems": True}]}, [], id="unevaluated-inside"),
        pytest.param({"$schema": DRAFT_2019, "items": [{}, {}]}, [], id="first-items-of-2019"),
        pytest.param({"$schema": DRAFT_2019, "items": [{}], "additionalItems": {}}, [], id="and-the-others"),
    ],
)
def test_unevaluated_items(schema: dict[str, Any], expected: list[str]) -> None:
    assert check({**schema, "unevaluatedItems": False}, ["a", "b"]) == expected
    assert check({**schema, "unevaluatedItems": False}, {"a": "b"}) == []


def test_unevaluated_by_schema() -> None:
    schema = {"properties": {"a": {}}, "unevaluatedProperties": {"type": "integer"}}
    assert check(schema, {"a": "x", "b": 1, "c": "x"}) == ["['c'] 'x' is not of type 'integer'"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, DRAFT_2020, id="none-named"),
        *(pytest.param({"$schema": uri}, uri, id=uri) for uri in DRAFTS),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#"}, list(DRAFTS)[3], id="hash"),
        pytest.param({"$schema": "urn:mine"}, DRAFT_2020, id="unknown"),
        pytest.param({"$schema": 5}, DRAFT_2020, id="no-text"),
    ],
)
def test_find_draft(schema: dict[str, Any], expected: str) -> None:
    assert find_draft(schema) == expected


def test_a_subschema_that_names_a_draft_keeps_to_our_rules() -> None:
    """The library would go on with a validator of its own, which counts nothing."""
    inner = build_bomb("allOf") | {"$schema": "http://json-schema.org/draft-07/schema#"}
    with pytest.raises(TooMuchWork):
        check({"allOf": [inner], "$defs": inner["$defs"]}, "x", Effort(10_000))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(build_bomb("allOf"), "x", id="all-of-bomb"),
        pytest.param(build_bomb("anyOf"), 5, id="any-of-bomb"),
        pytest.param(build_bomb("oneOf"), 5, id="one-of-bomb"),
        pytest.param({"items": {}}, [1] * 20_000, id="many-items"),
        pytest.param({"contains": {"const": 1}}, [2] * 20_000, id="many-to-contain"),
        pytest.param({"uniqueItems": True}, [[i] for i in range(20_000)], id="many-to-compare"),
        pytest.param({"items": {"x" * i: 1 for i in range(1000)}}, [1] * 1000, id="unknown-keywords"),
        pytest.param({"items": {"$id": "a/" * 1000}}, [1] * 1000, id="long-ids"),
        pytest.param({"items": {"required": [str(i) for i in range(1000)]}}, [{}] * 1000, id="required"),
        pytest.param({"items": {"enum": [[0] * 1000]}}, [[0] * 1000] * 1000, id="large-comparisons"),
        pytest.param({"items": {"const": "x" * 100_000}}, ["x" * 100_000] * 1000, id="long-texts"),
        pytest.param(
            {"dependentRequired": {str(i): [str(j) for j in range(200)] for i in range(200)}},
            dict.fromkeys(map(str, range(200)), 1),
            id="dependencies",
        ),
        pytest.param(
            {"patternProperties": {f"^{i}": {} for i in range(300)}},
            dict.fromkeys(map(str, range(300)), 1),
            id="many-patterns",
        ),
        pytest.param({"pattern": "(?:a{9}){99}"}, "a", id="a-large-pattern"),
        pytest.param(
            {"a": json.loads("[" * 150 + "{}" + "]" * 150), "$ref": "#/a" + "/0" * 150}, 1, id="long-pointer"
        ),
        pytest.param(
            {
                "unevaluatedProperties": False,
                "$ref": "#/$defs/a0",
                "$defs": {
                    f"a{i}": {"dependentSchemas": {key: {"$ref": f"#/$defs/a{i + 1}"} for key in "ab"}}
                    for i in range(30)
                }
                | {"a30": {}},
            },
            {"a": 1, "b": 1},
            id="unevaluated-bomb",
        ),
    ],
)
def test_hostile_input_runs_out_of_steps(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(TooMuchWork):
        check(schema, value, Effort(900 if "pattern" in schema else 20_000))


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        pytest.param({"uniqueItems": True}, [[[i] for i in range(n)] for n in (500, 1000)], id="unique"),
        pytest.param({"items": {"enum": list(range(500))}}, [[1] * n for n in (500, 1000)], id="enum"),
        pytest.param({"items": {"type": "integer"}}, [[1] * n for n in (500, 1000)], id="items"),
        pytest.param(
            {"properties": {str(i): {} for i in range(1000)}, "additionalProperties": False},
            [{str(i): 1 for i in range(n)} for n in (500, 1000)],
            id="properties",
        ),
    ],
)
def test_steps_grow_with_the_value_and_not_faster(schema: dict[str, Any], values: list[Any]) -> None:
    half, whole = (count_steps(schema, value) for value in values)
    assert half < whole <= 2.1 * half


def test_a_pattern_costs_the_same_compiled_or_not() -> None:
    schema = {"items": {"pattern": "^(?:never used before)?a{50}"}}
    assert count_steps(schema, ["a" * 50] * 3) == count_steps(schema, ["a" * 50] * 3)


def test_the_first_pattern_to_time_out_ends_the_check() -> None:
    effort = Effort(PLENTY)
    with pytest.raises(TooMuchWork):
        check({"items": {"pattern": "(a|aa)+$"}}, ["a" * 100 + "b"] * 1000, effort)
    assert PLENTY - effort.steps < 1100


def test_patterns_share_their_time() -> None:
    """Each keeps its own limit, yet a thousand of them must not add up."""
    looks = itertools.count()
    effort = Effort(PLENTY, lambda: next(looks) * PATTERNS_S)
    with pytest.raises(TooMuchWork):
        check({"items": {"pattern": "a"}}, ["a"] * 1000, effort)
    assert next(looks) == 3  # at the start, before and after the first, which took all there is


@pytest.mark.parametrize(
    ("schema", "value", "most"),
    [
        pytest.param({"items": {"type": "integer"}}, [1] * 10_000, 3 * STEPS_PER_LOOK, id="steps"),
        pytest.param({"items": {"pattern": "a"}}, ["a"] * 100, STEPS_PER_LOOK, id="patterns"),
    ],
)
def test_a_check_ends_with_the_time_it_shares(schema: dict[str, Any], value: Any, most: int) -> None:
    """The clock goes on with every look: soon enough, however much else is left."""
    effort = Effort(PLENTY, itertools.count(step=PATTERNS_S / 100).__next__, PATTERNS_S / 50)
    with pytest.raises(OutOfTime):
        check(schema, value, effort)
    first = count_steps({"items": {}}, value)
    assert PLENTY - effort.steps < first + most


def test_steps_end_before_time_does() -> None:
    with pytest.raises(TooMuchWork):
        Effort(5, lambda: 1.0, until_s=1.0).spend(6)


def test_every_step_there_is_can_be_spent() -> None:
    effort = Effort(STEPS_PER_LOOK + 5)
    for _ in range(STEPS_PER_LOOK + 5):
        effort.spend(1)
    with pytest.raises(TooMuchWork):
        effort.spend(1)


def test_the_clock_is_looked_at_now_and_then_only() -> None:
    looks = itertools.count()
    effort = Effort(PLENTY, lambda: float(next(looks)))
    for _ in range(5 * STEPS_PER_LOOK):
        effort.spend(1)
    assert next(looks) == 5


def test_an_unusable_pattern() -> None:
    with pytest.raises(BadPattern):
        check({"pattern": "("}, "a")


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        pytest.param(5, 100, 1, id="one"),
        pytest.param([1, [2, {"a": 3}]], 100, 7, id="keys-count-too"),
        pytest.param("x" * 2560, 100, 11, id="long-text"),
        pytest.param([1] * 1000, 100, 100, id="more-than-asked-for"),
    ],
)
def test_count_values(value: Any, most: int, expected: int) -> None:
    assert count_values(value, most) == expected


SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, "", "a", "ab"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def schemas_over(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    by_name = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    names = ("additionalProperties", "items", "contains", "not", "propertyNames", "if", "then", "else")
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys((*names, "unevaluatedProperties", "unevaluatedItems"), inner),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
            "properties": by_name,
            "dependentSchemas": by_name,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "."]), inner, max_size=2),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "uniqueItems": st.booleans(),
            "pattern": st.sampled_from(["^a", "b$"]),
            "minLength": st.integers(0, 2),
            "$ref": st.sampled_from(["#/$defs/x", "#y"]),
        },
    )


LEAVES = st.booleans() | st.fixed_dictionaries({}, optional={"type": TYPES, "const": VALUES})
SCHEMAS = schemas_over(st.recursive(LEAVES, schemas_over, max_leaves=6))


@patient
@given(SCHEMAS, LEAVES, VALUES)
def test_law_we_say_what_the_library_says(schema: dict[str, Any], leaf: Any, value: Any) -> None:
    defs = {"x": leaf, "y": {"$anchor": "y", "type": "object"}}
    whole = {**schema, "$defs": defs}
    assert (check(whole, value) == []) is jsonschema.Draft202012Validator(whole).is_valid(value)


class CountingEffort(Effort):
    calls = 0

    def spend(self, steps: int) -> None:
        assert steps >= 1
        self.calls += 1
        super().spend(steps)


GRAPHS = st.lists(
    st.tuples(
        st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(st.integers(0, 5), min_size=1, max_size=4)
    ),
    min_size=1,
    max_size=6,
)


@patient
@given(GRAPHS, st.booleans())
def test_law_every_graph_of_references_ends_within_its_steps(
    graph: list[tuple[str, list[int]]], closed: bool
) -> None:
    defs = {
        str(i): {keyword: [{"$ref": f"#/$defs/{target % (len(graph) + 1)}"} for target in targets]}
        for i, (keyword, targets) in enumerate(graph)
    }
    schema = {"$ref": "#/$defs/0", "$defs": defs | {str(len(graph)): {"type": "object"}}}
    effort = CountingEffort(3000)
    try:
        check(schema | ({"unevaluatedProperties": False} if closed else {}), {"a": 1}, effort)
    except (TooMuchWork, RecursionError):
        event("refused")
    assert effort.calls <= 3001
