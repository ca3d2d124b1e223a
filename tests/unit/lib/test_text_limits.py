"""Where a text is ended, the same for every cut of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.events import FinishReason
from app.lib.text_limits import TextLimits
from tests.support.cuts import every_cut
from tests.support.growth import grows_linearly

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


def run(
    parts: Iterable[str], stop: tuple[str, ...], max_bytes: int | None
) -> tuple[str, FinishReason | None]:
    limits = TextLimits(stop, max_bytes)
    out = "".join([*map(limits.feed, parts), limits.flush()])
    return out, limits.reached


@pytest.mark.parametrize(
    ("stop", "max_bytes", "text", "expected"),
    [
        pytest.param((), None, "anything 日本", ("anything 日本", None), id="no-limits"),
        pytest.param(("END",), None, "a END b END", ("a ", STOP), id="a-stop-text"),
        pytest.param(("END",), None, "END", ("", STOP), id="nothing-but-a-stop-text"),
        pytest.param(("END",), None, "EN EENENDD", ("EN EEN", STOP), id="false-beginnings"),
        pytest.param(("END",), None, "no e-n-d EN", ("no e-n-d EN", None), id="ends-in-a-beginning"),
        pytest.param(("aab",), None, "aaab", ("a", STOP), id="a-beginning-inside-a-beginning"),
        pytest.param(("ababc",), None, "abababc", ("ab", STOP), id="a-longer-one"),
        pytest.param(("\n\n",), None, "a\nb\n\n\nc", ("a\nb", STOP), id="line-breaks"),
        pytest.param(("🙂é",), None, "🙂🙂é", ("🙂", STOP), id="wide-characters"),
        pytest.param(("", "b"), None, "ab", ("a", STOP), id="an-empty-stop-text-is-none"),
        pytest.param(("b", "a"), None, "xab", ("x", STOP), id="the-first-to-come-of-several"),
        pytest.param(("abc", "cd"), None, "abcd", ("", STOP), id="overlapping"),
        pytest.param(("abd", "bc"), None, "abc", ("a", STOP), id="overlapping-the-later-one-comes-true"),
        pytest.param(("abcd", "bc"), None, "xabcd", ("x", STOP), id="one-inside-another"),
        pytest.param(("abcd", "bc"), None, "xabce", ("xa", STOP), id="one-inside-what-is-not-another"),
        pytest.param(("abcd", "bc"), None, "xabc", ("xa", STOP), id="one-inside-what-never-goes-on"),
        pytest.param(("abcde", "bcd", "c"), None, "abcde", ("", STOP), id="three-deep"),
        pytest.param(("abcde", "bcd", "c"), None, "abcd!", ("a", STOP), id="three-deep-the-second"),
        pytest.param(("ab", "abc"), None, "abc", ("", STOP), id="one-the-beginning-of-another"),
        pytest.param((), 3, "abc", ("abc", None), id="just-fits"),
        pytest.param((), 3, "abcd", ("abc", LENGTH), id="a-byte-too-many"),
        pytest.param((), 3, "aéé", ("aé", LENGTH), id="between-characters"),
        pytest.param((), 4, "aéé!", ("aé", LENGTH), id="never-half-a-character"),
        pytest.param((), 3, "🙂a", ("", LENGTH), id="what-would-fit-behind-is-no-more-of-it"),
        pytest.param((), 0, "", ("", None), id="none-may-and-none-comes"),
        pytest.param((), 0, "a", ("", LENGTH), id="none-may"),
        pytest.param(("END",), 3, "abcEND", ("abc", STOP), id="a-stop-text-behind-what-just-fits"),
        pytest.param(("END",), 3, "abcEN", ("abc", LENGTH), id="what-was-held-is-too-much"),
        pytest.param(("END",), 5, "abcEN", ("abcEN", None), id="what-was-held-just-fits"),
        pytest.param(("END",), 2, "abcEND", ("ab", LENGTH), id="the-length-comes-first"),
        pytest.param(("abcd", "bc"), 0, "abc", ("", LENGTH), id="the-length-comes-first-in-what-was-held"),
    ],
)
def test_limits(
    stop: tuple[str, ...], max_bytes: int | None, text: str, expected: tuple[str, FinishReason | None]
) -> None:
    got = [run(cut, stop, max_bytes) for cut in every_cut(text)]
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    ("stop", "max_bytes", "steps"),
    [
        pytest.param(
            (),
            2,
            [("a", "a", None), ("bc", "b", LENGTH), ("", "", LENGTH), ("d", "", LENGTH), (None, "", LENGTH)],
            id="bytes",
        ),
        pytest.param(
            ("END",),
            None,
            [("a E", "a ", None), ("N", "", None), ("E", "EN", None), ("ND", "", STOP)],
            id="stop",
        ),
        pytest.param(
            ("aaa", "xb"), None, [("aa", "", None), ("xa", "aax", None), (None, "a", None)], id="the-longest"
        ),
        pytest.param(
            ("END",),
            None,
            [("E", "", None), (None, "E", None), ("ND", "ND", None)],
            id="nothing-spans-a-flush",
        ),
        pytest.param(
            ("abcd", "bc"),
            None,
            [("abc", "", None), ("e", "a", STOP), ("f", "", STOP)],
            id="an-earlier-one-is-awaited",
        ),
        pytest.param(
            ("abc", "ab"), None, [("ab", "", STOP), (None, "", STOP)], id="a-longer-one-in-its-place-is-not"
        ),
    ],
)
def test_what_goes_out_when(
    stop: tuple[str, ...], max_bytes: int | None, steps: list[tuple[str | None, str, FinishReason | None]]
) -> None:
    """Fed texts (`None`: a flush), each with what it lets out and which limit is reached by then."""
    limits = TextLimits(stop, max_bytes)
    got = []
    for fed, _, _ in steps:
        out = limits.flush() if fed is None else limits.feed(fed)
        got.append((fed, out, limits.reached))
    assert got == steps


few = st.sampled_from("aab🙂é")
stops = st.lists(st.text(few, max_size=6), max_size=4).map(tuple)


@given(st.lists(st.text(few, max_size=8), max_size=12), stops, st.none() | st.integers(0, 40))
def test_every_cut_ends_where_the_text_does(
    parts: list[str], stop: tuple[str, ...], max_bytes: int | None
) -> None:
    """The law: as if the whole text was there to be cut."""
    text = "".join(parts)
    found = [text.index(each) for each in stop if each and each in text]
    wanted = text[: min(found, default=len(text))]
    room = len(text.encode()) if max_bytes is None else max_bytes
    fits = len(wanted.encode()) <= room
    shown = "".join(
        char
        for char, end in zip(wanted, itertools.accumulate(len(char.encode()) for char in wanted), strict=True)
        if end <= room
    )
    assert run(parts, stop, max_bytes) == (shown, (STOP if found else None) if fits else LENGTH)


@given(st.lists(st.text(few, max_size=8), max_size=12), stops)
def test_only_what_a_stop_text_may_have_begun_in_is_held(parts: list[str], stop: tuple[str, ...]) -> None:
    limits, fed, out = TextLimits(stop), "", ""
    for part in parts:
        fed, out = fed + part, out + limits.feed(part)
        if not any(each in fed for each in stop if each):
            begun = [size for each in stop for size in range(len(each)) if fed.endswith(each[:size])]
            assert out == fed[: len(fed) - max(begun, default=0)]


def feed_singly(text: str, stop: tuple[str, ...], max_bytes: int | None = None) -> None:
    limits = TextLimits(stop, max_bytes)
    for char in text:
        limits.feed(char)


@pytest.mark.parametrize(
    ("stop", "fragment"),
    [
        pytest.param(("a" * 1000 + "b",), "a", id="always-held-in-full"),
        pytest.param(("a" * 1000,), "a" * 999 + "b", id="always-all-but-found"),
        pytest.param(("ab" * 500 + "c", "ba" * 500 + "c"), "ab", id="two-that-fall-back"),
        pytest.param(("a" * 1_000_000,), "a", id="longer-than-the-text"),
        pytest.param(("no",), "plain text ", id="hardly-ever-begun"),
    ],
)
def test_the_cost_is_linear(stop: tuple[str, ...], fragment: str) -> None:
    assert grows_linearly(lambda text: TextLimits(stop).feed(text), fragment, 20_000)
    assert grows_linearly(lambda text: feed_singly(text, stop, 10**9), fragment, 20_000)
