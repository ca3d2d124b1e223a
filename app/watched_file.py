"""A file's content as a value, read again only when the file has changed: it is asked for every request."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Stamp = tuple[int, int, int]


class WatchedFile(Generic[T]):
    def __init__(
        self,
        path: pathlib.Path,
        parse: Callable[[bytes], T],
        missing: T,
        complain: Callable[[Exception], None] | None = None,
    ) -> None:
        """`missing` is what no file means; one that cannot be read leaves all as it was."""
        self._path = str(path)
        self._parse = parse
        self._missing = missing
        self._complain = complain
        self._stamp: Stamp | None = None
        self._complained_of: Stamp | None = None
        self._value = missing

    def read(self) -> T:
        try:
            about = os.stat(self._path)
        except OSError:
            self._stamp, self._value = None, self._missing
            return self._value
        # When its owner or mode changed counts too: it may be readable now.
        stamp = about.st_ino, about.st_size, about.st_ctime_ns
        if stamp != self._stamp:
            self._renew(stamp)
        return self._value

    def _renew(self, stamp: Stamp) -> None:
        try:
            with open(self._path, "rb") as file:
                data = file.read()
            self._stamp = stamp  # what cannot be read, perhaps for a moment, is tried again
            self._value = self._parse(data)
        except (OSError, ValueError, TypeError) as error:  # it may be on its way; it changes again then
            if self._complain and stamp != self._complained_of:
                self._complain(error)
            self._complained_of = stamp
