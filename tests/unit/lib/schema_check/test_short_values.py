"""Values by their beginning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from app.lib.schema_check.short_values import to_short
from tests.unit.lib.test_json_text import JSON_VALUES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("x" * 60, repr("x" * 60), id="text"),
        pytest.param("x" * 61, repr("x" * 60) + "…", id="long-text"),
        pytest.param([1, "a", None], "[1, 'a', None]", id="list"),
        pytest.param(list(range(11)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …]", id="long-list"),
        pytest.param([[], {}, [1], {"a": 1}], "[[], {}, […], {…}]", id="what-a-list-holds"),
        pytest.param({"a": [1], "b": 2}, "{'a': […], 'b': 2}", id="object"),
        pytest.param({"x" * 61: 1}, "{" + repr("x" * 60) + "…: 1}", id="long-key"),
        pytest.param(
            dict.fromkeys("abcdefghijk", 0),
            "{'a': 0, 'b': 0, 'c': 0, 'd': 0, 'e': 0, 'f': 0, 'g': 0, 'h': 0, 'i': 0, 'j': 0, …}",
            id="large-object",
        ),
        pytest.param(5, "5", id="number"),
    ],
)
def test_shown(value: Any, shown: str) -> None:
    assert repr(to_short(value)) == shown


@given(JSON_VALUES)
def test_law_it_is_the_same_value(value: Any) -> None:
    assert to_short(value) == value
