"""What lately went in and out, a file for each request: whichever worker answered, any can show it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from typing import Any

import orjson

LONGEST_BYTES = 1 << 20
ID = re.compile(r"[0-9a-f]{32}")

Piece = dict[str, Any]


class Exchanges:
    def __init__(self, folder: pathlib.Path, most: int) -> None:
        """Of so many requests; of none, what is there is removed."""
        self._folder = folder
        self._most = most

    def keep(self, exchange_id: str, piece: bytes) -> None:
        """Add a piece, a line of JSON; what cannot be kept is lost, never its writer."""
        if not self._most:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            with open(os.open(self._folder / exchange_id, flags, 0o600), "ab", buffering=0) as file:
                if os.fstat(file.fileno()).st_size < LONGEST_BYTES:
                    file.write(piece + b"\n")

    def read(self, exchange_id: str) -> tuple[list[Piece], bool] | None:
        """Its pieces, and whether more of them are missing; `None` where nothing is known of it."""
        if not ID.fullmatch(exchange_id):  # a client's words become no path
            return None
        try:
            data = (self._folder / exchange_id).read_bytes()
        except OSError:
            return None
        # The last line may be under way; another that is no piece was cut short by a full disk.
        lines = data.split(b"\n")[:-1]
        pieces = [piece for line in lines if (piece := parse(line))]
        return pieces, len(data) >= LONGEST_BYTES or len(pieces) < len(lines)

    def prune(self) -> None:
        """Keep the newest."""
        if not self._most:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        with contextlib.suppress(OSError):  # another worker was faster
            files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[self._most :]:
                path.unlink()


def parse(line: bytes) -> Piece | None:
    try:
        piece: Piece = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return piece
