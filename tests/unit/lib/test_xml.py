"""Elements and entities of tool blocks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.lib.xml import (
    Element,
    escape_text,
    is_element_name,
    read_elements,
    read_inside,
    unescape_text,
    unwrap_lines,
    wrap_lines,
    write_element,
)
from tests.support.growth import grows_linearly


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d", id="markup"),
        pytest.param("&lt;", "&amp;lt;", id="an-entity"),
        pytest.param('"it\'s"', '"it\'s"', id="quotes-stay"),
    ],
)
def test_escape(text: str, expected: str) -> None:
    assert (escape_text(text), unescape_text(expected)) == (expected, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("&lt;&gt;&amp;&quot;&apos;", "<>&\"'", id="the-five"),
        pytest.param("&amp;lt;", "&lt;", id="once"),
        pytest.param("&#10;&nbsp;&LT;& lt;&lt", "&#10;&nbsp;&LT;& lt;&lt", id="nothing-else"),
    ],
)
def test_unescape(text: str, expected: str) -> None:
    assert unescape_text(text) == expected


# Neither a loaded machine nor hypothesis's first character table is a finding.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.sampled_from("&<>;ltgamp\n é")) | st.text())
def test_what_was_written_is_read(text: str) -> None:
    assert unescape_text(escape_text(text)) == text
    assert unwrap_lines(wrap_lines(text)) == text
    assert read_elements(write_element("a", escape_text(text))) == [Element("a", escape_text(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\na\n", "a", id="on-lines-of-its-own"),
        pytest.param("\n\n", "", id="empty-line"),
        pytest.param("\n", "\n", id="one-line-break"),
        pytest.param("\na", "\na", id="only-before"),
        pytest.param("a\n", "a\n", id="only-behind"),
        pytest.param("\n\n a \n", "\n a ", id="only-one-each"),
        pytest.param("", "", id="empty"),
    ],
)
def test_unwrap_lines(text: str, expected: str) -> None:
    assert unwrap_lines(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("query", True, id="letters"),
        pytest.param("_a.b-c1", True, id="all-it-may-hold"),
        pytest.param("1a", False, id="digit-first"),
        pytest.param("a b", False, id="space"),
        pytest.param("a\n", False, id="line-break"),
        pytest.param("é", False, id="not-ascii"),
        pytest.param("", False, id="empty"),
    ],
)
def test_is_element_name(text: str, expected: bool) -> None:
    assert is_element_name(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<a>x</a>", "x", id="plain"),
        pytest.param("<a></a>", "", id="empty"),
        pytest.param('<a \n id="1">x</a>', "x", id="attributes"),
        pytest.param("<a >x</a></a>", "x</a>", id="to-the-last-closer"),
        pytest.param("<ab>x</a>", None, id="longer-name"),
        pytest.param("<a>x</a> ", None, id="text-behind"),
        pytest.param(" <a>x</a>", None, id="text-before"),
        pytest.param("<a>x", None, id="never-closed"),
        pytest.param("<a x</a", None, id="opener-never-closed"),
    ],
)
def test_read_inside(text: str, expected: str | None) -> None:
    assert read_inside(text, "a") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(" \n", [], id="white-space"),
        pytest.param(
            "\n<a> x </a>  <b>\n</b>\n", [Element("a", " x "), Element("b", "\n")], id="white-space-between"
        ),
        pytest.param("<a><b>1 < 2</b><a></a>", [Element("a", "<b>1 < 2</b><a>")], id="ends-at-first-closer"),
        pytest.param("<a>1</a><a>2</a>", [Element("a", "1"), Element("a", "2")], id="repeated"),
        pytest.param("x<a>1</a>", None, id="text-before"),
        pytest.param("<a>1</a>x", None, id="text-behind"),
        pytest.param("<a>1</a><b>", None, id="never-closed"),
        pytest.param("<a/>", None, id="self-closing"),
        pytest.param("<a b='1'>1</a>", None, id="attributes"),
        pytest.param("</a>", None, id="closer-alone"),
    ],
)
def test_read_elements(text: str, expected: list[Element] | None) -> None:
    assert read_elements(text) == expected


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param("<a>", id="openers"),
        pytest.param("<a></a>", id="elements"),
        pytest.param("<a", id="broken-openers"),
        pytest.param("a", id="letters"),
        pytest.param(" ", id="white-space"),
        pytest.param("<", id="less-than"),
        pytest.param("&", id="ampersands"),
        pytest.param("&lt;", id="entities"),
    ],
)
def test_time_grows_with_the_text_and_no_faster(fragment: str) -> None:
    def read(text: str) -> None:
        read_elements(text)
        read_elements("<a" + text)
        read_inside("<a " + text, "a")
        unescape_text(text)

    assert grows_linearly(read, fragment)
