"""Many streams held open at a slow pace: the share of a core that the worker takes for them."""

import time
from typing import NamedTuple

from tests.bench.cpu import CHAT
from tests.bench.crowd import ask_at_once
from tests.bench.load import DELTA, Reply, build_chat, build_script
from tests.bench.processes import read_cpu_s, set_apart
from tests.bench.servers import Server
from tests.bench.table import Row

FRAMES_PER_S = 10
GOAL = 0.6


class Held(NamedTuple):
    streams: int
    #: Those that brought every frame.
    whole: int
    cpu_share: float
    slowest_s: float

    def describe(self) -> str:
        words = f"{self.whole} of {self.streams} whole, {self.slowest_s:.1f} s"
        return f"{self.cpu_share:.0%} of a core; {words}"


def compare(gateway: Server, floor: Server, model: str, streams: int, held_s: int) -> Row:
    """As many streams, as long and at the same pace, of the gateway and of the floor."""
    deltas, pause_s = held_s * FRAMES_PER_S, 1 / FRAMES_PER_S
    body = build_chat(model, build_script(deltas, pause_s=pause_s), stream=True)
    ours = hold(gateway, CHAT, [body] * streams, deltas)
    theirs = hold(floor, f"/stream/{deltas}/{pause_s}", [body] * streams, deltas)
    return Row(
        f"worker CPU, {streams} streams held, {FRAMES_PER_S} frames/s each",
        ours.describe(),
        f"{theirs.describe()} (floor)",
        f"{ours.cpu_share / theirs.cpu_share:.2f}x",
        f"< {GOAL:.0%} of a core, all whole",
        ours.cpu_share < GOAL and ours.whole == streams,
    )


def hold(server: Server, path: str, bodies: list[bytes], deltas: int) -> Held:
    """From the first request to the last frame."""
    set_apart(server.worker_pid)
    began_s, cpu_before_s = time.monotonic(), read_cpu_s(server.worker_pid)
    replies = ask_at_once(server, path, bodies)
    cpu_s, took_s = read_cpu_s(server.worker_pid) - cpu_before_s, time.monotonic() - began_s
    whole = [reply for reply in replies if reply and is_whole(reply, deltas)]
    return Held(len(bodies), len(whole), cpu_s / took_s, max((reply.took_s for reply in whole), default=0))


def is_whole(reply: Reply, deltas: int) -> bool:
    return reply.data.count(DELTA.encode()) == deltas and reply.data.endswith(b"data: [DONE]\n\n")
