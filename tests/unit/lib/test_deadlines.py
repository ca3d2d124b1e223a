"""What is overdue, by the times a watch was told."""

from __future__ import annotations

import pytest

from app.lib.deadlines import Deadlines, DeadlineWatch
from tests.support.plain import to_plain_error

SILENT_10 = "Codex was silent for 10 s."
SILENT_2 = "Codex was silent for 2.5 s."
TOTAL = "The turn took longer than 60 s."
EVENT = "event"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([0], None, id="one-look"),
        pytest.param([1000], None, id="the-clock-may-start-anywhere"),
        pytest.param([1000, 1009.9], None, id="just-before-the-first-event-is-due"),
        pytest.param([1000, 1010], SILENT_10, id="first-event-due"),
        pytest.param([1000, EVENT, 1000, 1002.4], None, id="just-before-idle"),
        pytest.param([1000, EVENT, 1000, 1002.5], SILENT_2, id="idle"),
        pytest.param([1000, EVENT, 1009, 1011], None, id="silence-counts-from-the-look-after-the-event"),
        pytest.param([0, EVENT, 2, EVENT, 4, EVENT, 6], None, id="every-event-starts-anew"),
        pytest.param([0, EVENT, 60], TOTAL, id="total"),
        pytest.param([0, EVENT, 59, EVENT, 59.9], None, id="just-before-total"),
        pytest.param([0, 60], TOTAL, id="both-overdue-total-is-told"),
    ],
)
def test_the_last_look(seen: list[float | str], expected: str | None) -> None:
    watch = DeadlineWatch(Deadlines(first_event_s=10, idle_s=2.5, total_s=60))
    verdict = None
    for each in seen:
        verdict = watch.note_event() if isinstance(each, str) else watch.see(each)
    assert (to_plain_error(verdict).message if verdict else None) == expected
