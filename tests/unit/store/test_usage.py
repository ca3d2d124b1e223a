"""What keys and models used, hour by hour and request by request."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.lib.account_limits import AccountLimits, LimitWindow
from app.store.database import StoreFault
from app.store.usage import (
    BITE_ROWS,
    BUFFERS,
    COLUMNS,
    DAY_S,
    FILE_NAME,
    HOUR_S,
    Entry,
    Span,
    UsageStore,
)
from tests.unit.store.conftest import Clock, hold_write_lock

OpenUsage = Callable[..., UsageStore]

#: A full hour, so that the hours of these tests begin at round numbers.
NOW_S = 1_800_000_000.0
HOUR = int(NOW_S // HOUR_S)
DAYS = 2
ALWAYS = Span(0, NOW_S + 4 * DAY_S)


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now_s = NOW_S
    return clock


@pytest.fixture
def open_usage(folder: pathlib.Path, clock: Clock) -> Iterator[OpenUsage]:
    with contextlib.ExitStack() as stack:

        def open_usage(most_entries: int = 100, lock_timeout_s: float = 10) -> UsageStore:
            store = UsageStore(folder, DAYS, most_entries, lock_timeout_s, clock)
            return stack.enter_context(contextlib.closing(store))

        yield open_usage


@pytest.fixture
def usage(open_usage: OpenUsage) -> UsageStore:
    return open_usage()


def entry(at_s: float = NOW_S, model: str = "gpt-5.5", key: str = "me", **fields: Any) -> Entry:
    return Entry(at_s, model, {"key": key} | fields)


def read_hours(usage: UsageStore, span: Span = ALWAYS) -> list[tuple[int, str, str, dict[str, int]]]:
    """Of each hour (counted from now on) what is not zero."""
    return [
        (row.hour - HOUR, row.key, row.model, {name: count for name, count in row.counts.items() if count})
        for row in usage.read_hours(span)
    ]


def read_numbers(usage: UsageStore, span: Span = ALWAYS, before: int = 2**62, limit: int = 100) -> list[int]:
    return [number for number, _, _ in usage.read_entries(span, before, limit)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"status": 200}, {"requests": 1}, id="an-answer-without-a-model"),
        pytest.param(
            {
                "status": 200,
                "input_tokens": 120,
                "cached_tokens": 100,
                "output_tokens": 20,
                "reasoning_tokens": 5,
                "tool_calls": 2,
                "frames": 9,
            },
            {
                "requests": 1,
                "input_tokens": 120,
                "cached_tokens": 100,
                "output_tokens": 20,
                "reasoning_tokens": 5,
                "tool_calls": 2,
            },
            id="tokens-and-calls",
        ),
        pytest.param({"status": 399}, {"requests": 1}, id="no-error-yet"),
        pytest.param({"status": 400, "error": None}, {"requests": 1, "errors": 1}, id="an-error"),
        pytest.param({"status": 400}, {"requests": 1, "errors": 1}, id="an-error-by-its-status"),
        pytest.param({"status": 200, "error": "x"}, {"requests": 1, "errors": 1}, id="an-error-in-band"),
        pytest.param({}, {"requests": 1}, id="nothing-known"),
        pytest.param(
            {"status": 200, "background": True, "input_tokens": 1},
            {"input_tokens": 1},
            id="what-went-on-behind-its-request",
        ),
        pytest.param(
            {"status": 200, "background": True, "error": "x"}, {"errors": 1}, id="and-failed-behind-it"
        ),
        pytest.param(
            {
                "tool_buffer_started.use_tool": 3,
                "tool_buffer_started.tool_call": 1,
                "tool_buffer_flushed.use_tool.complete": 2,
                "tool_buffer_aborted.use_tool.nested": 1,
                "tool_buffer_aborted.tool_call.prose": 1,
                "tool_call_faulty.function.mismatch": 7,
            },
            {
                "requests": 1,
                "tool_buffer_started": 4,
                "tool_buffer_flushed": 2,
                "tool_buffer_aborted": 2,
            },
            id="held-blocks-of-every-row-and-reason",
        ),
    ],
)
def test_what_a_request_adds(usage: UsageStore, fields: dict[str, Any], expected: dict[str, int]) -> None:
    usage.add([entry(**fields)])
    assert read_hours(usage) == [(0, "me", "gpt-5.5", expected)]


def test_requests_add_up_by_hour_key_and_model(usage: UsageStore) -> None:
    late = NOW_S + HOUR_S - 1
    usage.add([entry(), entry(late), entry(NOW_S + HOUR_S), entry(key="you")])
    usage.add([entry(model=""), entry(late, input_tokens=7)])
    assert read_hours(usage) == [
        (0, "me", "", {"requests": 1}),
        (0, "me", "gpt-5.5", {"requests": 3, "input_tokens": 7}),
        (0, "you", "gpt-5.5", {"requests": 1}),
        (1, "me", "gpt-5.5", {"requests": 1}),
    ]


def test_every_column_has_its_place(usage: UsageStore) -> None:
    """No number stands in another one's column."""
    numbers = {name: place for place, name in enumerate(COLUMNS, 1) if name not in ("requests", "errors")}
    fields = {f"{name}.x" if name in BUFFERS else name: number for name, number in numbers.items()}
    usage.add([entry(**fields)])
    assert read_hours(usage) == [(0, "me", "gpt-5.5", {"requests": 1} | numbers)]


@pytest.mark.parametrize(
    ("span", "hours"),
    [
        pytest.param(Span(NOW_S, NOW_S), [], id="no-time"),
        pytest.param(Span(NOW_S, NOW_S + 1), [0], id="an-hour-that-is-touched"),
        pytest.param(Span(NOW_S - 1, NOW_S + 1), [-1, 0], id="two-that-are"),
        pytest.param(Span(NOW_S - HOUR_S, NOW_S), [-1], id="the-end-is-not-in-it"),
        pytest.param(Span(NOW_S - 30 * HOUR_S, NOW_S + 2 * HOUR_S), [-30, -24, -1, 0, 1], id="several-days"),
        pytest.param(ALWAYS, [-30, -24, -1, 0, 1], id="always"),
    ],
)
def test_which_hours_are_read(usage: UsageStore, span: Span, hours: list[int]) -> None:
    usage.add([entry(NOW_S + hour * HOUR_S) for hour in (-30, -24, -1, 0, 1)])
    assert [hour for hour, *_ in read_hours(usage, span)] == hours


@pytest.mark.parametrize(
    ("span", "numbers"),
    [
        pytest.param(Span(NOW_S, NOW_S), [], id="no-time"),
        pytest.param(Span(NOW_S, NOW_S + 1), [1], id="to-the-second"),
        pytest.param(Span(NOW_S, NOW_S + 1.5), [2, 1], id="the-newest-first"),
        pytest.param(ALWAYS, [3, 2, 1], id="always"),
    ],
)
def test_which_entries_are_read(usage: UsageStore, span: Span, numbers: list[int]) -> None:
    usage.add([entry(NOW_S + seconds) for seconds in (0, 1, 2)])
    assert read_numbers(usage, span) == numbers


def test_an_entry_is_the_line_as_it_was(usage: UsageStore) -> None:
    fields = {"status": 200, "path": "/é", "tool_names": ["f"], "error": None, "duration_ms": 0.5}
    usage.add([entry(NOW_S + 0.25, **fields)])
    assert usage.read_entries(ALWAYS, 2, 1) == [(1, NOW_S + 0.25, {"key": "me"} | fields)]


def test_a_key_sees_its_own(usage: UsageStore) -> None:
    usage.add([entry(key="me"), entry(key="you"), entry(key="")])
    keys = [Span(0, ALWAYS.end_s, key) for key in ("me", "you", "", "nobody")]
    told = [([key for _, key, _, _ in read_hours(usage, span)], read_numbers(usage, span)) for span in keys]
    assert told == [(["me"], [1]), (["you"], [2]), ([""], [3]), ([], [])]


def test_pages_have_no_hole_and_no_repeat(usage: UsageStore) -> None:
    """However many are added meanwhile."""
    usage.add([entry() for _ in range(10)])
    pages: list[list[int]] = []
    before = 2**62
    for _ in range(4):
        pages.append(read_numbers(usage, before=before, limit=4))
        before = min(pages[-1], default=0)
        usage.add([entry(), entry()])
    assert pages == [[10, 9, 8, 7], [6, 5, 4, 3], [2, 1], []]


def test_two_workers_lose_nothing(open_usage: OpenUsage) -> None:
    """Each with a connection of its own, on one file, at the same time."""
    workers = [open_usage(most_entries=1000) for _ in range(2)]

    def work(store: UsageStore) -> None:
        for _ in range(50):
            store.add([entry(), entry(input_tokens=1)])

    threads = [threading.Thread(target=work, args=(store,)) for store in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [(0, "me", "gpt-5.5", {"requests": 200, "input_tokens": 100})]
    numbers = read_numbers(workers[0], limit=1000)
    assert ([read_hours(store) for store in workers], numbers) == ([expected] * 2, [*range(200, 0, -1)])


def test_what_was_kept_is_there_after_a_restart(open_usage: OpenUsage, usage: UsageStore) -> None:
    usage.add([entry()], AccountLimits("plus"))
    usage.close()
    again = open_usage()
    assert (read_hours(again), read_numbers(again), again.read_limits()) == (
        [(0, "me", "gpt-5.5", {"requests": 1})],
        [1],
        (NOW_S, AccountLimits("plus")),
    )


def test_old_ones_go(open_usage: OpenUsage, clock: Clock) -> None:
    """Days are counted from now; an hour goes when none of it is in them any more."""
    with contextlib.closing(open_usage()) as before:
        before.add([entry(NOW_S + minutes * 60) for minutes in (0, 59, 60, 119, 120)])
    clock.now_s = NOW_S + DAYS * DAY_S + 90 * 60
    usage = open_usage()
    usage.add([entry(clock.now_s)])
    kept = usage._database.read("SELECT hour FROM hours")
    times = [at_s - NOW_S for _, at_s, _ in usage.read_entries(ALWAYS, 100, 100)]
    assert ([hour - HOUR for (hour,) in kept], times) == (
        [1, 2, DAYS * 24 + 1],
        [clock.now_s - NOW_S, 120 * 60, 119 * 60],
    )


def test_an_hour_that_is_past_its_days_is_not_told(usage: UsageStore, clock: Clock) -> None:
    """Whether it is still in the file or not: that depends on when somebody last looked."""
    usage.add([entry(), entry(NOW_S + HOUR_S)])
    clock.now_s += DAYS * DAY_S + HOUR_S
    assert [hour for hour, *_ in read_hours(usage)] == [1]


@pytest.mark.parametrize("most", [1, 7, 2 * BITE_ROWS])
def test_so_many_entries_are_kept(open_usage: OpenUsage, most: int) -> None:
    """In bites, and the hours count on."""
    count = 3 * BITE_ROWS
    with contextlib.closing(open_usage(10**9)) as before:
        before.add([entry() for _ in range(count)])
    usage = open_usage(most)
    usage.add([entry()])
    assert (read_numbers(usage, limit=count), read_hours(usage)) == (
        [*range(count + 1, count + 1 - most, -1)],
        [(0, "me", "gpt-5.5", {"requests": count + 1})],
    )


def test_strangers_push_nobody_out(open_usage: OpenUsage) -> None:
    """However often somebody without a key asks: a tenth of what is kept is theirs."""
    with contextlib.closing(open_usage(10**9)) as before:
        before.add([entry() for _ in range(50)])
        before.add([entry(key="(none)") for _ in range(500)])
    usage = open_usage(100)
    usage.add([entry()])
    keys = [fields["key"] for _, _, fields in usage.read_entries(ALWAYS, 2**62, 1000)]
    assert keys == ["me", *["(none)"] * 10, *["me"] * 50]


def test_much_at_once_is_not_kept_until_it_is_time_again(open_usage: OpenUsage) -> None:
    """Between two looks there are never more than a tenth too many."""
    usage = open_usage(100)
    counts = []
    for _ in range(50):
        usage.add([entry() for _ in range(5)])
        counts.append(len(read_numbers(usage, limit=1000)))
    assert (max(counts) < 110, counts[-1] >= 100) == (True, True)


def test_what_cannot_be_dropped_is_no_reason_not_to_keep(
    app: object, usage: UsageStore, folder: pathlib.Path, clock: Clock, logged: list[logging.LogRecord]
) -> None:
    usage.start()
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as other:
        other.execute("CREATE TRIGGER keep BEFORE DELETE ON entries BEGIN SELECT RAISE(FAIL, 'no'); END")
        other.commit()
    usage.add([entry(NOW_S - 10 * DAYS * DAY_S)])
    told = [record.getMessage() for record in logged]
    assert (read_numbers(usage), told) == (
        [1],
        ["what was used long ago could not be dropped: The store cannot be used: no."],
    )


def test_pruning_has_its_times(usage: UsageStore, clock: Clock) -> None:
    """It costs a writer something: not at every one."""
    usage.add([entry()])
    clock.now_s += 10 * DAYS * DAY_S
    usage.add([entry()])
    assert read_numbers(usage) == [2, 1]


def test_all_or_none_is_kept(usage: UsageStore) -> None:
    """What cannot be kept is the caller's again, and must not have been counted already."""
    usage.add([entry()])
    with pytest.raises(OverflowError):
        usage.add([entry(), entry(input_tokens=2**63)], AccountLimits("pro"))
    assert (read_numbers(usage), read_hours(usage), usage.read_limits()) == (
        [1],
        [(0, "me", "gpt-5.5", {"requests": 1})],
        None,
    )


def test_nothing_to_keep_touches_no_file(usage: UsageStore, folder: pathlib.Path) -> None:
    usage.add([])
    assert not folder.exists()


FIVE_HOURS = LimitWindow(42, 300, NOW_S + 60)
WEEK = LimitWindow(7, 10_080, NOW_S + DAY_S)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([], None, id="never"),
        pytest.param([AccountLimits("plus", FIVE_HOURS)], AccountLimits("plus", FIVE_HOURS), id="once"),
        pytest.param(
            [AccountLimits("plus", FIVE_HOURS, WEEK), AccountLimits(None, LimitWindow(43))],
            AccountLimits("plus", LimitWindow(43), WEEK),
            id="what-was-told-stays",
        ),
    ],
)
def test_the_accounts_limits(
    open_usage: OpenUsage,
    usage: UsageStore,
    clock: Clock,
    told: list[AccountLimits],
    expected: AccountLimits | None,
) -> None:
    """Of whichever worker, and with the time of the last word."""
    for number, limits in enumerate(told):
        clock.now_s = NOW_S + number
        (usage, open_usage())[number % 2].add([], limits)
    assert open_usage().read_limits() == ((clock.now_s, expected) if expected else None)


def test_a_locked_file_is_said_after_a_while(open_usage: OpenUsage, folder: pathlib.Path) -> None:
    usage = open_usage(lock_timeout_s=0.05)
    usage.start()
    with hold_write_lock(folder / FILE_NAME), pytest.raises(StoreFault) as raised:
        usage.add([entry()])
    usage.add([entry()])
    assert (str(raised.value), read_numbers(usage)) == (
        "The store cannot be used: database is locked.",
        [1],
    )
