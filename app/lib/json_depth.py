"""How deep JSON is nested; what reads it further on may recurse."""

from __future__ import annotations

from typing import Any

CONTAINERS = (dict, list)


def is_deeper(value: Any, most: int) -> bool:
    """Level by level, so that no nesting is too deep to be measured."""
    level = [value] if isinstance(value, CONTAINERS) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, CONTAINERS)
        ]
    return bool(level)
