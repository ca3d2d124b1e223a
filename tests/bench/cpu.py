"""CPU of the worker per request, gateway and floor in turns."""

import contextlib
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.bench.cases import Case
from tests.bench.load import Client
from tests.bench.processes import read_settled_cpu_s, set_apart
from tests.bench.servers import Server
from tests.bench.table import Row

ROUNDS = 9


class Cost(NamedTuple):
    """Milliseconds of CPU for a request."""

    ours_ms: float
    floor_ms: float
    ratio: float
    #: Of a stream; nothing of a body.
    frames: int


def compare(case: Case, model: str, gateway: Server, floor: Server, part: float) -> Row:
    return build_row(case, measure(case, model, gateway, floor, part))


def measure(case: Case, model: str, gateway: Server, floor: Server, part: float) -> Cost:
    """Run the rounds in turns; the ratio is the median of the rounds' ratios."""
    requests = max(round(case.requests * part), 2)
    body = case.build(model)
    floor_path, frames = teach_floor(floor, ask_once(gateway, case.path, body), case.deltas, case.pause_s)
    with (
        open_load(gateway, case.path, body) as run_gateway,
        open_load(floor, floor_path, body) as run_floor,
    ):
        run_gateway(3)
        run_floor(3)
        rounds = [(run_gateway(requests), run_floor(requests)) for _ in range(max(round(ROUNDS * part), 3))]
    ours, theirs = zip(*rounds, strict=True)
    ratio = statistics.median(mine / its for mine, its in rounds)
    return Cost(statistics.median(ours), statistics.median(theirs), ratio, frames)


def ask_once(server: Server, path: str, body: bytes) -> bytes:
    with contextlib.closing(Client(server.port)) as client:
        return client.post(path, body).data


def teach_floor(floor: Server, answer: bytes, deltas: int = 1, pause_s: float = 0.0) -> tuple[str, int]:
    """Have the floor know an answer of the gateway's; the path where it gives it, and a stream's frames."""
    name = ask_once(floor, "/learn", answer).decode()
    if answer.startswith(b"{"):
        return f"/body/{name}", 0
    frames = answer.count(b"\n\n")
    if frames < deltas:
        raise RuntimeError(f"{deltas} deltas came as {frames} frames: no measure for the floor")
    return f"/stream/{name}/{pause_s:f}", frames


@contextlib.contextmanager
def open_load(server: Server, path: str, body: bytes) -> Iterator[Callable[[int], float]]:
    client = Client(server.port)

    def run(requests: int) -> float:
        """Send so many, one after the other; the worker's CPU milliseconds for each."""
        set_apart(server.worker_pid)
        before_s = read_settled_cpu_s(server.worker_pid)
        for _ in range(requests):
            client.post(path, body)
        return (read_settled_cpu_s(server.worker_pid) - before_s) * 1000 / requests

    with contextlib.closing(client):
        yield run


def build_row(case: Case, cost: Cost) -> Row:
    frames = cost.frames if case.deltas else 0
    return Row(
        f"worker CPU, {case.what}",
        describe(cost.ours_ms, frames),
        f"{describe(cost.floor_ms, frames)} (floor)",
        f"{cost.ratio:.2f}x",
        f"≤ {case.goal:.1f}x" if case.goal else "-",
        cost.ratio <= case.goal if case.goal else None,
    )


def describe(request_ms: float, frames: int) -> str:
    return f"{request_ms:.2f} ms" + (f", {request_ms / frames:.3f} ms a frame" if frames else "")
