"""One SQLite file that workers share: waited for without stopping the worker, reopened after failures."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pathlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
Action = Callable[[sqlite3.Connection], T]
FileId = tuple[int, int]

BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
CORRUPT_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
FIRST_PAUSE_S = 0.002
MAX_PAUSE_S = 0.05
PAUSE_GROWTH = 1.5
SETUP = (
    # Before the journal mode, which writes the first page: from then on it could not be changed.
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    # A burst may make the log long; the next checkpoint gives that back.
    "PRAGMA journal_size_limit = 16777216",
)


class StoreFault(Exception):
    """The store cannot be used now; the text says why."""


class TooMuch(Exception):
    """More would have to be read than one request may have read."""


class Database:
    """A connection opened at first use, in the process that uses it; every failure is a StoreFault."""

    def __init__(self, path: pathlib.Path, migrations: tuple[str, ...], lock_timeout_s: float) -> None:
        self._path = path
        self._migrations = migrations
        self._lock_timeout_s = lock_timeout_s
        # Held for one transaction, never while waiting for another process.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, FileId | None] | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._corrupt: FileId | None = None

    def open(self) -> None:
        """Make the file and its schema if need be."""
        self.read("SELECT 1")

    def read(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        return self._run(lambda connection: connection.execute(sql, parameters).fetchall())

    def write(self, action: Action[T]) -> T:
        """Run the action in a transaction of its own; committed on return. It must not sleep."""
        return self._run(lambda connection: transact(connection, action))

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _run(self, action: Action[T]) -> T:
        deadline_s = time.monotonic() + self._lock_timeout_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return self._attempt(action)
            except (sqlite3.Error, OSError) as error:
                if not is_busy(error) or time.monotonic() + pause_s > deadline_s:
                    raise StoreFault(describe(error)) from error
            # SQLite's own waiting would stop every greenlet of the worker; this one lets them run.
            time.sleep(pause_s)
            pause_s = min(pause_s * PAUSE_GROWTH, MAX_PAUSE_S)

    def _attempt(self, action: Action[T]) -> T:
        with self._lock:
            try:
                return action(self._connect())
            except (sqlite3.Error, OSError) as error:
                if is_corrupt(error) and self._opened:
                    self._corrupt = self._opened[1]
                if not is_busy(error):  # a new connection is the cure for all that can be cured
                    self._drop()
                raise

    def _connect(self) -> sqlite3.Connection:
        """With the lock held: the connection to the file that is there now."""
        if self._connection is not None:
            if self._opened == (os.getpid(), identify(self._path)):
                return self._connection
            self._drop()
        with self._claim_file():
            self._connection = self._open_sound()
            self._opened = os.getpid(), identify(self._path)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        opened, self._opened = self._opened, None
        if connection is None or opened is None:
            return
        if opened[0] != os.getpid():
            # SQLite forbids to use a connection after a fork, even to close it: it is kept, and left alone.
            self._inherited.append(connection)
            return
        with contextlib.suppress(sqlite3.Error):  # it is given up, and what was committed is in the file
            connection.close()

    @contextlib.contextmanager
    def _claim_file(self) -> Iterator[None]:
        """One worker at a time makes, migrates or replaces the file; the others see a BlockingIOError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._path.with_suffix(".lock"), "ab", opener=open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _open_sound(self) -> sqlite3.Connection:
        """With the file claimed: so that two workers never move aside each other's new file."""
        if self._corrupt is not None and identify(self._path) == self._corrupt:
            self._move_aside("it was found corrupt")
        try:
            return connect(self._path, self._migrations)
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
            self._move_aside(str(error))
        return connect(self._path, self._migrations)

    def _move_aside(self, reason: str) -> None:
        aside = f"{self._path}.unreadable-{time.time_ns() // 1_000_000}"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}{suffix}", f"{aside}{suffix}")
        log.warning("a store's file is unreadable and was moved to %s: %s", aside, reason)


def connect(path: pathlib.Path, migrations: tuple[str, ...]) -> sqlite3.Connection:
    with contextlib.suppress(FileExistsError):
        # Only ever a new file: closing any handle on one in use would drop SQLite's locks on it.
        os.close(open_private(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL))
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        version = read_version(connection, len(migrations))
        for statement in SETUP:
            connection.execute(statement)
        for number, script in enumerate(migrations[version:], version + 1):
            connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def read_version(connection: sqlite3.Connection, newest: int) -> int:
    """The schema's version; asked first, so that a file of a newer gateway is left exactly as it is."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > newest:
        raise StoreFault(
            f"The store was written by a newer gateway (its schema is {version}, this one knows {newest})."
        )
    return version


def transact(connection: sqlite3.Connection, action: Action[T]) -> T:
    # At once for writing: a transaction that began by reading could not wait for the lock.
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = action(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk makes SQLite roll back by itself
            connection.execute("ROLLBACK")
        raise
    return result


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def identify(path: pathlib.Path) -> FileId | None:
    """Which file stands at a path: SQLite would go on writing to one that was removed or replaced."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def is_busy(error: Exception) -> bool:
    return isinstance(error, BlockingIOError) or primary_code(error) in BUSY_CODES


def is_corrupt(error: Exception) -> bool:
    return primary_code(error) in CORRUPT_CODES


def primary_code(error: Exception) -> int:
    """SQLite's result code without its extension; 0 for an error that is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def describe(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"The store cannot be used: {reason}."
