"""What lately went in and out, a file for each request: whichever worker answered, any can show it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
from typing import Any

import orjson

LONGEST_BYTES = 1 << 20

Piece = dict[str, Any]


class Exchanges:
    def __init__(self, folder: pathlib.Path, most: int) -> None:
        """Of so many requests; of none, what is there is removed."""
        self._folder = folder
        self._most = most

    def begin(self, request_id: str, piece: bytes) -> None:
        """Keep a request's first piece, a line of JSON; what cannot be kept is lost, never its writer."""
        if self._most:
            with contextlib.suppress(OSError):
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._add(request_id, piece, os.O_CREAT)

    def go_on(self, request_id: str, piece: bytes) -> None:
        """Keep a further piece of a request that has a first."""
        with contextlib.suppress(OSError):
            self._add(request_id, piece)

    def _add(self, request_id: str, piece: bytes, or_make: int = 0) -> None:
        fd = os.open(self._find(request_id), os.O_WRONLY | os.O_APPEND | or_make, 0o600)
        with open(fd, "ab", buffering=0) as file:
            if os.fstat(fd).st_size < LONGEST_BYTES:
                file.write(piece + b"\n")

    def read(self, request_id: str) -> tuple[list[Piece], bool] | None:
        """Its pieces, and whether there was no room for more of them; `None` where nothing is known of it."""
        try:
            data = self._find(request_id).read_bytes()
        except OSError:
            return None
        # A line that is not whole is being written.
        lines = data.split(b"\n")[:-1]
        return [orjson.loads(line) for line in lines], len(data) >= LONGEST_BYTES

    def prune(self) -> None:
        """Keep the newest."""
        if not self._most:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        with contextlib.suppress(OSError):  # another worker was faster
            files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[self._most :]:
                path.unlink()

    def _find(self, request_id: str) -> pathlib.Path:
        """No client's words become a path."""
        return self._folder / hashlib.sha256(request_id.encode()).hexdigest()
