"""Two tools by their names alone, and a call of `f`: as the model makes it, and as clients come to see it."""

from __future__ import annotations

from typing import Any

from app.lib.errors import BackendUnavailable
from app.settings import Settings
from tests.contract.conftest import OBSIDIAN, Answer

TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": name}} for name in "fg"]
USE = "<use_tool><name>f</name><a>1</a></use_tool>"
ARGUMENTS = '{"a":"1"}'
RUNNING_ON = Settings(stop_after_tools=False)
GONE = BackendUnavailable("Gone.")


def called(block: str, headers: dict[str, str]) -> Answer:
    return Answer(block if headers is OBSIDIAN else None, "tool_calls", (("f", ARGUMENTS),))
