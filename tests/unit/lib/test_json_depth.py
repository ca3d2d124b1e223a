"""How deep JSON is nested."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from app.lib.json_depth import is_deeper


def nest(levels: int, shell: str = "list") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if shell == "list" else {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        pytest.param(1, 0, id="a-number"),
        pytest.param("[[[[", 0, id="brackets-in-a-text"),
        pytest.param(None, 0, id="null"),
        pytest.param([], 1, id="an-empty-list"),
        pytest.param({}, 1, id="an-empty-object"),
        pytest.param([1, 2, "x"], 1, id="a-flat-list"),
        pytest.param({"[": "{"}, 1, id="brackets-in-a-name"),
        pytest.param([[], {}], 2, id="side-by-side"),
        pytest.param({"a": [1, {"b": 2}], "c": 3}, 3, id="mixed"),
        pytest.param([1, [2, [3]], [[[4]]]], 4, id="the-deepest-counts"),
        pytest.param({"a": [1, {"b": {}}], "c": {}}, 4, id="the-innermost-counts-though-empty"),
        pytest.param([*[[]] * 1000, nest(5)], 6, id="also-behind-many-that-are-not"),
        pytest.param(nest(100), 100, id="lists"),
        pytest.param(nest(100, "object"), 100, id="objects"),
    ],
)
def test_depth(value: Any, depth: int) -> None:
    assert [is_deeper(value, most) for most in (depth - 1, depth, depth + 1)] == [depth > 0, False, False]


@pytest.mark.parametrize("shell", ["list", "object"])
def test_no_depth_is_too_deep_to_be_measured(shell: str) -> None:
    value = nest(20 * sys.getrecursionlimit(), shell)
    assert (is_deeper(value, 100), is_deeper(value, 10**6)) == (True, False)
    while value:  # or the interpreter takes it down level by level, on its own stack
        value = (value.pop() if shell == "list" else value.pop("a")) if value != 1 else None


def test_what_is_too_deep_is_not_looked_at_to_its_end() -> None:
    looked: list[int] = []

    class Watched(dict[str, Any]):
        def values(self) -> Any:
            looked.append(1)
            return super().values()

    value: Any = {}
    for _ in range(1000):
        value = Watched(a=value)
    assert (is_deeper(value, 10), len(looked)) == (True, 10)
