"""Reads a `<use_tool>` block, as a model writes it or as we render it."""

from __future__ import annotations

from typing import Any, assert_never

from app.lib.json_text import Parsed, dump_json, parse_json
from app.lib.obsidian_canon import Kind, find_kind
from app.lib.tool_calls import TextCall
from app.lib.xml import Element, read_elements, read_inside, unescape_text, unwrap_lines

OPENER, CLOSER = "<use_tool", "</use_tool>"


def parse_use_tool(block: str) -> TextCall | None:
    """Read one complete block; `None` if it is malformed, and so only text.

    The first `<name>` names the tool. An `<args>` that stands alone beside it holds the arguments; in any
    other block every element is a parameter, of a repeated one the last holds, as in Copilot.
    """
    inside = read_inside(block, "use_tool")
    elements = None if inside is None else read_elements(inside)
    named = next((each for each in elements or () if each.name == "name"), None)
    name = unescape_text(named.text.strip()) if named else ""
    if elements is None or not name:
        return None
    args_text = _read_arguments(name, [each for each in elements if each is not named])
    return None if args_text is None else TextCall(name, args_text)


def _read_arguments(tool: str, parameters: list[Element]) -> str | None:
    match parameters:
        case []:
            return ""
        case [Element("args", text)]:
            return _read_verbatim(text.strip())
        case _:
            values = {each.name: _read_value(find_kind(tool, each.name), each.text) for each in parameters}
            return dump_json(values)


def _read_verbatim(text: str) -> str:
    """Keep arguments as they are, unless only their unescaped form is JSON."""
    unescaped = unescape_text(text)
    escaped = unescaped != text and parse_json(text) is None and parse_json(unescaped) is not None
    return unescaped if escaped else text


def _read_value(kind: Kind | None, text: str) -> Any:
    found = _read_json(kind, text)
    return unescape_text(unwrap_lines(text)) if found is None else found.value


def _read_json(kind: Kind | None, text: str) -> Parsed | None:
    """What a text says that is more than text."""
    match kind:
        case Kind.STRING:
            return None
        case Kind.STRING_OR_OBJECT:
            return _parse_escaped(text) if text.startswith("{") else None
        case Kind.ARRAY if not text.strip():
            # Copilot reads the empty list there.
            return Parsed([])
        case Kind.NUMBER | Kind.BOOLEAN | Kind.ARRAY | Kind.OBJECT:
            return _parse_escaped(text)
        case None:
            # Copilot's rule: nobody tells whether `7` is meant as a number.
            return _parse_escaped(text) if text.lstrip().startswith(("[", "{")) else None
        case _:
            assert_never(kind)


def _parse_escaped(text: str) -> Parsed | None:
    return parse_json(_read_verbatim(text))
