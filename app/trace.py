"""What a log tells of one request, in order."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import orjson

#: How long behind a request its codex process may still have to say what became of it.
AFTERMATH = datetime.timedelta(seconds=10)

SHOWN = ("time", "level", "message", "request_id")

Line = dict[str, Any]


def stitch(lines: Iterable[str], request_id: str) -> list[Line]:
    """The lines of a request, and those of the codex processes they name, from about its time."""
    told = [line for line in map(read_line, lines) if line]
    own = [line for line in told if line.get("request_id") == request_id]
    if not own:
        return []
    pids = {line["codex_pid"] for line in own if line.get("codex_pid")}
    times = [read_time(line) for line in own]
    first, last = min(times), max(times) + AFTERMATH
    return [
        line
        for line in told
        if line.get("request_id") == request_id
        or ("request_id" not in line and line.get("codex_pid") in pids and first <= read_time(line) <= last)
    ]


def read_line(text: str) -> Line | None:
    """A line of ours; a server's own are no JSON."""
    try:
        line = orjson.loads(text[text.index("{") :])
    except ValueError:
        return None
    return line if isinstance(line, dict) and "time" in line else None


def read_time(line: Line) -> datetime.datetime:
    return datetime.datetime.fromisoformat(line["time"])


def render(line: Line) -> str:
    """The time, the level and the message, then whatever else is known."""
    rest = {name: value for name, value in line.items() if name not in SHOWN}
    told = line["time"], f"{line.get('level', ''):7}", line.get("message", ""), orjson.dumps(rest).decode()
    return " ".join(told)
