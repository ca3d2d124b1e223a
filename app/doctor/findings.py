"""What a check found, and the line that tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from app.lib.redaction import Redactor

LONGEST_TEXT = 1000


class Level(Enum):
    OK = "ok"
    #: Not wrong, but worth knowing.
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    #: What was looked at.
    name: str
    #: How it is, and where it is wrong what to do.
    text: str


def ok(name: str, text: str) -> Finding:
    return Finding(Level.OK, name, text)


def note(name: str, text: str) -> Finding:
    return Finding(Level.NOTE, name, text)


def wrong(name: str, text: str) -> Finding:
    return Finding(Level.WRONG, name, text)


def format_line(finding: Finding, redactor: Redactor) -> str:
    """One line, whatever the text; what codex or a server said in it may hold a secret."""
    text = redactor.redact(" ".join(finding.text.split()))[:LONGEST_TEXT]
    return f"{finding.level.value:<6}{finding.name:<12}{text}\n"


def format_bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def format_span(seconds: float) -> str:
    """About how long, in the largest unit that fits."""
    for unit, length_s in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} seconds"
