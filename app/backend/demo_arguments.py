"""JSON that fits a schema, filled with what a sentence offers: the demo model's arguments."""

from __future__ import annotations

import collections
import functools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

_MAX_DEPTH = 12
# Past this depth a recursive schema is given its way out: null, or no element.
_SHALLOW = 4
_MAX_HOPS = 8
# Bounds the walk of a schema whose references multiply.
_MAX_NODES = 2_000
_MAX_ITEMS = 50
# Every property searches the text.
_MAX_TEXT_CHARS = 4_000

_STOP_TEXT = (
    "a about an and any are as at be by call can could do does for from function get give has have how i if"
    " in is it its let me my of on or please set so tell that the then this to tool use used using want what"
    " when where which with would you your"
)
#: Words that say nothing about what is asked for.
STOP_WORDS = frozenset(_STOP_TEXT.split())
_DENYING_WORDS = frozenset({"no", "not", "false", "off", "without", "disable", "disabled", "never"})
_WHOLE_TEXT_NAMES = frozenset({"query", "q", "question", "text", "prompt", "message", "content", "input"})
_FORMATS = {
    "date": "2030-01-01",
    "time": "12:00:00Z",
    "date-time": "2030-01-01T12:00:00Z",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
# What a schema without a type is about.
_TELLING_KEYS = {"properties": "object", "required": "object", "items": "array", "minimum": "number"}

_CAMEL_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
# Fifteen digits are exact as a float and far from the digits `int` refuses.
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?!\w)")
_PROPER = r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*"
_PHRASE = re.compile(
    r"[\"“](?P<quoted>[^\"“”]{1,200})[\"”]"
    r"|\b(?i:in|for|at|to|from|about|of|named|called)\s+(?:(?i:the|an|a|me)\s+)?"
    rf"(?P<led>{_PROPER}|[a-z]\w+)"
    rf"|(?<=[\w,;:] )(?P<proper>{_PROPER})"
)


def build_arguments(schema: Any, text: str) -> dict[str, Any]:
    """Fill an object schema from the text; never raises, and what is no object schema gives `{}`."""
    value = _Shaper(schema, text[:_MAX_TEXT_CHARS]).shape(schema, "", 0)
    return value if isinstance(value, dict) else {}


def split_words(text: str) -> list[str]:
    """Lower-case words, with `snake_case`, `kebab-case` and `camelCase` taken apart."""
    return [word.lower() for word in _WORD.findall(_CAMEL_JOINT.sub(" ", text))]


def to_run(text: str) -> str:
    """The words with a blank around each, so that `in` finds whole words only."""
    return f" {' '.join(split_words(text))} "


class _Shaper:
    """One walk over a schema; what it takes from the text is used once, in order."""

    def __init__(self, root: Any, text: str) -> None:
        self._root = root
        self._text = text.strip()
        self._run = to_run(text)
        self._phrases = collections.deque(_find_phrases(text))
        self._numbers = collections.deque(float(number) for number in _NUMBER.findall(text))
        self._nodes_left = _MAX_NODES

    def shape(self, schema: Any, name: str, depth: int) -> Any:
        self._nodes_left -= 1
        if depth > _MAX_DEPTH or self._nodes_left <= 0:
            return None
        node = self._resolve(schema, depth, _MAX_HOPS)
        if "const" in node:
            return node["const"]
        if values := _as_list(node.get("enum")):
            return next(filter(self._mentions, values), values[0])
        return _SHAPES[_kind(node, depth)](self, node, name, depth)

    def _resolve(self, schema: Any, depth: int, hops: int) -> dict[str, Any]:
        """The node with its references and branches folded in; a boolean schema asks for nothing."""
        self._nodes_left -= 1
        if not isinstance(schema, dict) or hops <= 0 or self._nodes_left <= 0:
            return {}
        node = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
        parts = [self._look_up(schema.get("$ref")), *_as_list(schema.get("allOf"))]
        parts += [_pick_branch(_as_list(schema.get(key)), depth) for key in ("anyOf", "oneOf")]
        resolved = (self._resolve(part, depth, hops - 1) for part in parts if part is not None)
        return functools.reduce(_merge, resolved, node)

    def _look_up(self, ref: Any) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        node = self._root
        for key in ref.split("/")[1:]:
            node = _step_into(node, key.replace("~1", "/").replace("~0", "~"))
        return node

    def _mentions(self, value: Any) -> bool:
        words = to_run(str(value))
        return bool(words.strip()) and words in self._run

    def _shape_object(self, node: dict[str, Any], _name: str, depth: int) -> dict[str, Any]:
        properties = _as_dict(node.get("properties"))
        required = dict.fromkeys(key for key in _as_list(node.get("required")) if isinstance(key, str))
        wanted = [key for key in properties if key in required or self._suits(key, properties[key], depth)]
        keys = list(dict.fromkeys([*wanted, *required]))[: max(self._nodes_left, 0)]
        rest = node.get("additionalProperties")
        return {key: self.shape(properties.get(key, rest), key, depth + 1) for key in keys}

    def _suits(self, key: str, schema: Any, depth: int) -> bool:
        """Whether the text speaks of an optional property: by its name or by one of its values."""
        values = _as_list(_as_dict(schema).get("enum"))
        return depth < _SHALLOW and (self._mentions(key) or any(map(self._mentions, values)))

    def _shape_array(self, node: dict[str, Any], name: str, depth: int) -> list[Any]:
        items = node.get("items")
        heads = _as_list(node.get("prefixItems")) or _as_list(items)
        least = max(_as_count(node.get("minItems"), 0), len(heads))
        count = min(max(least, depth < _SHALLOW), _as_count(node.get("maxItems"), _MAX_ITEMS), _MAX_ITEMS)
        return [self.shape(heads[i] if i < len(heads) else items, name, depth + 1) for i in range(count)]

    def _shape_string(self, node: dict[str, Any], name: str, _depth: int) -> str:
        given = _FORMATS.get(str(node.get("format"))) or self._take_phrase(name)
        least, most = _as_count(node.get("minLength"), 0), _as_count(node.get("maxLength"), len(given))
        return given.ljust(min(least, 1_000), ".")[: max(least, most)]

    def _take_phrase(self, name: str) -> str:
        # "from Berlin to Paris" answers `to` whichever comes first in the schema.
        given = rf"\b(?i:{re.escape(name)})(?:\s*[:=]\s*|\s+is\s+|\s+)({_PROPER})"
        named = re.search(given, self._text) if name else None
        if named:
            if named.group(1) in self._phrases:
                self._phrases.remove(named.group(1))
            return named.group(1)
        if self._phrases:
            return self._phrases.popleft()
        return self._text if name.lower() in _WHOLE_TEXT_NAMES and self._text else f"demo {name}".strip()

    def _shape_number(self, node: dict[str, Any], _name: str, _depth: int) -> float:
        low = _first_number(node.get("minimum"), _next_number(node.get("exclusiveMinimum"), 1))
        high = _first_number(node.get("maximum"), _next_number(node.get("exclusiveMaximum"), -1))
        value: float = self._numbers.popleft() if self._numbers else 1
        value = value if low is None else max(value, low)
        value = value if high is None else min(value, high)
        return int(value) if value == int(value) else value

    def _shape_integer(self, node: dict[str, Any], name: str, depth: int) -> int:
        value = math.floor(self._shape_number(node, name, depth))
        low = _first_number(node.get("minimum"))
        return value if low is None else max(value, math.ceil(low))

    def _shape_boolean(self, _node: dict[str, Any], _name: str, _depth: int) -> bool:
        return _DENYING_WORDS.isdisjoint(self._run.split())

    def _shape_null(self, _node: dict[str, Any], _name: str, _depth: int) -> None:
        return None


_SHAPES: dict[str, Callable[[_Shaper, dict[str, Any], str, int], Any]] = {
    "object": _Shaper._shape_object,
    "array": _Shaper._shape_array,
    "string": _Shaper._shape_string,
    "number": _Shaper._shape_number,
    "integer": _Shaper._shape_integer,
    "boolean": _Shaper._shape_boolean,
    "null": _Shaper._shape_null,
}


def _find_phrases(text: str) -> Iterable[str]:
    found = (match.group(match.lastgroup or 0) for match in _PHRASE.finditer(text))
    return dict.fromkeys(phrase for phrase in found if phrase.lower() not in STOP_WORDS)


def _kind(node: dict[str, Any], depth: int) -> str:
    kinds = node.get("type", next((kind for key, kind in _TELLING_KEYS.items() if key in node), "string"))
    names = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if str(kind) in _SHAPES]
    return min(names, key=lambda kind: (kind == "null") is (depth < _SHALLOW), default="string")


def _pick_branch(branches: list[Any], depth: int) -> Any:
    """The first branch that is not null; deep down, null when it is on offer."""
    return min(
        branches, key=lambda b: (_as_dict(b).get("type") == "null") is (depth < _SHALLOW), default=None
    )


def _step_into(node: Any, key: str) -> Any:
    is_index = isinstance(node, list) and key.isdecimal() and len(key) < 6
    return dict(enumerate(node)).get(int(key)) if is_index else _as_dict(node).get(key)


def _merge(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    properties = _as_dict(base.get("properties")) | _as_dict(other.get("properties"))
    names = [key for part in (base, other) for key in _as_list(part.get("required")) if isinstance(key, str)]
    joined = {"properties": properties, "required": list(dict.fromkeys(names))}
    return base | other | {key: value for key, value in joined.items() if value}


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_count(value: Any, otherwise: int) -> int:
    number = _first_number(value)
    return otherwise if number is None else max(0, int(number))


def _first_number(*values: Any) -> float | None:
    # A bool is an int to Python, and an infinite bound cannot be rounded.
    numbers = (v for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    return next((v for v in numbers if isinstance(v, int) or math.isfinite(v)), None)


def _next_number(bound: Any, step: int) -> float | None:
    number = _first_number(bound)
    return None if number is None else number + step
