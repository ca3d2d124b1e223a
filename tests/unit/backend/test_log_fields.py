"""What a log line says of a codex process."""

from __future__ import annotations

from app.backend.log_fields import name_process


def test_the_process_comes_first() -> None:
    assert [*name_process(7, exit=-9, stderr="killed")["fields"].items()] == [
        ("codex_pid", 7),
        ("exit", -9),
        ("stderr", "killed"),
    ]


def test_a_line_without_a_process_says_so() -> None:
    assert name_process(None) == {"fields": {"codex_pid": None}}
