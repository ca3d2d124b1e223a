"""What it costs the API that somebody watches: the same requests with the live view open and without."""

import contextlib
import http.client
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

from tests.bench.cpu import ROUNDS, open_load
from tests.bench.load import CHAT, build_chat, build_script
from tests.bench.processes import read_settled_cpu_s
from tests.bench.servers import Server
from tests.bench.table import Row

#: Long enough for the view to be told a few times meanwhile.
REQUESTS = 500
GOAL = 1.05


def compare(gateway: Server, model: str, part: float) -> Row:
    rounds = measure(gateway, model, max(round(REQUESTS * part), 50), ROUNDS)
    watched_ms, alone_ms = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratio = find_ratio(rounds)
    return Row(
        "worker CPU, one-delta stream, the live view open",
        f"{watched_ms:.2f} ms",
        f"{alone_ms:.2f} ms (gateway, nobody watching)",
        f"{ratio:.2f}x",
        f"≤ {GOAL:.2f}x",
        ratio <= GOAL,
    )


def measure(gateway: Server, model: str, requests: int, rounds: int) -> list[tuple[float, float]]:
    """The worker's CPU milliseconds for a request, watched and alone, in turns."""
    with open_load(gateway, CHAT, build_chat(model, build_script(1), stream=True)) as run:
        run(requests)
        return [(run_watched(gateway, run, requests), run(requests)) for _ in range(rounds)]


def measure_looks(gateway: Server, period_s: float) -> tuple[float, float]:
    """The worker's CPU milliseconds for a second in which nobody asks for anything, watched and alone."""

    def wait(_: int) -> float:
        before_s = read_settled_cpu_s(gateway.worker_pid)
        time.sleep(period_s)
        return (read_settled_cpu_s(gateway.worker_pid) - before_s) * 1000 / period_s

    return run_watched(gateway, wait, 0), wait(0)


def find_ratio(rounds: list[tuple[float, float]]) -> float:
    return statistics.median(watched / alone for watched, alone in rounds)


def run_watched(gateway: Server, run: Callable[[int], float], requests: int) -> float:
    with watch(gateway.port):
        return run(requests)


@contextlib.contextmanager
def watch(port: int) -> Iterator[None]:
    """Read the live view as the page does, until it has been told and beyond."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/ui/live")
    response = connection.getresponse()
    told = threading.Event()
    reader = threading.Thread(target=read_on, args=(response, told))
    reader.start()
    try:
        if response.status != 200 or not told.wait(10):
            raise RuntimeError(f"/ui/live answered {response.status}, and told nothing")
        yield
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        reader.join(10)
        response.close()
        connection.close()


def read_on(response: http.client.HTTPResponse, told: threading.Event) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        while piece := response.read1(1 << 16):
            if b'"type":"now"' in piece:
                told.set()
