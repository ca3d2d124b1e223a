"""Much work in pieces."""

from __future__ import annotations

import subprocess
import sys

from app.store.pauses import with_pauses

PROGRAM = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent, time
from app.store.pauses import PAUSE_S, STRETCH_S, with_pauses
def look():
    while True:
        looks.append(1)
        gevent.sleep(PAUSE_S / 2)
def work():
    until_s = time.monotonic() + 1.5 * STRETCH_S
    while time.monotonic() < until_s:
        pass
    return True
looks = []
gevent.spawn(look)
pieces = iter(work, False)
for _ in with_pauses(next(pieces) for _ in range(20)):
    pass
print(len(looks) >= 10)
"""


def test_all_of_it_in_order() -> None:
    assert [*with_pauses(iter("abc"))] == ["a", "b", "c"]


def test_others_have_their_turn() -> None:
    """Those too that wait for a time or for what arrives."""
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True) == "True\n"
