"""What a process wrote to its stderr: kept short, and its end made fit for a log."""

from __future__ import annotations

import contextlib
import os
import pathlib

from app.lib.redaction import redact

TAIL_BYTES = 2000
#: A process may write what it likes; the disk is everybody's.
MAX_BYTES = 1 << 20


def read_last_words(path: pathlib.Path) -> str:
    try:
        return redact(read_tail(path).decode("utf-8", "replace"))
    except OSError as error:
        return f"({error})"


def trim(path: pathlib.Path) -> None:
    """Keep but the end of what has grown long; its process appends to it meanwhile."""
    with contextlib.suppress(OSError):  # it is gone with its process
        if path.stat().st_size > MAX_BYTES:
            tail = read_tail(path)
            with open(path, "r+b") as file:
                file.truncate(0)
                file.write(tail)


def read_tail(path: pathlib.Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read(TAIL_BYTES)
