"""Finds the tool blocks of a finished text, by the same gate a stream goes through."""

from __future__ import annotations

from collections.abc import Iterable

from app.lib.block_rows import RowSet, TextPattern, build_use_tool_row
from app.lib.text_gate import Found, TextGate
from app.lib.tool_calls import ParsedTextBlock


def find_blocks(text: str, patterns: Iterable[TextPattern] = ()) -> tuple[ParsedTextBlock, ...]:
    """Every `<use_tool>` block and every block of these patterns, in order; where two overlap, the first."""
    known = tuple(patterns)
    return drop_overlaps([*find_held(text, known), *find_unheld(text, known)])


def find_held(text: str, patterns: Iterable[TextPattern]) -> list[ParsedTextBlock]:
    """The blocks that a gate would hold back in a stream of this text."""
    rows = [build_use_tool_row(), *filter(None, (pattern.to_row() for pattern in patterns))]
    gate = TextGate(RowSet(rows), max_chars=len(text) + 1)
    found = [event for event in [*gate.feed(text), *gate.finish()] if isinstance(event, Found)]
    return [
        ParsedTextBlock(
            each.index_start, each.index_start + len(each.text), each.call.name, each.call.args_text
        )
        for each in found
    ]


def find_unheld(text: str, patterns: Iterable[TextPattern]) -> list[ParsedTextBlock]:
    """The blocks of the patterns that no opener announces."""
    return [block for pattern in patterns if not pattern.opener for block in pattern.match(text)]


def drop_overlaps(blocks: Iterable[ParsedTextBlock]) -> tuple[ParsedTextBlock, ...]:
    kept: list[ParsedTextBlock] = []
    for block in sorted(blocks, key=lambda block: block.index_start):
        if not kept or block.index_start >= kept[-1].index_end:
            kept.append(block)
    return tuple(kept)
