"""The file below the stores: waiting, failing, mending."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pathlib
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from app.store.database import CORRUPT_CODES, FIRST_PAUSE_S, MAX_PAUSE_S, Database, StoreFault
from tests.conftest import Recorder
from tests.unit.store.conftest import hold_write_lock

MIGRATIONS = ("CREATE TABLE notes (text TEXT)",)
LOCKED = "The store cannot be used: database is locked."


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "store" / "notes.sqlite3"


@pytest.fixture
def database(path: pathlib.Path) -> Iterator[Database]:
    with contextlib.closing(Database(path, MIGRATIONS, 0.05)) as database:
        yield database


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What the module's own logger wrote; whether it propagates depends on the tests before."""
    recorder, logger = Recorder(), logging.getLogger("app.store.database")
    logger.addHandler(recorder)
    logger.setLevel(logging.WARNING)  # whatever another test had the gateway log
    yield recorder.records
    logger.removeHandler(recorder)
    logger.setLevel(logging.NOTSET)


def add(database: Database, text: str) -> None:
    database.write(lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (text,)))


def read_all(database: Database) -> list[str]:
    return [row[0] for row in database.read("SELECT text FROM notes ORDER BY rowid")]


def fail_with(action: Callable[[], object]) -> str:
    with pytest.raises(StoreFault) as caught:
        action()
    return str(caught.value)


def test_nothing_is_made_before_the_first_use(database: Database, path: pathlib.Path) -> None:
    assert not path.parent.exists()


def test_only_we_may_read_the_files(database: Database, path: pathlib.Path) -> None:
    add(database, "secret")
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in [path.parent, *path.parent.iterdir()]}
    names = ("notes.sqlite3", "notes.sqlite3-wal", "notes.sqlite3-shm", "notes.lock")
    assert modes == {"store": 0o700} | dict.fromkeys(names, 0o600)


@pytest.mark.parametrize(
    ("pragma", "expected"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 1),
        ("auto_vacuum", 2),
        ("foreign_keys", 1),
        ("busy_timeout", 0),
        ("user_version", 1),
    ],
)
def test_how_the_file_is_used(database: Database, pragma: str, expected: object) -> None:
    assert database.read(f"PRAGMA {pragma}") == [(expected,)]


def test_a_failed_action_leaves_nothing(database: Database) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('half')")
        raise KeyError("bug")

    with pytest.raises(KeyError):
        database.write(fail)
    add(database, "whole")
    assert read_all(database) == ["whole"]


def test_an_old_file_is_migrated_from_where_it_stands(database: Database, path: pathlib.Path) -> None:
    add(database, "old")
    database.close()
    newer = (*MIGRATIONS, "ALTER TABLE notes ADD COLUMN colour TEXT DEFAULT 'red'", "CREATE TABLE more (x)")
    with contextlib.closing(Database(path, newer, 0.05)) as migrated:
        rows = migrated.read("SELECT * FROM notes"), migrated.read("PRAGMA user_version")
    assert rows == ([("old", "red")], [(3,)])


def test_a_failed_migration_leaves_the_version_before(database: Database, path: pathlib.Path) -> None:
    add(database, "old")
    with contextlib.closing(Database(path, (*MIGRATIONS, "CREATE TABLE more (x); BROKEN"), 0.05)) as broken:
        reason = fail_with(broken.open)
    tables = database.read("SELECT name FROM sqlite_schema")
    found = reason, tables, database.read("PRAGMA user_version")
    assert found == ('The store cannot be used: near "BROKEN": syntax error.', [("notes",)], [(1,)])


def test_a_newer_file_is_refused_and_left_alone(database: Database, path: pathlib.Path) -> None:
    add(database, "new")
    database.write(lambda connection: connection.execute("PRAGMA user_version = 7"))
    database.close()
    before = path.read_bytes()
    reason = fail_with(database.open)
    assert (reason, path.read_bytes(), list(path.parent.glob("*unreadable*"))) == (
        "The store was written by a newer gateway (its schema is 7, this one knows 1).",
        before,
        [],
    )


def test_a_lock_is_waited_for_by_sleeping_until_the_deadline(
    database: Database, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`time.sleep` by its module: what gevent patches."""
    slept: list[float] = []
    now = [100.0]

    def sleep(pause_s: float) -> None:
        slept.append(pause_s)
        now[0] += pause_s

    add(database, "before")
    with hold_write_lock(path):
        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        reason = fail_with(lambda: add(database, "refused"))
    add(database, "after")
    grows = slept[0] == FIRST_PAUSE_S and slept == sorted(slept) and max(slept) <= MAX_PAUSE_S
    assert (reason, grows, 0.02 < sum(slept) <= 0.05, read_all(database)) == (
        LOCKED,
        True,
        True,
        ["before", "after"],
    )


def test_a_lock_that_is_freed_in_time_goes_unnoticed(path: pathlib.Path) -> None:
    with contextlib.closing(Database(path, MIGRATIONS, 30)) as database:
        database.open()
        with hold_write_lock(path):
            writer = threading.Thread(target=add, args=(database, "late"))
            writer.start()
            # Others read meanwhile: the one that waits holds nothing.
            while_waiting = [read_all(database) for _ in range(100)]
        writer.join(30)
        assert (while_waiting, read_all(database)) == ([[]] * 100, ["late"])


def test_the_greenlets_of_a_worker_run_while_one_waits(database: Database, path: pathlib.Path) -> None:
    program = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent, pathlib, sys
from app.store.database import Database, StoreFault
def count():
    while True:
        turns.append(1)
        gevent.sleep(0.001)
turns = []
database = Database(pathlib.Path(sys.argv[1]), ("",), 0.3)
counter = gevent.spawn(count)
try:
    database.write(lambda connection: None)
except StoreFault as error:
    print(len(turns) > 20, error)
"""
    database.open()
    with hold_write_lock(path):
        command = [sys.executable, "-c", program, str(path)]
        assert subprocess.check_output(command, text=True) == f"True {LOCKED}\n"


def test_a_file_that_another_worker_makes_is_waited_for(database: Database, path: pathlib.Path) -> None:
    path.parent.mkdir()
    with open(path.with_suffix(".lock"), "wb") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        reason = fail_with(database.open)
        is_made = path.exists()
    add(database, "after")
    assert (reason, is_made, read_all(database)) == (
        "The store cannot be used: Resource temporarily unavailable.",
        False,
        ["after"],
    )


def test_a_full_disk_is_said_and_passes(database: Database) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 8")
        connection.execute("INSERT INTO notes VALUES (?)", ("x" * 100_000,))

    add(database, "before")
    reason = fail_with(lambda: database.write(fill))
    add(database, "after")
    found = reason, read_all(database)
    assert found == ("The store cannot be used: database or disk is full.", ["before", "after"])


def test_a_folder_that_cannot_be_made_is_said_and_passes(database: Database, path: pathlib.Path) -> None:
    path.parent.write_text("a file in the way")
    reason = fail_with(database.open)
    path.parent.unlink()
    add(database, "after")
    assert (reason, read_all(database)) == ("The store cannot be used: File exists.", ["after"])


def test_a_file_that_cannot_be_opened_is_said_and_passes(database: Database, path: pathlib.Path) -> None:
    path.mkdir(parents=True)
    reason = fail_with(database.open)
    path.rmdir()
    add(database, "after")
    assert (reason, read_all(database)) == (
        "The store cannot be used: unable to open database file.",
        ["after"],
    )


def test_a_file_that_was_removed_is_made_anew(database: Database, path: pathlib.Path) -> None:
    add(database, "lost")
    path.unlink()
    add(database, "kept")
    assert (read_all(database), path.exists()) == (["kept"], True)


@pytest.mark.parametrize("size", [100, 8192], ids=["short", "pages"])
def test_what_is_no_database_is_moved_aside(
    database: Database, path: pathlib.Path, logged: list[logging.LogRecord], size: int
) -> None:
    path.parent.mkdir()
    path.write_bytes(b"garbage!" * (size // 8))
    add(database, "new")
    aside = [each.read_bytes() for each in path.parent.glob("notes.sqlite3.unreadable-*")]
    levels = [record.levelname for record in logged]
    assert (aside, read_all(database), levels) == ([b"garbage!" * (size // 8)], ["new"], ["WARNING"])


def test_a_database_found_corrupt_in_use_is_replaced(database: Database, path: pathlib.Path) -> None:
    """The request that meets it fails; the next has a new file."""
    for _ in range(50):
        add(database, "x" * 1000)
    database.close()
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.path.getsize(path) - 4096))
    reason = fail_with(lambda: read_all(database))
    add(database, "new")
    aside = list(path.parent.glob("notes.sqlite3.unreadable-*"))
    assert (reason, read_all(database), len(aside)) == (
        "The store cannot be used: database disk image is malformed.",
        ["new"],
        1,
    )


def test_the_second_to_find_a_corrupt_file_keeps_the_new_one(database: Database, path: pathlib.Path) -> None:
    def find_corrupt(connection: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("malformed")
        error.sqlite_errorcode = min(CORRUPT_CODES)  # type: ignore[misc]  as SQLite sets it
        raise error

    with contextlib.closing(Database(path, MIGRATIONS, 0.05)) as other:
        add(database, "old")
        other.open()
        for each in (database, other):
            fail_with(lambda each=each: each.write(find_corrupt))
        add(database, "first")
        add(other, "second")
        aside = list(path.parent.glob("notes.sqlite3.unreadable-*[0-9]"))
        assert (read_all(database), read_all(other), len(aside)) == (
            ["first", "second"],
            ["first", "second"],
            1,
        )


def test_a_fork_opens_its_own(database: Database, path: pathlib.Path) -> None:
    """In a process without threads, as a gunicorn master is when it forks."""
    program = """
import os, pathlib, sys
from app.store.database import Database
database = Database(pathlib.Path(sys.argv[1]), ("",), 10)
add = lambda text: database.write(lambda it: it.execute("INSERT INTO notes VALUES (?)", (text,)))
add("parent")
if os.fork() == 0:
    add("child")
    os._exit(0)
os.wait()
add("parent again")
database.close()
"""
    database.open()
    subprocess.check_call([sys.executable, "-c", program, str(path)])
    assert read_all(database) == ["parent", "child", "parent again"]
