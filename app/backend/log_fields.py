"""What a log line says of the codex process that it is about."""

from __future__ import annotations

from typing import Any


def name_process(pid: int | None, **more: Any) -> dict[str, dict[str, Any]]:
    """The `extra` of a line: its fields begin with the process, if there was one."""
    return {"fields": {"codex_pid": pid, **more}}
