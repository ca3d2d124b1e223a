"""What requests used: taken at once, written later, whatever is wrong with the store."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import threading
from collections.abc import Iterator

import pytest

from app.handlers.recorder import MOST_WAITING, UsageRecorder
from app.lib.account_limits import AccountLimits, LimitWindow
from app.store.database import StoreFault
from app.store.usage import BITE_ROWS, FILE_NAME, Span, UsageStore
from tests.support.gateway import wait_until
from tests.unit.store.conftest import hold_write_lock

ALWAYS = Span(0, 2**40)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "usage"


@pytest.fixture
def store(folder: pathlib.Path) -> Iterator[UsageStore]:
    with contextlib.closing(UsageStore(folder, 90, 10**6, lock_timeout_s=0.2)) as store:
        yield store


@pytest.fixture
def recorder(store: UsageStore) -> UsageRecorder:
    """One that writes only when it is told to."""
    return UsageRecorder(store)


def read_ids(store: UsageStore) -> list[int]:
    return [fields["id"] for _, _, fields in store.read_entries(ALWAYS, 2**62, 10**6)][::-1]


def complaints(logged: list[logging.LogRecord]) -> list[str]:
    return [record.getMessage() for record in logged if "waits for the store" in record.getMessage()]


@pytest.mark.parametrize("count", [0, 1, BITE_ROWS, 2 * BITE_ROWS + 1])
def test_all_of_it_is_written_once(recorder: UsageRecorder, store: UsageStore, count: int) -> None:
    for number in range(count):
        recorder.add({"id": number}, "gpt-5.5")
    for _ in range(2):
        recorder.flush()
    assert read_ids(store) == [*range(count)]


def test_nobody_has_to_ask(recorder: UsageRecorder, store: UsageStore) -> None:
    """What comes together is written together, a moment later; then it waits for more."""
    recorder.start()
    for count in (1, 2):
        recorder.add({"id": count}, "gpt-5.5")
        wait_until(lambda count=count: len(read_ids(store)) == count, 3)
    recorder.close()


def test_what_waits_is_written_at_the_end(recorder: UsageRecorder, store: UsageStore) -> None:
    recorder.start()
    recorder.add({"id": 1}, "gpt-5.5")
    recorder.close()
    assert read_ids(store) == [1]


def test_a_store_that_fails_is_complained_of_once(
    app: object,
    logged: list[logging.LogRecord],
    recorder: UsageRecorder,
    store: UsageStore,
    folder: pathlib.Path,
) -> None:
    """However long it fails; nothing is lost meanwhile, and the next failure is news again."""
    store.start()
    told = []
    for number in range(2):
        with hold_write_lock(folder / FILE_NAME):
            for _ in range(2):
                recorder.add({"id": number}, "gpt-5.5")
                recorder.close()
        told.append(complaints(logged))
        recorder.close()
    locked = "what requests used waits for the store: The store cannot be used: database is locked."
    assert (told, read_ids(store)) == ([[locked], [locked] * 2], [0, 0, 1, 1])


def test_who_asks_is_told_that_it_cannot_be_written(
    recorder: UsageRecorder, store: UsageStore, folder: pathlib.Path
) -> None:
    folder.write_text("in the way")
    recorder.add({"id": 1}, "gpt-5.5")
    with pytest.raises(StoreFault, match="File exists"):
        recorder.flush()
    folder.unlink()
    recorder.flush()
    assert read_ids(store) == [1]


def test_only_so_much_waits(recorder: UsageRecorder, store: UsageStore, folder: pathlib.Path) -> None:
    """The oldest go: a store that is gone for good must not cost the memory of all that follows."""
    folder.write_text("in the way")
    for number in range(MOST_WAITING + 5):
        recorder.add({"id": number}, "gpt-5.5")
    recorder.close()
    folder.unlink()
    recorder.close()
    ids = read_ids(store)
    assert (len(ids), ids[0], ids[-1]) == (MOST_WAITING, 5, MOST_WAITING + 4)


def test_what_comes_while_it_writes_is_written_next(
    recorder: UsageRecorder, store: UsageStore, folder: pathlib.Path
) -> None:
    """Several may write at once, and all of it is there when they have: read your writes."""
    store.start()
    recorder.add({"id": 0}, "gpt-5.5")
    writers = [threading.Thread(target=recorder.flush) for _ in range(3)]
    with hold_write_lock(folder / FILE_NAME):
        for number, writer in enumerate(writers, 1):
            writer.start()
            recorder.add({"id": number}, "gpt-5.5")
    for writer in writers:
        writer.join()
    recorder.flush()
    assert read_ids(store) == [0, 1, 2, 3]


def test_what_can_never_be_written_holds_up_nothing(
    app: object, logged: list[logging.LogRecord], recorder: UsageRecorder, store: UsageStore
) -> None:
    """A number that no column holds: it is lost, with a word, and the writing goes on."""
    recorder.add({"id": 1, "input_tokens": 2**63}, "gpt-5.5")
    recorder.close()
    recorder.add({"id": 2}, "gpt-5.5")
    recorder.close()
    assert ([record.getMessage() for record in logged], read_ids(store)) == (
        ["what requests used is lost"],
        [2],
    )


def test_a_success_of_anyones_ends_a_failure(
    app: object,
    logged: list[logging.LogRecord],
    recorder: UsageRecorder,
    store: UsageStore,
    folder: pathlib.Path,
) -> None:
    """So that the next one is news, whoever wrote in between."""
    store.start()
    for number in range(2):
        with hold_write_lock(folder / FILE_NAME):
            recorder.add({"id": number}, "gpt-5.5")
            recorder.close()
        recorder.flush()
    assert len(complaints(logged)) == 2


def test_limits_wait_too(recorder: UsageRecorder, store: UsageStore, folder: pathlib.Path) -> None:
    """What one request told stays true where the next is silent, also before either is written."""
    folder.write_text("in the way")
    recorder.note_limits(AccountLimits("plus", LimitWindow(41)))
    recorder.close()
    recorder.note_limits(AccountLimits(None, None, LimitWindow(7)))
    recorder.note_limits(AccountLimits(None, LimitWindow(42)))
    folder.unlink()
    recorder.flush()
    told = store.read_limits()
    assert told
    assert told[1] == AccountLimits("plus", LimitWindow(42), LimitWindow(7))


def test_limits_told_while_others_are_written_are_written_next(folder: pathlib.Path) -> None:
    news = [AccountLimits(None, LimitWindow(42)), AccountLimits(None, LimitWindow(43))]

    def look_at_the_clock() -> float:
        if news:
            recorder.note_limits(news.pop(0))
        return 0.0

    with contextlib.closing(UsageStore(folder, 90, 10**6, clock=look_at_the_clock)) as store:
        recorder = UsageRecorder(store)
        recorder.note_limits(AccountLimits("plus", LimitWindow(41)))
        while news:
            recorder.flush()
        recorder.flush()
        assert store.read_limits() == (0.0, AccountLimits("plus", LimitWindow(43)))
