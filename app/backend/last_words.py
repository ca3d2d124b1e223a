"""The end of what a process wrote to its stderr, fit for a log."""

from __future__ import annotations

import os
import pathlib
import re

TAIL_BYTES = 2000
# What codex may say of its login in its last words: keys, bearer tokens, JWTs.
SECRET = re.compile(r"(?i)\bbearer\s+\S+|\bsk-[\w-]{8,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*")


def read_last_words(path: pathlib.Path) -> str:
    try:
        with open(path, "rb") as stderr:
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - TAIL_BYTES))
            return SECRET.sub("[redacted]", stderr.read().decode("utf-8", "replace"))
    except OSError as error:
        return f"({error})"
