"""Which workers live: each keeps a file locked, and the kernel frees the lock however the worker ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import secrets
import threading
from collections.abc import Iterator
from typing import IO

from app.store.database import StoreFault, describe, identify, open_private

PREFIX = "worker-"
SUFFIX = ".lock"


class WorkerLock:
    """The lock of this process, taken when its name is first asked for: after the fork, not before."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._file: IO[bytes] | None = None
        self._pid = 0
        self._name = ""

    def hold(self) -> str:
        """The worker's name, its lock held; a new one if the file was taken away."""
        with self._guard:
            try:
                while self._file is None or not self._is_ours(self._file):
                    self._claim()
            except OSError as error:
                raise StoreFault(describe(error)) from error
            return self._name

    def release(self) -> None:
        with self._guard:
            if self._file is not None and self._is_ours(self._file):
                build_lock_path(self._folder, self._name).unlink(missing_ok=True)
            self._forget()

    def _is_ours(self, file: IO[bytes]) -> bool:
        """A fork shares its parent's lock; and a file that is not at its place is one that nobody can ask."""
        if self._pid != os.getpid():
            return False
        ours = os.fstat(file.fileno())
        return identify(build_lock_path(self._folder, self._name)) == (ours.st_dev, ours.st_ino)

    def _claim(self) -> None:
        """Try one new name; in vain when a sweep came upon the file before it was locked."""
        self._forget()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = secrets.token_hex(8)
        file = open(build_lock_path(self._folder, name), "xb", opener=open_private)  # noqa: SIM115  kept
        if not try_lock(file):
            file.close()
            return
        self._file, self._name, self._pid = file, name, os.getpid()

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


@contextlib.contextmanager
def take_over(folder: pathlib.Path, name: str) -> Iterator[bool]:
    """Whether that worker is gone. If so nobody else acts for it meanwhile, and its file goes at the end."""
    path = build_lock_path(folder, name)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb"))
        except FileNotFoundError:
            is_gone = True
        else:
            is_gone = try_lock(file)
        yield is_gone
        if is_gone:
            path.unlink(missing_ok=True)


def list_workers(folder: pathlib.Path) -> set[str]:
    return {path.name.removeprefix(PREFIX).removesuffix(SUFFIX) for path in folder.glob(f"{PREFIX}*{SUFFIX}")}


def build_lock_path(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / f"{PREFIX}{name}{SUFFIX}"


def try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
