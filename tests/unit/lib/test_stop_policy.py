"""What follows a tool block, by the operator's knobs; and why an answer ended."""

from __future__ import annotations

import itertools

import pytest

from app.lib.events import FinishReason
from app.lib.stop_policy import PRECEDENCE, Fate, StopMode, StopPolicy, ToolTail, choose_finish

FIRST, ALL = StopMode.FIRST, StopMode.ALL


def run(policy: StopPolicy, steps: str) -> str:
    """What goes out of a stream written as letters: upper case a block, else text, up to the cut (`|`)."""
    tail, out = ToolTail(policy), ""
    for step in steps:
        if step.isupper():
            fate = tail.decide(step)
            out += {Fate.SHOWN: step, Fate.RECORDED: f"({step})", Fate.TEXT: step.lower(), Fate.DROPPED: ""}[
                fate
            ]
        else:
            out += step if tail.admits(step) else ""
        if tail.is_cut:
            return f"{out}|"
    return out


@pytest.mark.parametrize(
    ("policy", "steps", "expected"),
    [
        pytest.param(StopPolicy(), "a bA", "a bA|", id="first-cuts-behind-the-first"),
        pytest.param(StopPolicy(), "abc ", "abc ", id="no-block-no-cut"),
        pytest.param(StopPolicy(suppress_tail=False), "aAb", "aA|", id="first-cuts-also-without-suppression"),
        pytest.param(StopPolicy(mode=ALL), "aA \nB C", "aABC", id="all-takes-blocks-apart-from-white-space"),
        pytest.param(StopPolicy(mode=ALL), "aA Bc", "aAB|", id="all-cuts-where-text-begins"),
        pytest.param(
            StopPolicy(mode=ALL, suppress_tail=False), "aA Bc", "aAB|", id="white-space-of-all-never-shown"
        ),
        pytest.param(StopPolicy(mode=ALL, max_blocks=2), "AB", "AB|", id="all-cuts-at-the-most-blocks"),
        pytest.param(StopPolicy(stop=False), "aAbBc ", "aA(B)", id="runs-on-without-text-or-further-blocks"),
        pytest.param(StopPolicy(stop=False, mode=ALL), "aAbBc", "aAB", id="runs-on-with-blocks"),
        pytest.param(StopPolicy(stop=False, suppress_tail=False), "aAbBc", "aAbBc", id="both-off"),
        pytest.param(StopPolicy(mode=ALL).run_on(), "aAbBc", "aAbBc", id="run-on"),
        pytest.param(StopPolicy(dedup=True).run_on(), "aAbAc", "aAbc", id="run-on-keeps-the-other-knobs"),
        pytest.param(StopPolicy(mode=ALL, dedup=True), "AABA", "AB", id="repeats-dropped"),
        pytest.param(StopPolicy(mode=ALL), "AABA", "AABA", id="repeats-kept-by-default"),
        pytest.param(
            StopPolicy(stop=False, mode=ALL, max_blocks=1), "aAbB", "aA", id="past-the-most-dropped"
        ),
        pytest.param(
            StopPolicy(stop=False, suppress_tail=False, max_blocks=1), "aAbB", "aAbb", id="past-the-most-text"
        ),
    ],
)
def test_what_goes_out(policy: StopPolicy, steps: str, expected: str) -> None:
    assert run(policy, steps) == expected


def test_nothing_comes_behind_a_cut() -> None:
    tail = ToolTail(StopPolicy())
    tail.decide("A")
    assert (tail.decide("B"), tail.admits("text"), tail.admits(" ")) == (Fate.DROPPED, False, False)


@pytest.mark.parametrize(
    ("policy", "ticks", "cut_at"),
    [
        pytest.param(
            StopPolicy(mode=ALL), [(0.0, False), (0.2, False), (0.3, False)], 0.3, id="after-the-grace"
        ),
        pytest.param(
            StopPolicy(mode=ALL),
            [(0.0, False), (0.2, True), (0.5, False), (0.7, False), (0.8, False)],
            0.8,
            id="a-block-under-way-stops-the-clock",
        ),
        pytest.param(StopPolicy(mode=ALL, grace_s=0), [(0.0, False), (0.1, False)], 0.1, id="no-grace"),
        pytest.param(StopPolicy(mode=ALL, stop=False), [(0.0, False), (9.0, False)], None, id="no-stop"),
    ],
)
def test_the_grace(policy: StopPolicy, ticks: list[tuple[float, bool]], cut_at: float | None) -> None:
    tail = ToolTail(policy)
    tail.see(-9.0, False)
    tail.decide("A")
    cut = None
    for now_s, is_holding in ticks:
        tail.see(now_s, is_holding)
        cut = now_s if tail.is_cut and cut is None else cut
    assert cut == cut_at


def test_another_block_begins_the_grace_anew() -> None:
    tail = ToolTail(StopPolicy(mode=ALL))
    tail.decide("A")
    for now_s in (0.0, 0.2):
        tail.see(now_s, False)
    tail.decide("B")
    for now_s in (0.25, 0.5):
        tail.see(now_s, False)
    assert not tail.is_cut


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        pytest.param(pair, min(pair, key=list(PRECEDENCE).index), id="-".join(pair))
        for pair in itertools.product(FinishReason, repeat=2)
    ],
)
def test_precedence(reasons: tuple[FinishReason, ...], expected: FinishReason) -> None:
    """Story 2.9 AC 4: `tool_calls` over everything."""
    assert choose_finish(reasons) == choose_finish(reasons[::-1]) == expected
    assert FinishReason.TOOL_CALLS not in reasons or expected is FinishReason.TOOL_CALLS
