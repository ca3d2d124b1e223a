"""Patterns: which are compiled, and what the others would have cost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.lib.schema_check.patterns import MAX_CHARS, MAX_UNROLLED, count_unrolled, parse_pattern

UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("abc", 3, id="characters"),
        pytest.param(r"\d\{", 2, id="escapes"),
        pytest.param("[^]a{9}]", 1, id="a-set-is-one"),
        pytest.param("[[:alpha:](]", 1, id="a-class-in-a-set"),
        pytest.param("a{5}", 5, id="a-count"),
        pytest.param("a{0}b{1}", 2, id="counts-that-add-nothing"),
        pytest.param("a{2,}b{3,9}", 5, id="least-counts"),
        pytest.param("(ab){3}", 9, id="a-group"),
        pytest.param("((ab){3}c){2}", 22, id="nested-groups"),
        pytest.param("(?:a)(?=b)(?!c)(?<=d)(?<!e)(?>f)(?P<n>g)(?<m>h)(?i:k)", 18, id="kinds-of-groups"),
        pytest.param("(?i)a(?P<n>b)(?P=n)", 4, id="flags-and-references"),
        pytest.param("(a{9})(?i){9}", 90, id="flags-between-a-group-and-its-count"),
        pytest.param(UUID + "|" + UUID, 77, id="counts-side-by-side-only-add"),
        pytest.param("a)", None, id="never-opened"),
        pytest.param("(?x)( #)\n a{99} #(\n ){99}", None, id="brackets-in-comments"),
        pytest.param("(?V1)[[a]--[)]]", None, id="sets-in-sets"),
        pytest.param("(?#()a", None, id="a-comment"),
        pytest.param("a(?R)?b", None, id="recursion"),
        pytest.param("(a)?(?(1)b|c)", None, id="condition"),
        pytest.param(f"a{{{MAX_UNROLLED}}}", MAX_UNROLLED, id="just-small-enough"),
        pytest.param(f"a{{{MAX_UNROLLED + 1}}}", None, id="too-many"),
        pytest.param("((((a{99}){99}){99}){99})", None, id="a-bomb"),
        pytest.param("a{4000000000}", None, id="a-short-bomb"),
    ],
)
def test_count_unrolled(pattern: str, expected: int | None) -> None:
    assert count_unrolled(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param("b", "abc", True, id="anywhere"),
        pytest.param("^b", "abc", False, id="anchored"),
        pytest.param(UUID, "123e4567-e89b-12d3-a456-426614174000", True, id="uuid"),
        pytest.param(r"^\p{Lu}\p{Ll}+$", "Ärger", True, id="unicode-properties-as-ecma-knows-them"),
        pytest.param("(?<y>a)", "a", True, id="group-names-as-ecma-spells-them"),
        pytest.param("a{,2}b", "aab", True, id="no-least-count"),
    ],
)
def test_matching(pattern: str, text: str, expected: bool) -> None:
    parsed = parse_pattern(pattern)
    assert parsed
    assert parsed.is_in(text, 1) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("(", id="no-pattern"),
        pytest.param("a**", id="nothing-to-repeat"),
        pytest.param("a" * (MAX_CHARS + 1), id="too-long"),
        pytest.param("(" * 1000 + ")" * 1000, id="nested-deeper-than-the-stack"),
        pytest.param("(a{999}){999}", id="too-large-once-unrolled"),
    ],
)
def test_unusable(pattern: str) -> None:
    assert parse_pattern(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("(a|aa)+$", "a" * 100 + "b", id="alternatives"),
        pytest.param("(?>a+)+b", "a" * 100_000, id="atomic"),
        pytest.param("(a|b|ab)*$", "ab" * 100 + "c", id="overlaps"),
    ],
)
def test_a_hostile_pattern_is_timed_out(pattern: str, text: str) -> None:
    parsed = parse_pattern(pattern)
    assert parsed
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        parsed.is_in(text, 0.05)
    assert time.monotonic() - began_s < 5


def test_no_place_for_mistakes_about_repeated_plus() -> None:
    """`(a+)+$` is bad in `re`; here it ends, by the limit or before."""
    parsed = parse_pattern("(a+)+$")
    assert parsed
    began_s = time.monotonic()
    assert not parsed.is_in("a" * 50 + "b", 1)
    assert time.monotonic() - began_s < 5


PIECES = st.sampled_from(
    [*"ab()[]{}?*+|^$\\-:,<>=!#x1", "{9}", "{99}", "{99,}", "(?:", "(?=", "(?x)", "[^", "[[:alpha:]", "(?i)"]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_law_nothing_raises_or_takes_long_to_compile(pattern: str) -> None:
    began_s = time.monotonic()
    parsed = parse_pattern(pattern)
    assert time.monotonic() - began_s < 2
    assert parsed is None or parsed.size <= MAX_CHARS + MAX_UNROLLED
