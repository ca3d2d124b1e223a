"""JSON as text: read without exceptions, written so that it always encodes, mended where that is safe."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

SURROGATE = re.compile("[\ud800-\udfff]")
ESCAPE_OR_CONTROL = re.compile(r"\\.|[\x00-\x1f]", re.DOTALL)
# A string also ends with the text: a closing quote asked for would be looked for from every quote on.
STRING_OR_TRAILING_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|,(?=\s*[}\]])', re.DOTALL)
FENCE = "```"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that was read; JSON's null is one too."""

    value: Any


def parse_json(text: str) -> Parsed | None:
    try:
        return Parsed(_DECODER.decode(text))
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return None


def _refuse(literal: str) -> NoReturn:
    raise ValueError(literal)


def _read_float(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refuse(literal)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_read_float)


def dump_json(value: Any) -> str | None:
    """Compact JSON; `None` for what cannot be written: no JSON value, or nested deeper than the stack."""
    try:
        return escape_surrogates(
            json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        )
    except (TypeError, ValueError, RecursionError):
        return None


def has_surrogates(text: str) -> bool:
    r"""Whether half a character is left, as `"\ud83d"` gives: UTF-8 has no place for it."""
    return SURROGATE.search(text) is not None


def escape_surrogates(text: str) -> str:
    r"""Half a character becomes `\udXXX`, which in JSON means the same and can be sent."""
    return SURROGATE.sub(_escape, text)


def repair_json(text: str) -> str | None:
    """The JSON meant by a text that has a fence around it, trailing commas, or line breaks within strings."""
    mended = STRING_OR_TRAILING_COMMA.sub(_mend, strip_fence(text.strip()))
    return mended if parse_json(mended) else None


def strip_fence(text: str) -> str:
    if len(text) < 2 * len(FENCE) or not (text.startswith(FENCE) and text.endswith(FENCE)):
        return text
    inner = text[len(FENCE) : -len(FENCE)].strip()
    return inner.removeprefix("json").lstrip()


def _mend(found: re.Match[str]) -> str:
    part = found.group()
    return "" if part == "," else ESCAPE_OR_CONTROL.sub(_escape, part)


def _escape(found: re.Match[str]) -> str:
    part = found.group()
    return f"\\u{ord(part):04x}" if len(part) == 1 else part
