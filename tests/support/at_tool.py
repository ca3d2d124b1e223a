"""A further spelling of tool calls in text, `@tool("name", {…})`: what an operator might register."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from app.lib.block_rows import TextPattern

OPENING = re.compile(r'@tool\("([^"]+)"\s*(,\s*)?')


def match_at_tool(text: str) -> Iterator[dict[str, Any]]:
    """Every complete call, in the contract's keys; the arguments end where their JSON does."""
    for opening in OPENING.finditer(text):
        end = find_arguments_end(text, opening.end()) if opening[2] else opening.end()
        if end is not None and text.startswith(")", end):
            yield {
                "indexStart": opening.start(),
                "indexEnd": end + 1,
                "name": opening[1],
                "argsText": text[opening.end() : end],
            }


def find_arguments_end(text: str, start: int) -> int | None:
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except ValueError:
        return None


AT_TOOL = TextPattern("at_tool", match_at_tool, opener="@tool(", closer=")")
#: The same where nothing announces it: matched on finished texts only.
UNHELD_AT_TOOL = TextPattern("at_tool", match_at_tool)
