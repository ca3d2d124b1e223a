"""Many streams held open at a slow pace: the worker's share of a core, and its memory."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.cpu import ask_once, teach_floor
from tests.bench.load import CHAT, build_chat, build_script
from tests.bench.processes import read_peak_mb, read_rss_mb, read_settled_cpu_s, set_apart
from tests.bench.servers import Server
from tests.bench.swarm import Order, send_swarm
from tests.bench.table import Row

FRAMES_PER_S = 10
#: Of a core, for as many streams.
GOALS = {100: 0.6}
MEMORY_GOAL_MB = 150


class Held(NamedTuple):
    streams: int
    #: Those that brought every frame.
    whole: int
    cpu_share: float
    slowest_s: float

    def describe(self) -> str:
        words = f"{self.whole} of {self.streams} whole, {self.slowest_s:.1f} s"
        return f"{self.cpu_share:.0%} of a core; {words}"


def measure(gateway: Server, floor: Server, model: str, streams: int, held_s: int) -> Iterator[Row]:
    """As many streams, as long and at the same pace, of the gateway and of the floor."""
    goal = GOALS.get(streams, 1.0)
    deltas, pause_s = held_s * FRAMES_PER_S, 1 / FRAMES_PER_S
    answer = ask_once(gateway, CHAT, build_chat(model, build_script(deltas), stream=True))
    floor_path, _ = teach_floor(floor, answer, deltas, pause_s)
    body = build_chat(model, build_script(deltas, pause_s=pause_s), stream=True)
    idle_mb = read_rss_mb(gateway.worker_pid)
    ours = hold(gateway, Order(gateway.port, CHAT, streams, streams, deltas), body)
    theirs = hold(floor, Order(floor.port, floor_path, streams, streams, deltas), body)
    yield Row(
        f"worker CPU, {streams} streams held, {FRAMES_PER_S} frames/s each",
        ours.describe(),
        f"{theirs.describe()} (floor)",
        f"{ours.cpu_share / theirs.cpu_share:.2f}x",
        f"< {goal:.0%} of a core, all whole",
        ours.whole == streams and ours.cpu_share < goal,
    )
    peak_mb = read_peak_mb(gateway.worker_pid)
    yield Row(
        f"worker memory at its most, {streams} streams held",
        f"{peak_mb:.1f} MB",
        f"{idle_mb:.1f} MB (before them)",
        f"{peak_mb - idle_mb:+.1f} MB",
        goal=f"< {MEMORY_GOAL_MB} MB",
        met=peak_mb < MEMORY_GOAL_MB,
    )


def hold(server: Server, order: Order, body: bytes) -> Held:
    """From the first request to the last frame."""
    set_apart(server.worker_pid)
    before_s = read_settled_cpu_s(server.worker_pid)
    outcome = send_swarm(order, body)
    cpu_s = read_settled_cpu_s(server.worker_pid) - before_s
    slowest_s = max(outcome.whole_s, default=0)
    return Held(order.clients, len(outcome.whole_s), cpu_s / outcome.took_s, slowest_s)
