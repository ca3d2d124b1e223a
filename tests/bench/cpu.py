"""CPU of the worker per request, gateway and floor in turns."""

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench.load import FRAMES_AROUND, Client, build_chat, build_script
from tests.bench.processes import read_cpu_s, set_apart
from tests.bench.servers import Server
from tests.bench.table import Row

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request, and how often it is sent in a round."""

    what: str
    deltas: int
    requests: int
    pause_s: float = 0.0
    is_stream: bool = True
    goal: float | None = None

    @property
    def floor_path(self) -> str:
        return f"/stream/{self.deltas}/{self.pause_s}" if self.is_stream else "/body"

    def build_request(self, model: str) -> bytes:
        options = {"pause_s": self.pause_s} if self.pause_s else {}
        return build_chat(model, build_script(self.deltas, **options), self.is_stream)


# A hundred a round: as many turns as a codex process serves, so that each round pays for one replacement.
CASES = (
    Case("one-delta stream", 1, 100, goal=2.0),
    Case("100-delta stream, ready together", 100, 100, goal=1.2),
    Case("100-delta stream, 1 ms apart (floor too)", 100, 8, pause_s=0.001),
    Case("1,000-delta stream, ready together", 1000, 20),
    Case("non-stream, one delta", 1, 100, is_stream=False),
)
CODEX_CASES = (
    Case("one-delta stream, real codex", 1, 50),
    Case("100-delta stream, real codex", 100, 20),
)


def compare(case: Case, model: str, gateway: Server, floor: Server, part: float) -> Row:
    """Run the rounds in turns; the ratio is the median of the rounds' ratios."""
    requests = max(round(case.requests * part), 4)
    body = case.build_request(model)
    with open_load(gateway, CHAT, body) as run_gateway, open_load(floor, case.floor_path, body) as run_floor:
        run_gateway(3)
        run_floor(3)
        rounds = [(run_gateway(requests), run_floor(requests)) for _ in range(ROUNDS)]
    ratio = statistics.median(ours / theirs for ours, theirs in rounds)
    return Row(
        f"worker CPU, {case.what}",
        describe(case, statistics.median(ours for ours, _ in rounds)),
        describe(case, statistics.median(theirs for _, theirs in rounds)) + " (floor)",
        f"{ratio:.2f}x",
        f"≤ {case.goal:.1f}x" if case.goal else "-",
        ratio <= case.goal if case.goal else None,
    )


@contextlib.contextmanager
def open_load(server: Server, path: str, body: bytes) -> Iterator[Callable[[int], float]]:
    client = Client(server.port)

    def run(requests: int) -> float:
        """Send so many, one after the other; the worker's CPU milliseconds for each."""
        set_apart(server.worker_pid)
        before_s = read_cpu_s(server.worker_pid)
        for _ in range(requests):
            client.post(path, body)
        return (read_cpu_s(server.worker_pid) - before_s) * 1000 / requests

    with contextlib.closing(client):
        yield run


def describe(case: Case, request_ms: float) -> str:
    if not case.is_stream:
        return f"{request_ms:.2f} ms"
    return f"{request_ms:.2f} ms, {request_ms / (case.deltas + FRAMES_AROUND):.3f} ms a frame"
