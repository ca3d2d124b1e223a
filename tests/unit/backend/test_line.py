"""Who is next for a codex process."""

from __future__ import annotations

import time

import pytest

from app.backend.line import Line, Wish
from app.lib.errors import GatewayBusy


def test_who_came_first_is_first() -> None:
    line = Line(10)
    late, early = line.join(Wish(10, arrived_s=2)), line.join(Wish(10, arrived_s=1))
    assert (line.is_next(early), line.is_next(late), line.is_next(None)) == (True, False, False)
    line.leave(early)
    assert line.is_next(late)
    line.leave(late)
    assert (line.is_next(None), len(line)) == (True, 0)


def test_those_for_whom_nobody_waits_let_others_pass() -> None:
    line = Line(10)
    background = line.join(Wish(float("inf"), arrived_s=1))
    line.join(Wish(10, arrived_s=2))
    assert not line.is_next(background)


def test_more_patience_is_no_reason_to_wait_longer() -> None:
    line = Line(10)
    first = line.join(Wish(30, arrived_s=1))
    line.join(Wish(10, arrived_s=2))
    assert line.is_next(first)


def test_a_line_has_an_end() -> None:
    line = Line(1)
    line.join(Wish(10))
    with pytest.raises(GatewayBusy, match="too many requests wait"):
        line.join(Wish(10))


def test_only_the_first_is_called() -> None:
    line = Line(10)
    first, second = line.join(Wish(10, arrived_s=1)), line.join(Wish(10, arrived_s=2))
    line.call_next()
    began_s = time.monotonic()
    first.wait(5)
    assert time.monotonic() - began_s < 1
    second.wait(0.01)
    assert time.monotonic() - began_s >= 0.01


def test_who_leaves_calls_the_next() -> None:
    line = Line(10)
    first, second = line.join(Wish(10, arrived_s=1)), line.join(Wish(10, arrived_s=2))
    line.leave(first)
    began_s = time.monotonic()
    second.wait(5)
    assert time.monotonic() - began_s < 1
