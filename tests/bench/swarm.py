"""Many clients in one process of its own, so that they take as little as can be of the cores they share.

Each has a connection, and asks again as soon as it was answered. Run as `python -m tests.bench.swarm`.
"""

import json
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field

from tests.bench.load import DELTA

ROOT = pathlib.Path(__file__).parents[2]
WORD = DELTA.encode()
WITHIN_S = 120
HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(slots=True)
class Order:
    port: int
    path: str
    clients: int
    requests: int
    #: How many an answer must bring to be whole.
    deltas: int


@dataclass(slots=True)
class Outcome:
    took_s: float = 0.0
    #: Of the clients, all together.
    cpu_s: float = 0.0
    failed: int = 0
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return len(self.whole_s) / self.took_s

    def describe(self) -> str:
        first_ms, whole_ms = (statistics.median(times) * 1000 for times in (self.first_s, self.whole_s))
        return f"first token {first_ms:.1f} ms, whole {whole_ms:.1f} ms"


def send_swarm(order: Order, body: bytes) -> Outcome:
    """Have them ask, and wait until they are done."""
    command = [sys.executable, "-m", "tests.bench.swarm", json.dumps(asdict(order))]
    done = subprocess.run(command, input=body, stdout=subprocess.PIPE, cwd=ROOT, check=True, timeout=WITHIN_S)
    return Outcome(**json.loads(done.stdout))


class Visitor:
    """One client's connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pieces: list[bytes] = []
        self.size = 0
        #: The bytes of the whole answer, as far as its head tells them.
        self.length: int | None = None
        self.asked_s = self.first_s = 0.0

    def ask(self, request: bytes) -> None:
        self.pieces, self.size, self.length, self.first_s = [], 0, None, 0.0
        self.asked_s = time.perf_counter()
        self.socket.sendall(request)

    def hear(self) -> bool:
        """Read what came; true at the end of the answer."""
        piece = self.socket.recv(1 << 18)
        if not self.pieces:
            self.length = find_length(piece)
        if not self.first_s and WORD in piece:
            self.first_s = time.perf_counter() - self.asked_s
        self.pieces.append(piece)
        self.size += len(piece)
        return not piece or (self.size >= self.length if self.length else piece.endswith(LAST_CHUNK))

    def is_whole(self, deltas: int) -> bool:
        answer = b"".join(self.pieces)
        return answer.startswith(b"HTTP/1.1 200 ") and answer.count(WORD) >= deltas


def find_length(piece: bytes) -> int | None:
    head, _, _ = piece.lower().partition(HEAD_END)
    _, found, rest = head.partition(b"content-length: ")
    return len(head) + len(HEAD_END) + int(rest.partition(b"\r\n")[0]) if found else None


def swarm(order: Order, body: bytes) -> Outcome:
    head = f"POST {order.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    visitors = [Visitor(order.port) for _ in range(order.clients)]
    outcome = run(order, {visitor.socket.fileno(): visitor for visitor in visitors}, request)
    for visitor in visitors:
        visitor.socket.close()
    return outcome


def run(order: Order, visitors: dict[int, Visitor], request: bytes) -> Outcome:
    outcome, unsent = Outcome(), order.requests
    began_s, cpu_before_s = time.perf_counter(), time.process_time()
    with select.epoll() as watch:
        for fd, visitor in visitors.items():
            watch.register(fd, select.EPOLLIN)
            visitor.ask(request)
            unsent -= 1
        asking = len(visitors)
        while asking:
            for fd, _ in watch.poll(WITHIN_S):
                visitor = visitors[fd]
                if not visitor.hear():
                    continue
                note(visitor, order.deltas, outcome)
                if unsent > 0 and visitor.pieces[-1]:
                    unsent -= 1
                    visitor.ask(request)
                else:
                    watch.unregister(fd)
                    asking -= 1
    outcome.took_s, outcome.cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_before_s
    return outcome


def note(visitor: Visitor, deltas: int, outcome: Outcome) -> None:
    if visitor.is_whole(deltas):
        outcome.first_s.append(visitor.first_s)
        outcome.whole_s.append(time.perf_counter() - visitor.asked_s)
    else:
        outcome.failed += 1


if __name__ == "__main__":
    print(json.dumps(asdict(swarm(Order(**json.loads(sys.argv[1])), sys.stdin.buffer.read()))))
