"""The tool-call core by itself: deltas and chunks a second, and how its cost grows with the text."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from app.lib.block_rows import RowSet, build_use_tool_row
from app.lib.text_gate import TextGate
from app.lib.tool_call_aggregator import ToolCallAggregator
from tests.bench.table import Row

MB = 1_000_000
SIZES_MB = (1, 2, 4, 8)
ROWS = RowSet([build_use_tool_row()])
#: Twice the text may take a little more than twice the time; four times would be quadratic.
MOST_PER_DOUBLING = 2.5


@dataclass(frozen=True, slots=True)
class Case:
    what: str
    unit: str
    goal_per_s: int
    #: Takes one piece of text after another.
    build: Callable[[], Callable[[str], object]]
    piece: str


def build_gate() -> Callable[[str], object]:
    return TextGate(ROWS).feed


def build_held_gate() -> Callable[[str], object]:
    gate = TextGate(ROWS, max_chars=100 * MB)
    gate.feed("<use_tool><a>")
    return gate.feed


def build_responses() -> Callable[[str], object]:
    aggregator = ToolCallAggregator()
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""}
    aggregator.ingest_delta({"type": "response.output_item.added", "output_index": 0, "item": item})
    numbers = iter(range(100 * MB))

    def feed(text: str) -> object:
        event = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0}
        return aggregator.ingest_delta(event | {"delta": text, "sequence_number": next(numbers)})

    return feed


def build_chat() -> Callable[[str], object]:
    aggregator = ToolCallAggregator()
    aggregator.ingest_delta(build_chunk({"name": "f"}))
    return lambda text: aggregator.ingest_delta(build_chunk({"arguments": text}))


def build_chunk(function: dict[str, Any]) -> dict[str, Any]:
    call = {"index": 0, "id": "call_1", "function": function}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


CASES = (
    Case("text gate, plain text", "chunks", 200_000, build_gate, "word "),
    Case("text gate, inside a block", "chunks", 200_000, build_held_gate, "word "),
    Case("aggregator, Responses events", "deltas", 100_000, build_responses, '"a":1,'),
    Case("aggregator, chat chunks", "deltas", 100_000, build_chat, '"a":1,'),
)
#: One of each is enough to see how they grow.
GROWING = CASES[:3]


def measure(part: float) -> Iterator[Row]:
    for case in CASES:
        count = round(300_000 * part)
        per_s = max(count / time_feed(case, case.piece, count) for _ in range(3))
        yield Row(
            f"{case.what}, {case.unit} a second",
            f"{per_s:,.0f}",
            goal=f"≥ {case.goal_per_s:,}",
            met=per_s >= case.goal_per_s,
        )
    for case in GROWING:
        yield measure_growth(case, part)


def measure_growth(case: Case, part: float) -> Row:
    times_s = [time_feed(case, "x", round(size * MB * part)) for size in SIZES_MB]
    worst = max(after / before for before, after in itertools.pairwise(times_s))
    return Row(
        f"{case.what}, a character at a time, {' / '.join(map(str, SIZES_MB))} MB",
        " / ".join(f"{time_s:.2f} s" for time_s in times_s),
        ratio=f"at most {worst:.2f}x for twice the text",
        goal=f"≤ {MOST_PER_DOUBLING}x",
        met=worst <= MOST_PER_DOUBLING,
    )


def time_feed(case: Case, piece: str, count: int) -> float:
    """Processor seconds for so many pieces, the payloads around them included."""
    feed = case.build()
    began_s = time.process_time()
    for _ in range(count):
        feed(piece)
    return time.process_time() - began_s
