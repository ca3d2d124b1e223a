"""JSON read, written and mended."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.json_text import (
    Parsed,
    dump_json,
    dump_written,
    escape_surrogates,
    has_surrogates,
    parse_json,
    parse_written,
    repair_json,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "123456789012345678901234567890", Parsed(123456789012345678901234567890), id="long-integer"
        ),
        pytest.param("null", Parsed(None), id="null-is-a-value"),
        pytest.param(' {"a": [1, 2.5, true]}\n', Parsed({"a": [1, 2.5, True]}), id="white-space-around"),
        pytest.param('"\\ud800"', Parsed("\ud800"), id="half-a-character"),
        pytest.param('{"a":1,"a":2}', Parsed({"a": 2}), id="a-key-twice"),
        pytest.param("", None, id="nothing"),
        pytest.param("{", None, id="cut"),
        pytest.param("1 2", None, id="two-values"),
        pytest.param("[1,]", None, id="trailing-comma"),
        pytest.param("NaN", None, id="nan"),
        pytest.param("[-Infinity]", None, id="infinity"),
        pytest.param("1e999", None, id="a-number-past-all-floats"),
        pytest.param("9" * 5000, None, id="more-digits-than-python-reads"),
        pytest.param("[" * 100_000, None, id="nested-deeper-than-the-stack"),
        pytest.param("\ufeff{}", None, id="byte-order-mark"),
    ],
)
def test_parse_json(text: str, expected: Parsed | None) -> None:
    assert parse_json(text) == expected
    assert parse_written(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[1E2,1.0,-0,-0.0,2e-7]", "[1E2,1.0,-0,-0.0,2e-7]", id="spellings"),
        pytest.param("12345678901234567.5", "12345678901234567.5", id="more-digits-than-a-float-has"),
        pytest.param("-123456789012345678901234567890", "-123456789012345678901234567890", id="long-integer"),
        pytest.param("[null, true, false, 0, 1]", "[null,true,false,0,1]", id="names-and-what-equals-them"),
        pytest.param(r'{"a" : [ ], "\u00e9": {}}', '{"a":[],"é":{}}', id="all-else-compact"),
        pytest.param(r'{"\ud83d": "a\"\udc00"}', r'{"\ud83d":"a\"\udc00"}', id="half-characters"),
        pytest.param("[" * 600 + "1E2" + "]" * 600, "[" * 600 + "100.0" + "]" * 600, id="deep"),
    ],
)
def test_numbers_are_written_as_they_were(text: str, expected: str) -> None:
    parsed = parse_written(text)
    assert parsed
    assert dump_written(parsed.value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": [1, "é😀"]}, '{"a":[1,"é😀"]}', id="compact-and-readable"),
        pytest.param({"\ud83d": "a\udc00"}, '{"\\ud83d":"a\\udc00"}', id="half-characters"),
        pytest.param({1, 2}, None, id="no-json-value"),
        pytest.param(NESTED, None, id="nested-deeper-than-the-stack"),
        pytest.param(CIRCLE, None, id="in-itself"),
    ],
)
def test_dump_json(value: Any, expected: str | None) -> None:
    assert dump_json(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\udfffb", r"a\udfffb", id="half-a-character"),
        pytest.param("a😀", "a😀", id="a-whole-one"),
    ],
)
def test_surrogates(text: str, expected: str) -> None:
    assert (escape_surrogates(text), has_surrogates(text)) == (expected, text != expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a":1}', '{"a":1}', id="nothing-to-mend"),
        pytest.param(' \n{"a":1}\xa0', '{"a":1}', id="any-white-space"),
        pytest.param('{"a":[1,2,],}', '{"a":[1,2]}', id="trailing-commas"),
        pytest.param('{"a":1 , \n}', '{"a":1  \n}', id="a-comma-apart"),
        pytest.param('{"a":",}",}', '{"a":",}"}', id="a-comma-in-a-string-stays"),
        pytest.param('{"a":"\\",}",}', '{"a":"\\",}"}', id="a-quote-in-a-string"),
        pytest.param('```json\n{"a":1}\n```', '{"a":1}', id="fence"),
        pytest.param('```{"a":1}```', '{"a":1}', id="fence-on-one-line"),
        pytest.param('```json {"a":1,} ```', '{"a":1}', id="fence-and-comma"),
        pytest.param('{"a":"b\nc\td"}', '{"a":"b\\u000ac\\u0009d"}', id="line-break-in-a-string"),
        pytest.param('{"a":"b\\\nc"}', None, id="an-escaped-line-break-could-mean-two-things"),
        pytest.param('{"a":1,,}', None, id="two-commas"),
        pytest.param("{'a':1}", None, id="other-quotes"),
        pytest.param('{"a":', None, id="cut"),
        pytest.param('{"a":"b', None, id="cut-in-a-string"),
        pytest.param("```", None, id="half-a-fence"),
        pytest.param("``````", None, id="an-empty-fence"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_repair_json(text: str, expected: str | None) -> None:
    assert repair_json(text) == expected


@pytest.mark.parametrize(
    "part",
    [
        pytest.param('\\"', id="escaped-quotes-in-an-open-string"),
        pytest.param(", ", id="commas"),
        pytest.param('"', id="quotes"),
        pytest.param("\\", id="backslashes"),
        pytest.param("\n", id="line-breaks"),
    ],
)
def test_repair_takes_linear_time(part: str) -> None:
    """A quadratic pass would take minutes for a million of these."""
    began_s = time.monotonic()
    repair_json('{"' + part * 1_000_000)
    assert time.monotonic() - began_s < 10


@given(JSON_VALUES)
def test_law_what_is_written_is_read_again(value: Any) -> None:
    assert parse_json(dump_json(value)) == Parsed(value)


@given(JSON_VALUES)
def test_law_what_was_read_is_written_alike(value: Any) -> None:
    text = dump_json(value)
    parsed = parse_written(text)
    assert parsed == Parsed(value)
    assert dump_written(parsed.value) == text


@given(ANY_TEXT)
def test_law_no_text_raises_and_all_of_it_encodes(text: str) -> None:
    assert json.loads(dump_json(text).encode()) == json.loads(json.dumps(text))
    escape_surrogates(text).encode()
    parse_json(text)
    repaired = repair_json(text)
    assert repaired is None or parse_json(repaired)


@given(JSON_VALUES)
def test_law_good_json_is_left_as_it_is(value: Any) -> None:
    text = dump_json(value)
    assert repair_json(text) == text
