"""Many clients that ask again and again: requests and frames a second, and how long each of them waits."""

import functools
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.bench.cpu import ask_once, teach_floor
from tests.bench.load import CHAT, RESPONSES, TEN_TOOLS, build_chat, build_responses, build_script
from tests.bench.processes import read_settled_cpu_s, set_apart
from tests.bench.servers import Server
from tests.bench.swarm import Order, Outcome, send_swarm
from tests.bench.table import Row

ROUNDS, CODEX_ROUNDS = 5, 3
FRAMES_GOAL = 50_000
STREAM = "one-delta stream"


@dataclass(frozen=True, slots=True)
class Crowd:
    clients: int
    what: str
    #: The request's body, by the model.
    build: Callable[[str], bytes]
    path: str = CHAT
    #: Of all clients, in a round.
    requests: int = 1000
    deltas: int = 1
    #: The share of the floor's requests a second.
    goal: float | None = None


class Rate(NamedTuple):
    """What a round brought."""

    outcome: Outcome
    cpu_ms: float

    @property
    def per_s(self) -> float:
        return self.outcome.per_s


build_stream = functools.partial(build_chat, script=build_script(1), stream=True)
build_body = functools.partial(build_chat, script=build_script(1), stream=False)
build_response = functools.partial(build_responses, script=build_script(1), store=False)
EIGHT = Crowd(8, STREAM, build_stream)
CROWDS = (
    Crowd(1, STREAM, build_stream, requests=300),
    EIGHT,
    Crowd(32, STREAM, build_stream, goal=0.5),
    Crowd(100, STREAM, build_stream),
    Crowd(32, "non-stream", build_body),
    Crowd(32, f"{STREAM}, ten tools declared", functools.partial(build_stream, tools=TEN_TOOLS)),
    Crowd(32, f"{STREAM}, `/v1/responses`", functools.partial(build_response, stream=True), RESPONSES),
    Crowd(32, "non-stream, `/v1/responses`", functools.partial(build_response, stream=False), RESPONSES),
)
LONG = Crowd(
    8,
    "1,000-delta streams, ready together",
    functools.partial(build_chat, script=build_script(1000), stream=True),
    requests=80,
    deltas=1000,
)


def measure(gateway: Server, floor: Server, model: str, part: float, with_codex: list[Rate]) -> Iterator[Row]:
    for crowd in CROWDS:
        ours, theirs = compare(crowd, model, gateway, floor, part)
        yield build_row(crowd, ours, theirs)
        if crowd is EIGHT:
            yield build_codex_row(with_codex, ours)
    ours, theirs = compare(LONG, model, gateway, floor, part)
    yield build_frames_row(LONG, ours, theirs)


def measure_codex(gateway: Server, model: str, part: float) -> list[Rate]:
    """With the real binary behind the gateway; the first round has its processes started."""
    order = Order(gateway.port, CHAT, EIGHT.clients, max(round(160 * part), 16), 1)
    return [send(gateway, order, build_stream(model)) for _ in range(1 + CODEX_ROUNDS)][1:]


def compare(
    crowd: Crowd, model: str, gateway: Server, floor: Server, part: float
) -> tuple[list[Rate], list[Rate]]:
    body = crowd.build(model)
    floor_path, _ = teach_floor(floor, ask_once(gateway, crowd.path, body), crowd.deltas)
    requests = max(round(crowd.requests * part), 2 * crowd.clients)
    order, floor_order = (
        Order(server.port, path, crowd.clients, requests, crowd.deltas)
        for server, path in ((gateway, crowd.path), (floor, floor_path))
    )
    send(gateway, order, body)
    send(floor, floor_order, body)
    rounds = [
        (send(gateway, order, body), send(floor, floor_order, body))
        for _ in range(max(round(ROUNDS * part), 1))
    ]
    ours, theirs = zip(*rounds, strict=True)
    return list(ours), list(theirs)


def send(server: Server, order: Order, body: bytes) -> Rate:
    set_apart(server.worker_pid)
    before_s = read_settled_cpu_s(server.worker_pid)
    outcome = send_swarm(order, body)
    if outcome.failed:
        raise RuntimeError(f"{outcome.failed} of {order.requests} answers on {order.path} were not whole")
    return Rate(outcome, (read_settled_cpu_s(server.worker_pid) - before_s) * 1000 / order.requests)


def build_row(crowd: Crowd, ours: list[Rate], theirs: list[Rate]) -> Row:
    ratio = find_ratio(ours, theirs)
    clients = "1 client" if crowd.clients == 1 else f"{crowd.clients} clients"
    return Row(
        f"{clients}, {crowd.what}",
        describe(ours),
        f"{describe(theirs)} (floor)",
        f"{ratio:.2f}x the requests a second",
        f"≥ {crowd.goal:.2f}x" if crowd.goal else "-",
        ratio >= crowd.goal if crowd.goal else None,
    )


def build_codex_row(with_codex: list[Rate], with_stand_in: list[Rate]) -> Row:
    real, quick = (statistics.median(rate.per_s for rate in each) for each in (with_codex, with_stand_in))
    return Row(
        f"{EIGHT.clients} clients, {EIGHT.what}, real codex",
        describe(with_codex),
        f"{describe(with_stand_in)} (gateway, stand-in)",
        f"{real / quick:.2f}x the requests a second",
    )


def build_frames_row(crowd: Crowd, ours: list[Rate], theirs: list[Rate]) -> Row:
    per_s, floor_per_s = (
        statistics.median(rate.per_s for rate in rates) * crowd.deltas for rates in (ours, theirs)
    )
    return Row(
        f"{crowd.clients} clients, {crowd.what}, frames a second",
        f"{per_s:,.0f}",
        f"{floor_per_s:,.0f} (floor)",
        f"{find_ratio(ours, theirs):.2f}x",
        f"≥ {FRAMES_GOAL:,}",
        per_s >= FRAMES_GOAL,
    )


def find_ratio(ours: list[Rate], theirs: list[Rate]) -> float:
    return statistics.median(mine.per_s / its.per_s for mine, its in zip(ours, theirs, strict=True))


def describe(rates: list[Rate]) -> str:
    """The round in the middle."""
    rate = sorted(rates, key=lambda rate: rate.per_s)[len(rates) // 2]
    clients_ms = rate.outcome.cpu_s * 1000 / len(rate.outcome.whole_s)
    cpu = f"CPU {rate.cpu_ms:.2f} ms (clients {clients_ms:.2f} ms)"
    return f"{rate.per_s:,.0f} requests/s, {rate.outcome.describe()}, {cpu}"
