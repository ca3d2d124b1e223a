"""The two ways a chat answer shows its tool calls, and which of them a request gets."""

from __future__ import annotations

from enum import StrEnum


class OutputMode(StrEnum):
    #: As blocks in the text, where Obsidian Copilot looks for them, and as `tool_calls` beside.
    OBSIDIAN_XML = "obsidian-xml"
    #: As `tool_calls` alone.
    OPENAI_JSON = "openai-json"


MODES = {mode.value: mode for mode in OutputMode}


def parse_mode(text: str) -> OutputMode | None:
    return MODES.get(text.strip().lower())


def choose_mode(
    asked: OutputMode | None, declares_tools: bool, default: OutputMode, by_request: bool
) -> OutputMode:
    """The mode a client asks for; one that declares tools asks for JSON by that, if requests are to count."""
    if asked is not None:
        return asked
    return OutputMode.OPENAI_JSON if by_request and declares_tools else default
