"""The little XML that tool blocks are written in: elements with text inside, one level deep.

Models write these blocks by hand, without escaping. So an element ends at the first closing tag of its own
name, whatever stands before, as Obsidian Copilot reads it too; an XML parser would refuse most of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
_ELEMENT_NAME = re.compile(_NAME)
_OPENER = re.compile(rf"\s*<({_NAME})>")
_ENTITY = re.compile("&(?:lt|gt|amp|quot|apos);")
_CHARACTERS = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}


@dataclass(frozen=True, slots=True)
class Element:
    name: str
    #: As written: not trimmed, not unescaped.
    text: str


def escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape_text(text: str) -> str:
    """Read the five entities XML knows by name, and nothing else."""
    return _ENTITY.sub(lambda entity: _CHARACTERS[entity[0]], text)


def is_element_name(text: str) -> bool:
    return _ELEMENT_NAME.fullmatch(text) is not None


def write_element(name: str, text: str) -> str:
    return f"<{name}>{text}</{name}>"


def wrap_lines(text: str) -> str:
    """Put a text on lines of its own inside its element."""
    return f"\n{text}\n"


def unwrap_lines(text: str) -> str:
    """Undo `wrap_lines`: a line break on both sides is layout; any other white space is text."""
    return text[1:-1] if len(text) > 1 and text[0] == "\n" == text[-1] else text


def read_inside(text: str, name: str) -> str | None:
    """What stands inside a text that is one such element; its opener may carry attributes."""
    opener = re.match(rf"<{name}(?:\s[^>]*)?>", text)
    closer = f"</{name}>"
    if opener is None or not text.endswith(closer):
        return None
    return text[opener.end() : -len(closer)]


def read_elements(text: str) -> list[Element] | None:
    """The elements a text consists of; `None` if it holds anything else than white space between them."""
    elements = []
    place = 0
    while opener := _OPENER.match(text, place):
        closer = f"</{opener[1]}>"
        end = text.find(closer, opener.end())
        if end < 0:
            # Not looked for further on: that would be quadratic in openers without closer.
            return None
        elements.append(Element(opener[1], text[opener.end() : end]))
        place = end + len(closer)
    return None if text[place:].strip() else elements
