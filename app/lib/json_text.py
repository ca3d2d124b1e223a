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


class Written(float):
    """A number that keeps the text it was written as."""

    text: str

    def __new__(cls, text: str) -> Written:
        number = super().__new__(cls, _read_float(text))
        number.text = text
        return number


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that was read; JSON's null is one too."""

    value: Any


def parse_json(text: str) -> Parsed | None:
    return _parse(text, _DECODER)


def parse_written(text: str) -> Parsed | None:
    """The same, with numbers that `dump_written` writes as they were."""
    return _parse(text, _WRITTEN_DECODER)


def _parse(text: str, decoder: json.JSONDecoder) -> Parsed | None:
    try:
        return Parsed(decoder.decode(text))
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return None


def _refuse(literal: str) -> NoReturn:
    raise ValueError(literal)


def _read_float(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refuse(literal)


def _read_int(literal: str) -> int | Written:
    # Of whole numbers only this one has a second spelling.
    return Written(literal) if literal == "-0" else int(literal)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_read_float)
_WRITTEN_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=Written, parse_int=_read_int)


def dump_json(value: Any) -> str | None:
    """Compact JSON; `None` for what cannot be written: no JSON value, or nested deeper than the stack."""
    try:
        return escape_surrogates(
            json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        )
    except (TypeError, ValueError, RecursionError):
        return None


def dump_written(value: Any) -> str | None:
    """Compact JSON of what `parse_written` read, its numbers as they were; `None` as above."""
    try:
        return escape_surrogates(_write(value))
    except RecursionError:  # the library gets by with half the stack
        return dump_json(value)


def _write(value: Any) -> str:
    # The library's encoder has no way to write a number as it was.
    match value:
        case str():
            return _ENCODE(value)
        case Written():
            return value.text
        case list():
            return f"[{','.join(map(_write, value))}]"
        case dict():
            return f"{{{','.join(f'{_ENCODE(key)}:{_write(each)}' for key, each in value.items())}}}"
        case None | True | False:
            return _NAMES[value]
        case _:
            return str(value)


_NAMES = {None: "null", True: "true", False: "false"}
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


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
