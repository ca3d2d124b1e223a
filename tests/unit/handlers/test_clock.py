"""What is looked after once a second."""

from __future__ import annotations

import logging
import threading

from app.handlers.clock import Clock


def fail() -> None:
    raise ZeroDivisionError("oops")


def test_a_chore_that_fails_spoils_no_other(app: object, logged: list[logging.LogRecord]) -> None:
    done: list[str] = []
    Clock([lambda: done.append("first"), fail, lambda: done.append("last")]).close()
    told = [(record.getMessage(), record.levelname) for record in logged]
    assert (done, told) == (["first", "last"], [("a chore failed", "ERROR")])


def test_it_goes_on_until_it_is_closed() -> None:
    """And then once more: what was counted last is to be told, too."""
    rounds: list[int] = []
    twice = threading.Event()

    def count() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 2:
            twice.set()
            raise ZeroDivisionError("a failure is no reason to stop")

    clock = Clock([count])
    clock.start()
    assert twice.wait(5)
    done = len(rounds)
    clock.close()
    assert len(rounds) == done + 1
