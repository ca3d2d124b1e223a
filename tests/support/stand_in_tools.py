"""What the stand-in makes of a client's tools and of their calls, as codex 0.163 does."""

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from tests.support.stand_in_wire import Message

# Taken, and then neither told to the model nor known when it calls them.
HIDDEN = {"exec_command", "shell_command"}
MAX_DEPTH = 127


def find_flaw(tools: Iterable[Message]) -> str | None:
    """Why a thread with these tools is refused; the first bad one is told."""
    seen: set[str] = set()
    for tool in tools:
        name = tool["name"]
        missing = [key for key in ("description", "inputSchema") if key not in tool]
        if missing:
            return f"Invalid request: missing field `{missing[0]}`"
        flaw = find_name_flaw(name) or (f"duplicate dynamic tool name: {name}" if name in seen else None)
        if flaw:
            return flaw
        seen.add(name)
    return None


def find_name_flaw(name: str) -> str | None:
    if not name:
        return "dynamic tool name must not be empty"
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        return f"dynamic tool name must match ^[a-zA-Z0-9_-]+$ to match Responses API: {name}"
    if len(name) > 128:
        return f"dynamic tool name must be at most 128 characters to match Responses API: {name}"
    if name == "mcp" or name.startswith("mcp__"):
        return f"dynamic tool name is reserved: {name}"
    return None


def parse_arguments(text: str) -> Any:
    """Any JSON, but stricter than Python's own reading; a ValueError where codex tells the model."""
    value = json.loads(text, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode()  # half a character is an error too
    if measure_depth(value) > MAX_DEPTH:
        raise ValueError("recursion limit exceeded")
    return value


def refuse(literal: str) -> NoReturn:
    raise ValueError(literal)


def measure_depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    parts = value.values() if isinstance(value, dict) else value
    return 1 + max(map(measure_depth, parts), default=0)


def read_result(answer: Message) -> Message:
    """The result in an answer to `item/tool/call`; an answer that is none becomes a failed one."""
    result: Message = answer.get("result", {})
    if {"contentItems", "success"} <= result.keys():
        return result
    text = "dynamic tool request failed" if "error" in answer else "dynamic tool response was invalid"
    return {"contentItems": [{"type": "inputText", "text": text}], "success": False}


def read_output(result: Message) -> str | list[Message]:
    """A result as an item holds it."""
    found = result["contentItems"]
    if len(found) == 1 and found[0]["type"] == "inputText":
        return str(found[0]["text"])
    return [{"type": "input_text", "text": part.get("text", "")} for part in found]
