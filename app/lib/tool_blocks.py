"""Finds the tool blocks of a finished text, by the same gate a stream goes through."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

from app.lib.block_rows import RowSet, TextPattern, build_use_tool_row
from app.lib.text_gate import Found, TextGate
from app.lib.tool_calls import ParsedTextBlock


def build_rows(patterns: Iterable[TextPattern]) -> RowSet:
    """What a stream is held for: `<use_tool>` blocks, and every pattern that has an opener."""
    return RowSet([build_use_tool_row(), *filter(None, (pattern.to_row() for pattern in patterns))])


def find_blocks(text: str, patterns: Iterable[TextPattern] = ()) -> tuple[ParsedTextBlock, ...]:
    """Every `<use_tool>` block and every block of these patterns, in order."""
    known = tuple(patterns)
    held = find_held(text, build_rows(known))
    blocks = [*held, *find_unheld(text, known, held)]
    return tuple(sorted(blocks, key=lambda block: block.index_start))


def find_held(text: str, rows: RowSet) -> list[ParsedTextBlock]:
    """The blocks that a gate would hold back in a stream of this text."""
    gate = TextGate(rows, max_chars=len(text) + 1)
    found = [event for event in [*gate.feed(text), *gate.finish()] if isinstance(event, Found)]
    return [
        ParsedTextBlock(
            each.index_start, each.index_start + len(each.text), each.call.name, each.call.arguments
        )
        for each in found
    ]


def find_unheld(
    text: str, patterns: Iterable[TextPattern], held: Sequence[ParsedTextBlock]
) -> list[ParsedTextBlock]:
    """The blocks of the patterns that no opener announces, apart from each other and from those held."""
    matched = [block for pattern in patterns if not pattern.opener for block in pattern.match(text)]
    kept: list[ParsedTextBlock] = []
    for block in sorted(matched, key=lambda block: block.index_start):
        if is_apart(block, held) and (not kept or kept[-1].index_end <= block.index_start):
            kept.append(block)
    return kept


def is_apart(block: ParsedTextBlock, others: Sequence[ParsedTextBlock]) -> bool:
    """Whether a block overlaps none of these, which stand in order."""
    place = bisect.bisect_right(others, block.index_start, key=lambda other: other.index_start)
    before, after = others[max(0, place - 1) : place], others[place : place + 1]
    return all(other.index_end <= block.index_start for other in before) and all(
        block.index_end <= other.index_start for other in after
    )
