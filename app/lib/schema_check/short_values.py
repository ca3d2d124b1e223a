"""JSON values that show only their beginning: what a message costs and says no longer grows with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

MAX_CHARS = 60
MAX_ITEMS = 10


class ShortText(str):
    """A string by its beginning."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self[:MAX_CHARS]!r}…"


class ShortList(list[Any]):
    """A list by its first elements; what they hold is left out."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{join_first(map(name_value, self), len(self))}]"


class ShortDict(dict[str, Any]):
    """An object by its first keys."""

    __slots__ = ()

    def __repr__(self) -> str:
        pairs = (f"{key!r}: {name_value(value)}" for key, value in self.items())
        return f"{{{join_first(pairs, len(self))}}}"


def to_short(value: Any) -> Any:
    """An equal value, made of the above."""
    match value:
        case str() if len(value) > MAX_CHARS:
            return ShortText(value)
        case list():
            return ShortList(map(to_short, value))
        case dict():
            return ShortDict((to_short(key), to_short(each)) for key, each in value.items())
        case _:
            return value


def name_value(value: Any) -> str:
    match value:
        case list() if value:
            return "[…]"
        case dict() if value:
            return "{…}"
        case _:
            return repr(value)


def join_first(names: Iterable[str], count: int) -> str:
    return ", ".join(itertools.islice(names, MAX_ITEMS)) + (", …" if count > MAX_ITEMS else "")
