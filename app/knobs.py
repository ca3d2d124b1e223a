"""What a knob is, and how its text is read: a parser each, and what it allows in words."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any

from app.lib.models import Model, parse_model
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport
from app.lib.stop_policy import StopMode

MOST_HEADER_KB = 64
#: As browsers write them, without a path or a slash at the end: one in another form would never match.
ORIGIN = re.compile(r"\*|null|[a-z][a-z\d+.-]*://[^\s/?#@*]*(:\*)?")
HOST = re.compile(r"[^\s/?#@*]+")


def knob(
    name: str, default: str, meaning: str, parse: Callable[[str], Any] = str, *, is_secret: bool = False
) -> Any:
    """A setting that comes from the variable `name`."""
    return field(
        default_factory=lambda: parse(default),
        repr=not is_secret,
        metadata={"name": name, "default": default, "meaning": meaning, "parse": parse},
    )


def parse_flag(text: str) -> bool:
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]


def parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_origins(text: str) -> tuple[str, ...]:
    return parse_each(text.lower(), ORIGIN)


def parse_hosts(text: str) -> tuple[str, ...]:
    return parse_each(text, HOST)


def parse_each(text: str, form: re.Pattern[str]) -> tuple[str, ...]:
    found = parse_list(text)
    if not all(map(form.fullmatch, found)):
        raise ValueError(text)
    return found


def parse_path(text: str) -> pathlib.Path:
    return pathlib.Path(text).expanduser()


def parse_optional_path(text: str) -> pathlib.Path | None:
    return parse_path(text) if text else None


def parse_seconds(text: str) -> float:
    """Milliseconds in the environment, seconds inside."""
    value = int(text)
    if value <= 0:
        raise ValueError(text)
    return value / 1000


def parse_count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parse_size(text: str) -> int:
    """Megabytes in the environment, bytes inside."""
    return parse_count(text) * 1024 * 1024


def parse_natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def parse_delay(text: str) -> float:
    """Like `parse_seconds`, but nothing is a delay too."""
    return parse_natural(text) / 1000


def parse_whole_seconds(text: str) -> float:
    return float(parse_count(text))


def parse_kilos(text: str) -> int:
    """Kilobytes in the environment, characters inside."""
    return parse_count(text) * 1024


def parse_bytes(text: str) -> int:
    """Kilobytes in the environment, bytes inside; few enough for gunicorn's own limit."""
    value = parse_count(text)
    if value > MOST_HEADER_KB:
        raise ValueError(text)
    return value * 1024


def parse_port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise ValueError(text)
    return value


def parse_level(text: str) -> str:
    if text.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError(text)
    return text.upper()


def parse_models(text: str) -> tuple[Model, ...]:
    return tuple(parse_model(spec) for spec in parse_list(text))


def parse_pin(text: str) -> bool | None:
    """A switch that may be left to others."""
    return None if text.lower() == "auto" else parse_flag(text)


ALLOWED: dict[Callable[[str], Any], str] = {
    parse_flag: "true or false",
    parse_seconds: "a whole number of milliseconds, at least 1",
    parse_count: "a whole number, at least 1",
    parse_natural: "a whole number, 0 or more",
    parse_size: "a whole number of megabytes, at least 1",
    parse_port: "a port number",
    parse_delay: "a whole number of milliseconds, 0 or more",
    parse_whole_seconds: "a whole number of seconds, at least 1",
    parse_kilos: "a whole number of kilobytes, at least 1",
    parse_bytes: f"a whole number of kilobytes, 1 to {MOST_HEADER_KB}",
    parse_pin: "auto, true or false",
    StopMode: "first or all",
    OutputMode: "obsidian-xml or openai-json",
    EscapePolicy: "xml or copilot",
    ToolTransport: "native or sentinel",
    parse_level: "debug, info, warning or error",
    parse_models: "ids, `alias=id` or `alias=id:effort`, separated by commas",
    parse_list: "values separated by commas",
    parse_origins: "origins as browsers name them (`https://app.example`, `http://localhost:*`), or `*`",
    parse_hosts: "names of hosts, without scheme or path, separated by commas",
    parse_path: "a path",
    parse_optional_path: "a path",
    str: "text",
}
