"""Much work in pieces."""

from __future__ import annotations

import subprocess
import sys

from app.store.turns import in_turns

PROGRAM = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent, time
from app.store.turns import PAUSE_S, TURN_S, in_turns
def look():
    while True:
        looks.append(1)
        gevent.sleep(PAUSE_S / 2)
def work():
    until_s = time.monotonic() + 1.5 * TURN_S
    while time.monotonic() < until_s:
        pass
    return True
looks = []
gevent.spawn(look)
pieces = iter(work, False)
for _ in in_turns(next(pieces) for _ in range(20)):
    pass
print(len(looks) >= 10)
"""


def test_all_of_it_in_order() -> None:
    assert [*in_turns(iter("abc"))] == ["a", "b", "c"]


def test_others_have_their_turn() -> None:
    """Those too that wait for a time or for what arrives."""
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True) == "True\n"
