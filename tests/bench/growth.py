"""How a request's cost grows: with its deltas, its history, the arguments of a call."""

from collections.abc import Iterable, Iterator, Mapping

from tests.bench import cpu
from tests.bench.cases import ARGUMENTS, CALL_CASES, DELTA_CASES, HISTORY_CASES, MESSAGE_CHARS, Case
from tests.bench.cpu import Cost
from tests.bench.servers import Server
from tests.bench.table import Row

#: So much dearer may each message, delta or byte be where there are more of them.
MOST_EACH = 1.25
LONGEST_HISTORY_MS = 15


def measure_deltas(gateway: Server, floor: Server, model: str, part: float) -> Iterator[Row]:
    costs = measure_all(DELTA_CASES, model, gateway, floor, part)
    yield from build_rows(DELTA_CASES, costs)
    yield build_growth_row("deltas", [f"{count:,}" for count in costs], costs)


def measure_histories(gateway: Server, floor: Server, model: str, part: float) -> Iterator[Row]:
    costs = measure_all(HISTORY_CASES, model, gateway, floor, part)
    # A single message is the row of the one-delta stream.
    yield from build_rows(HISTORY_CASES, costs)[1:]
    yield build_growth_row("messages of history", [f"{count:,}" for count in costs], costs)
    (_, shortest), *_, (count, longest) = costs.items()
    extra_ms = longest.ours_ms - shortest.ours_ms
    yield Row(
        f"worker CPU that a history of {count * MESSAGE_CHARS // 1000:,} KB adds to the request",
        f"{extra_ms:.2f} ms",
        f"{longest.floor_ms - shortest.floor_ms:.2f} ms (floor)",
        goal=f"< {LONGEST_HISTORY_MS} ms",
        met=extra_ms < LONGEST_HISTORY_MS,
    )


def measure_arguments(gateway: Server, floor: Server, model: str, part: float) -> Iterator[Row]:
    costs = measure_all(CALL_CASES, model, gateway, floor, part)
    yield from build_rows(CALL_CASES, costs)
    yield build_growth_row("arguments", ARGUMENTS.values(), costs)


def measure_all(
    cases: Mapping[int, Case], model: str, gateway: Server, floor: Server, part: float
) -> dict[int, Cost]:
    return {size: cpu.measure(case, model, gateway, floor, part) for size, case in cases.items()}


def build_rows(cases: Mapping[int, Case], costs: Mapping[int, Cost]) -> list[Row]:
    return [cpu.build_row(case, costs[size]) for size, case in cases.items()]


def build_growth_row(what: str, sizes: Iterable[str], costs: Mapping[int, Cost]) -> Row:
    """All of them beside one another; judged is the last step, where what is fixed counts least."""
    *_, (before_size, before), (last_size, last) = costs.items()
    more, dearer = last_size / before_size, last.ours_ms / before.ours_ms
    return Row(
        f"worker CPU by {what}: {' / '.join(sizes)}",
        " / ".join(f"{cost.ours_ms:.2f}" for cost in costs.values()) + " ms",
        " / ".join(f"{cost.floor_ms:.2f}" for cost in costs.values()) + " ms (floor)",
        f"the last is {dearer:.2f}x the one before, for {more:.0f} times as much",
        f"≤ {more * MOST_EACH:.4g}x",
        dearer <= more * MOST_EACH,
    )
