"""What may happen to JSON, to bytes and to lines on their way; plain functions of a random generator.

Nothing but the standard library: the meddler runs without any other.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

#: What stands where something else was expected.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53, 2**63, 0.5, -0.0, 1e308),
    *("", " ", "a", "\x00", "é🙂", "null", "-1", "../../etc/passwd", "x" * 5000, "{", "<use_tool>"),
    *([], {}, [[]], [None], [{}], {"": None}, {"type": []}, {"id": {}}, [["a", 1]]),
)
GARBAGE = (
    b"",
    b"}{",
    b"null",
    b"[]",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"{}",
    b'"',
    b"\r",
    b"9" * 400,
    b"[" * 300,
)

#: What is as long as that grows no more: one thing doubled again and again would fill the memory.
MOST_CHARS = 200_000

Place = tuple[Any, Any]


def find_places(value: Any) -> list[Place]:
    """Every value inside, as what holds it and under which key."""
    found: list[Place] = []
    level = [value]
    while level:
        each = level.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            found.append((each, key))
            level.append(each[key])
    return found


def drop(_: list[Place], place: Place, rng: random.Random) -> None:
    holder, key = place
    del holder[key]


def replace(_: list[Place], place: Place, rng: random.Random) -> None:
    holder, key = place
    holder[key] = copy.deepcopy(rng.choice(ODD))


def change_type(_: list[Place], place: Place, rng: random.Random) -> None:
    """The same in another type, as sloppy clients send it."""
    holder, key = place
    value = holder[key]
    match value:
        case str():
            holder[key] = rng.choice(
                [[value], {"text": value}, list(value[:20]), len(value), value.encode().hex()]
            )
        case bool():
            holder[key] = rng.choice([str(value), int(value), [value]])
        case int() | float():
            holder[key] = rng.choice([str(value), float(value), [value], {"value": value}])
        case list():
            holder[key] = rng.choice([dict(enumerate(map(str, value))), json.dumps(value), value[:1], None])
        case dict():
            holder[key] = rng.choice([[*value.items()], json.dumps(value), [*value], [value]])
        case _:
            holder[key] = rng.choice(["null", 0, [], {}])


def nest(_: list[Place], place: Place, rng: random.Random) -> None:
    holder, key = place
    for _times in range(rng.choice((1, 1, 2, 60, 300))):
        holder[key] = (
            [holder[key]] if rng.random() < 0.5 else {rng.choice(("a", "content", "type")): holder[key]}
        )


def repeat(_: list[Place], place: Place, rng: random.Random) -> None:
    """Twice, or very often."""
    holder, key = place
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 1, 2, 50)))]
    else:
        holder[rng.choice((f"{key}s", f"{key}_", str(key).upper(), ""))] = copy.deepcopy(holder[key])


def swap(places: list[Place], place: Place, rng: random.Random) -> None:
    """What belongs elsewhere."""
    other, there = rng.choice(places)
    holder, key = place
    holder[key] = copy.deepcopy(other[there])


def enlarge(_: list[Place], place: Place, rng: random.Random) -> None:
    holder, key = place
    value = holder[key]
    sign = rng.choice(("x", "é", "<use_tool>", '"', "\\", "a\n"))
    holder[key] = (value or [0])[:5] * 500 if isinstance(value, list) else sign * rng.choice((1000, 100_000))


def rename(_: list[Place], place: Place, rng: random.Random) -> None:
    holder, key = place
    if isinstance(holder, dict):
        holder[rng.choice((str(key).title(), str(key)[:-1], f"x_{key}", "type", "id", "content"))] = (
            holder.pop(key)
        )


MUTATIONS: tuple[Callable[[list[Place], Place, random.Random], None], ...] = (
    *(drop, drop, replace, replace, replace, change_type, change_type),
    *(nest, repeat, swap, swap, enlarge, rename),
)


def mutate(value: Any, rng: random.Random) -> Any:
    """A copy that differs in a few places."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        places = find_places(value)
        if places and measure(places) < MOST_CHARS:
            rng.choice(MUTATIONS)(places, rng.choice(places), rng)
    return value


def measure(places: list[Place]) -> int:
    """About how long its JSON is."""
    inside = (holder[key] for holder, key in places)
    return sum(len(each) if isinstance(each, str) else 5 for each in inside)


def mangle(data: bytes, rng: random.Random) -> bytes:
    """Bytes that differ in a few places: cut, flipped, doubled, lost, and some that belong nowhere."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 1, 4, 50)))
        middle = data[start:end]
        match rng.randrange(6):
            case 0:
                data = data[:start]
            case 1:
                data = data[:start] + bytes(byte ^ (1 << rng.randrange(8)) for byte in middle) + data[end:]
            case 2:
                data = data[:start] + middle * rng.choice((2, 2, 40)) + data[end:]
            case 3:
                data = data[:start] + data[end:]
            case _:
                data = data[:start] + rng.choice(GARBAGE) + data[start:]
    return data


def mutate_json(line: bytes, rng: random.Random) -> bytes:
    """A line of JSON that is one still, though not the one it was; one that is none any more, otherwise."""
    try:
        return json.dumps(mutate(json.loads(line), rng)).encode()
    except (ValueError, RecursionError):
        return mangle(line, rng)


def mangle_line(line: bytes, rng: random.Random) -> list[bytes]:
    """One line, without its end: altered, lost, doubled, with garbage beside it, or in two."""
    match rng.randrange(8):
        case 0:
            return []
        case 1:
            return [line, line]
        case 2:
            return [rng.choice(GARBAGE), line]
        case 3:
            return [line[: len(line) // 2], line[len(line) // 2 :]]
        case 4:
            return [mangle(line, rng)]
        case _:
            return [mutate_json(line, rng)]


def mangle_lines(lines: list[bytes], rng: random.Random) -> bytes:
    """A pipe's lines, a few of them altered, out of order, or without the end of line between them."""
    out = list(lines)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(out))
        match rng.randrange(8):
            case 0:
                out.insert(rng.randrange(len(out)), out.pop(place))
            case 1 if place + 1 < len(out):
                out[place : place + 2] = [out[place] + out[place + 1]]
            case _:
                out[place : place + 1] = mangle_line(out[place], rng)
        out = out or [b""]
    return b"\n".join(out) + rng.choice((b"\n", b"\n", b""))


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """The same in pieces, as reads of a pipe bring it."""
    size = rng.choice((1, 7, 100, 4096, len(data) + 1))
    return [data[start : start + size] for start in range(0, len(data), size)]
