"""Renders a tool call as the `<use_tool>` block that Obsidian Copilot's prompt asks for."""

from __future__ import annotations

from enum import Enum
from typing import Any

from app.lib import xml
from app.lib.json_text import dump_json, escape_surrogates, has_surrogates, parse_json
from app.lib.obsidian_canon import CANON, Kind, find_kind
from app.lib.tool_calls import ToolCallRecord

#: Elements that mean something else inside a block.
_RESERVED = {"name", "args", "use_tool"}
#: What would end verbatim arguments, or begin another block, in the middle of them.
_BREAKING = ("</use_tool>", "</args>", "<use_tool")
_JSON_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class EscapePolicy(Enum):
    """How a text stands in its element."""

    #: `&`, `<`, `>` as entities (AC 24): whatever the text, a reader that knows entities gets it back.
    XML = "xml"
    #: As it is, since Copilot 3.x knows no entities. Only a closing tag that would cut the text short,
    #: its element's own or the block's, loses its `<` to one.
    COPILOT = "copilot"


def to_obsidian_xml(record: ToolCallRecord, escape: EscapePolicy = EscapePolicy.XML) -> str:
    """Render one element a line (AC 21)."""
    name = record.function.name
    elements = _render_parameters(name, record.arguments, escape)
    if elements is None:
        elements = [xml.write_element("args", _render_verbatim(record.arguments, escape))]
    lines = ["<use_tool>", xml.write_element("name", _escape("name", name, escape)), *elements, "</use_tool>"]
    return escape_surrogates("\n".join(lines))


def shape_arguments(name: str, arguments: str) -> tuple[tuple[str, Any], ...] | None:
    """The parameters in arguments that are a JSON object, else `None` (AC 23).

    Those of a canon tool come in its order, without what it does not know; missing ones are left out, and so
    is the null that a strict schema has a model write for them.
    """
    if not arguments.strip():
        return ()
    found = parse_json(arguments)
    if found is None or not isinstance(found.value, dict):
        return None
    if name not in CANON:
        return tuple(found.value.items())
    return tuple(
        (spelling, found.value[spelling])
        for parameter in CANON[name]
        for spelling in parameter.spellings
        if spelling in found.value and (parameter.required or found.value[spelling] is not None)
    )


def _render_parameters(name: str, arguments: str, escape: EscapePolicy) -> list[str] | None:
    """An element per parameter; `None` if the arguments do not fit into elements."""
    shaped = shape_arguments(name, arguments)
    if shaped is None or not all(_fits(key, value) for key, value in shaped):
        return None
    texts = [(key, _render_value(name, key, value, escape)) for key, value in shaped]
    elements = [xml.write_element(key, text) for key, text in texts if text is not None]
    return elements if len(elements) == len(texts) else None


def _fits(key: str, value: Any) -> bool:
    # Unlike JSON, an element's text has no way to spell half a character.
    broken = isinstance(value, str) and has_surrogates(value)
    return xml.is_element_name(key) and key not in _RESERVED and not broken


def _render_value(tool: str, key: str, value: Any, escape: EscapePolicy) -> str | None:
    if not isinstance(value, str):
        # AC 24: JSON inside the element, in which no reader finds a tag or an entity.
        written = dump_json(value)
        return None if written is None else written.translate(_JSON_MARKUP)
    text = _escape(key, value, escape)
    # On lines of its own where the reader would take line breaks of the text for layout, or it for an object.
    unclear = find_kind(tool, key) is Kind.STRING_OR_OBJECT and value.startswith("{")
    return xml.wrap_lines(text) if unclear or xml.unwrap_lines(value) != value else text


def _render_verbatim(arguments: str, escape: EscapePolicy) -> str:
    if not any(tag in arguments for tag in _BREAKING):
        return arguments
    if parse_json(arguments) is None:
        return _escape("args", arguments, escape)
    # In JSON it can only stand inside a string.
    return arguments.replace("<", "\\u003c")


def _escape(element: str, text: str, escape: EscapePolicy) -> str:
    if escape is EscapePolicy.XML:
        return xml.escape_text(text)
    for name in (element, "use_tool"):
        text = text.replace(f"</{name}>", f"&lt;/{name}>")
    return text
