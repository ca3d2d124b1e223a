"""Turn events as short texts, for tests that compare whole turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.lib.events import Failed, Finished, Note, Text, ToolBlock, ToolCalled, TurnEvent


def show(events: Iterable[TurnEvent]) -> list[str]:
    """Events as short texts; adjacent texts are one, since streams cut them as they like."""
    shown: list[str] = []
    last: TurnEvent | None = None
    for event in events:
        if isinstance(event, Text) and isinstance(last, Text):
            shown[-1] += event.text
        else:
            shown.append(event.text if isinstance(event, Text) else show_one(event))
        last = event
    return shown


def show_one(event: Any) -> str:
    match event:
        case ToolCalled(choice, delta):
            return f"{choice}:{delta.id} {delta.function.name}({delta.arguments})"
        case ToolBlock(choice, item_id, text):
            return f"{choice}:{item_id}[{text}]"
        case Note(_, kind, row, reason):
            return f"{{{kind} {row} {reason}}}"
        case Finished(_, reason):
            return f"finish {reason}"
        case Failed(error):
            return f"{type(error).__name__}: {error.message}"
        case _:
            return type(event).__name__
