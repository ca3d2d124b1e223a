"""Arguments against a client's schema: what is told, and that it always ends."""

from __future__ import annotations

import itertools
import json
import socket
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.schema_check.budget import TURN_S, CheckBudget
from app.lib.tool_validation import (
    MAX_MESSAGE_CHARS,
    MAX_PATH_CHARS,
    MAX_SCHEMA_CHARS,
    TOO_COSTLY,
    Mismatch,
    MismatchKind,
    find_mismatch,
    prepare_schema,
)
from tests.unit.lib.schema_check.test_checker import build_bomb, patient
from tests.unit.lib.test_json_text import JSON_VALUES

ORDER = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"qty": {"type": "integer"}}, "required": ["qty"]},
        },
    },
    "required": ["note"],
    "additionalProperties": False,
}
NOWHERE = "leads nowhere; nothing is fetched"


def check(schema: dict[str, Any] | None, value: Any) -> tuple[MismatchKind, str] | None:
    found = find_mismatch(schema, value, time.thread_time)
    return found and (found.kind, found.message)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"note": "x"}, id="what-is-required"),
        pytest.param({"note": "x", "size": None, "items": [{"qty": 1}, {"qty": 2.0}]}, id="all-of-it"),
    ],
)
def test_arguments_that_fit(value: Any) -> None:
    assert check(ORDER, value) is None


def test_no_schema_allows_anything() -> None:
    assert check(None, {"a": 1}) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({}, "arguments: 'note' is a required property", id="missing"),
        pytest.param(
            {"note": "x", "items": [{"qty": 1}] * 3 + [{"qty": "x"}]},
            "arguments.items[3].qty: 'x' is not of type 'integer'",
            id="a-path",
        ),
        pytest.param({"note": "x", "sise": 1}, "arguments: 'sise': not allowed here", id="unknown-key"),
        pytest.param(
            {"note": "x", "size": "x"},
            "arguments.size: 'x' is not valid under any of the given schemas"
            " ('x' is not of type 'integer'; 'x' is not of type 'null')",
            id="every-way-it-failed",
        ),
    ],
)
def test_arguments_that_do_not_fit(value: Any, message: str) -> None:
    assert check(ORDER, value) == (MismatchKind.ARGUMENTS, message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"a b": 1}, "arguments[\"a b\"]: 1 is not of type 'null'", id="odd-key"),
        pytest.param({'a"': 1}, 'arguments["a\\""]: 1 is not of type \'null\'', id="quote"),
        pytest.param({"ä": 1}, "arguments.ä: 1 is not of type 'null'", id="letters-of-all-kinds"),
        pytest.param({"x" * 99: 1}, f"arguments[\"{'x' * 39}…\"]: 1 is not of type 'null'", id="long-key"),
        pytest.param({"\ud800": 1}, "arguments[\"\\ud800\"]: 1 is not of type 'null'", id="half-a-character"),
    ],
)
def test_paths(value: Any, message: str) -> None:
    assert check({"additionalProperties": {"type": "null"}}, value) == (MismatchKind.ARGUMENTS, message)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"properties": {"a": {"type": "null"}}}, {"a": "x" * 10_000_000}, id="long-text"),
        pytest.param({"properties": {"a": {"type": "null"}}}, {"a": 10**4000}, id="many-digits"),
        pytest.param({"maxProperties": 1}, {f"{i:099}": "x" * 99 for i in range(1000)}, id="large-object"),
        pytest.param({"additionalProperties": False}, {f"{i:099}": 1 for i in range(1000)}, id="many-keys"),
        pytest.param(
            {"properties": {"a": {"enum": ["x" * 999] * 99}}}, {"a": 1}, id="a-schema-as-long"
        ),
    ],
)  # fmt: skip
def test_messages_are_short(schema: dict[str, Any], value: Any) -> None:
    found = check(schema, value)
    assert found
    assert found[0] is MismatchKind.ARGUMENTS
    assert len(found[1]) <= MAX_PATH_CHARS + MAX_MESSAGE_CHARS + 2


def test_long_paths_are_cut() -> None:
    value: Any = 1
    for _ in range(50):
        value = {"step": value}
    schema = {"additionalProperties": {"$ref": "#"}, "type": "object"}
    found = check(schema, value)
    assert found == (MismatchKind.ARGUMENTS, f"arguments{'.step' * 38}…: 1 is not of type 'object'")


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        pytest.param({"properties": 5}, {}, "schema.properties: 5 is not of type 'object'", id="malformed"),
        pytest.param({"$id": 5}, {}, "schema[\"$id\"]: 5 is not of type 'string'", id="id-of-no-text"),
        pytest.param(
            {"$ref": "#/$defs/x"}, {}, f"schema: its reference to '/$defs/x' {NOWHERE}", id="nowhere"
        ),
        pytest.param({"$ref": "#x"}, {}, f"schema: its reference to 'x' {NOWHERE}", id="no-such-anchor"),
        pytest.param(
            {"$ref": "http://127.0.0.1/x.json"},
            {},
            f"schema: its reference to 'http://127.0.0.1/x.json' {NOWHERE}",
            id="elsewhere",
        ),
        pytest.param(
            {"title": "x", "$ref": "#/title"}, {}, "schema: it cannot be used", id="a-reference-to-no-schema"
        ),
        pytest.param(
            {"properties": {"a": {"pattern": "("}}},
            {"a": ""},
            "schema: '(' is no pattern that can be used here",
            id="a-pattern-that-is-none",
        ),
        pytest.param(
            {"properties": {"a": {"multipleOf": 0.1}}},
            {"a": 10**400},
            "schema: it cannot be used",
            id="more-than-the-library-can-divide",
        ),
        pytest.param({"a": {1, 2}}, {}, "schema: it cannot be used", id="not-even-json"),
    ],
)
def test_unusable_schemas(schema: dict[str, Any], value: Any, message: str) -> None:
    assert check(schema, value) == (MismatchKind.UNUSABLE_SCHEMA, message)


def test_a_remote_reference_touches_no_network() -> None:
    """The library's own registry would fetch it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        uri = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        assert check({"$ref": uri}, {}) == (
            MismatchKind.UNUSABLE_SCHEMA,
            f"schema: its reference to {uri!r} {NOWHERE}",
        )
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        pytest.param(
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]},
            [1],
            "arguments[0]: 1 is not of type 'null'",
            id="draft-7",
        ),
        pytest.param(
            {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5, "exclusiveMaximum": True},
            5,
            "arguments: 5 is greater than or equal to the maximum of 5",
            id="draft-4",
        ),
        pytest.param(
            {"prefixItems": [{"type": "null"}]}, [1], "arguments[0]: 1 is not of type 'null'", id="2020-12"
        ),
        pytest.param(
            {"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}},
            {"a": {"type": 5}},
            "arguments.a.type: 5 is not valid under any of the given schemas"
            " (5 is not one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];"
            " 5 is not of type 'array')",
            id="published-drafts-are-known",
        ),
    ],
)
def test_drafts(schema: dict[str, Any], value: Any, message: str) -> None:
    assert check(schema, value) == (MismatchKind.ARGUMENTS, message)


def test_a_schema_is_prepared_once() -> None:
    """Also when its keys come in another order, and when it is of no use."""
    before = prepare_schema.cache_info()
    for name in ("prepared once", "unusable once"):
        kind = "object" if name.startswith("prepared") else "thing"
        for schema in ({"title": name, "type": kind}, {"type": kind, "title": name}):
            find_mismatch(schema, {}, time.thread_time)
    after = prepare_schema.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (2, 2)


def test_a_schema_changed_later_is_another_one() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    assert check(schema, {"a": 1}) is None
    schema["properties"]["a"]["type"] = "string"
    assert check(schema, {"a": 1}) == (MismatchKind.ARGUMENTS, "arguments.a: 1 is not of type 'string'")


def nest(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(build_bomb("allOf"), "x", id="all-of-bomb"),
        pytest.param(build_bomb("oneOf"), {}, id="one-of-bomb"),
        pytest.param({"$ref": "#"}, {}, id="a-reference-to-itself"),
        pytest.param({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}, id="two-of-them"),
        pytest.param({"properties": {"a": {"pattern": "(a|aa)+$"}}}, {"a": "a" * 99 + "b"}, id="pattern"),
        pytest.param(
            {"properties": {"a": {"items": {"not": {"pattern": "^(a|aa)+$"}}}}},
            {"a": ["a" * 22 + "b"] * 1000},
            id="many-slow-patterns",
        ),
        pytest.param({"properties": {"a": {"items": {}}}}, {"a": [1] * 99_000}, id="many-values"),
        pytest.param({"type": "object"}, {"a": [1] * 1_000_000}, id="too-many-values"),
        pytest.param({"type": "object"}, {"a": nest(900)}, id="deep-values"),
        pytest.param({"x": nest(900)}, {}, id="deep-schema"),
        pytest.param({"properties": {str(i): {} for i in range(8000)}}, {}, id="large-schema"),
    ],
)
def test_hostile_input_ends(schema: dict[str, Any], value: Any) -> None:
    """Measured: 0.2 s at most, for a schema seen first; the bound is for a loaded machine."""
    began_s = time.monotonic()
    assert check(schema, value) == (TOO_COSTLY.kind, TOO_COSTLY.message)
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"description": "x" * MAX_SCHEMA_CHARS}, id="characters"),
        pytest.param({"enum": list(range(1_000_000))}, id="values"),
    ],
)
def test_a_schema_may_be_too_long(schema: dict[str, Any]) -> None:
    """It is not even kept to be told apart."""
    kept = prepare_schema.cache_info().currsize
    message = "schema: it is too long to check arguments against it"
    assert check(schema, {}) == (MismatchKind.TOO_COSTLY, message)
    assert prepare_schema.cache_info().currsize == kept


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("a" * 1_000_000, id="a-megabyte"),
        pytest.param("((((a{99}){99}){99}){99})", id="counts-of-counts"),
        pytest.param("(" * 500 + ")" * 500, id="deep"),
    ],
)
def test_hostile_patterns_are_not_compiled(pattern: str) -> None:
    began_s = time.monotonic()
    found = check({"properties": {"a": {"pattern": pattern}}}, {"a": "a"})
    assert found
    assert found[0] in (MismatchKind.UNUSABLE_SCHEMA, MismatchKind.TOO_COSTLY)
    assert time.monotonic() - began_s < 5


def test_large_arguments_of_a_plain_kind_are_checked() -> None:
    """What real tools get: a file's content, a table."""
    schema = {
        "properties": {
            "content": {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 1}]},
            "rows": {"items": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}},
        }
    }
    value = {"content": "x" * 5_000_000, "rows": [{"a": 1}] * 3000}
    assert check(schema, value) is None
    assert check(schema, value | {"rows": [{"a": 1}] * 3000 + [{}]}) == (
        MismatchKind.ARGUMENTS,
        "arguments.rows[3000]: 'a' is a required property",
    )


ODD_WORDS = st.sampled_from(
    [
        *("$ref", "$id", "$schema", "$anchor", "$dynamicRef", "$defs", "type", "properties", "items"),
        *("allOf", "anyOf", "not", "if", "pattern", "patternProperties", "required", "enum", "const"),
        *("#", "#/properties/a", "http://json-schema.org/draft-07/schema#", "object", "(", "a"),
    ]
)
ODD_SCHEMAS = st.dictionaries(
    ODD_WORDS,
    st.recursive(
        JSON_VALUES | ODD_WORDS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_WORDS, inner, max_size=4),
        max_leaves=10,
    ),
    max_size=5,
)


@patient
@given(ODD_SCHEMAS, JSON_VALUES)
def test_law_no_schema_raises(schema: dict[str, Any], value: Any) -> None:
    found = find_mismatch(schema, value, time.thread_time)
    assert found is None or len(found.message) <= MAX_PATH_CHARS + MAX_MESSAGE_CHARS + 2


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"properties": {"a": {"pattern": "^(a|aa)+$"}}}, {"a": "a" * 40 + "b"}, id="pattern"),
        pytest.param(
            {"properties": {"a": {"items": {"anyOf": [{"const": i} for i in range(20)]}}}},
            {"a": [19] * 4000},
            id="steps",
        ),
        pytest.param({"type": "object"}, {"a": [1] * 99_000}, id="values"),
    ],
)
def test_checks_share_a_budget(schema: dict[str, Any], value: Any) -> None:
    """Measured: 0.26 s, where the checks of their own would take 2 s and more."""
    budget = CheckBudget(time.thread_time)
    began_s = time.thread_time()
    found = [find_mismatch(schema, value, budget) for _ in range(100)]
    assert time.thread_time() - began_s < 4 * TURN_S
    assert (budget.is_spent, found[-1]) == (True, TOO_COSTLY)


def test_a_spent_budget_prepares_nothing() -> None:
    before = prepare_schema.cache_info()
    assert find_mismatch({"title": "not prepared"}, {}, CheckBudget(time.thread_time, 0)) == TOO_COSTLY
    assert find_mismatch(None, {}, CheckBudget(time.thread_time, 0)) is None
    assert prepare_schema.cache_info() == before


def test_what_there_was_no_time_for_is_not_kept() -> None:
    """Asked again with more of it, the same schema is used."""
    schema = {"title": "in time", "properties": {"kept": {"type": "integer"}}}
    mismatch = Mismatch(MismatchKind.ARGUMENTS, "arguments.kept: 'x' is not of type 'integer'")
    hits = prepare_schema.cache_info().hits
    for max_s, expected in ((1, TOO_COSTLY), (1000, mismatch)):
        budget = CheckBudget(itertools.count().__next__, max_s)
        assert find_mismatch(schema, {"kept": "x"}, budget) == expected
    assert prepare_schema.cache_info().hits == hits
    # Now it is prepared; what is left to do takes time as well.
    assert find_mismatch(schema, {"kept": "x"}, CheckBudget(itertools.count().__next__, 1)) == TOO_COSTLY


def test_a_text_too_long_for_a_pattern_is_not_searched() -> None:
    """`regex` overruns its time there: it looks at its clock now and then only."""
    schema = {"properties": {"a": {"pattern": r"\w+\s+\w"}}}
    began_s = time.process_time()
    found = find_mismatch(schema, {"a": "a" * 1_000_000}, time.thread_time)
    assert found is not None
    assert found.kind is MismatchKind.TOO_COSTLY
    assert time.process_time() - began_s < 0.3


def test_what_the_stack_had_no_room_for_is_not_kept() -> None:
    """Asked again with more of it, the same schema is used."""
    schema = {"properties": {"kept": {"type": "integer"}}}

    def ask(levels: int) -> MismatchKind | None:
        """The answer so many calls down; nothing where there is not even room to ask."""
        try:
            if levels:
                return ask(levels - 1)
            found = find_mismatch(schema, {"kept": "x"}, time.thread_time)
        except RecursionError:
            return None
        return found.kind if found else None

    answers = [kind for levels in range(sys.getrecursionlimit(), 0, -10) if (kind := ask(levels))]
    assert (answers[0], answers[-1]) == (MismatchKind.TOO_COSTLY, MismatchKind.ARGUMENTS)
