"""What the kernel tells of a gateway: its workers, their memory and files, their codex processes."""

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import requests

from tests.bench.processes import read_rss_mb
from tests.support.gateway import Gateway
from tests.support.processes import ZOMBIE, find_children, is_running, is_zombie, read_stat

SAMPLE_EVERY_S = 1.0
EVERY_WORKER_WITHIN_S = 10.0
#: The two ends of its pipe.
FILES_OF_A_PROCESS = 2


class Birth(NamedTuple):
    """A process, and when it began, in the kernel's ticks."""

    pid: int
    at: str


@dataclass(frozen=True, slots=True)
class Worker:
    pid: int
    rss_mb: float
    #: Open ones, but for those of its codex processes.
    files: int
    codex: int
    zombies: int


@dataclass(frozen=True, slots=True)
class Census:
    at_s: float
    workers: tuple[Worker, ...]
    folders: int

    @property
    def codex(self) -> int:
        return sum(worker.codex for worker in self.workers)

    @property
    def zombies(self) -> int:
        return sum(worker.zombies for worker in self.workers)

    @property
    def files(self) -> int:
        """Of the worker that has most."""
        return max((worker.files for worker in self.workers), default=0)


def take_census(gateway: Gateway) -> Census:
    workers = [count_worker(pid) for pid in sorted(gateway.worker_pids)]
    folders = len(list((gateway.state_dir / "processes").glob("*")))
    return Census(time.monotonic(), tuple(worker for worker in workers if worker), folders)


def count_greenlets(gateway: Gateway) -> int:
    """Those of the worker that has most: each tells its own, whenever it takes the connection."""
    told: dict[int, int] = {}
    deadline_s = time.monotonic() + EVERY_WORKER_WITHIN_S
    while not told.keys() >= gateway.worker_pids and time.monotonic() < deadline_s:
        reply = requests.get(f"{gateway.base_url}/counts", headers={"connection": "close"}, timeout=10).json()
        told[reply["pid"]] = reply["greenlets"]
    return max(told.values())


def count_worker(pid: int) -> Worker | None:
    """Nothing, when it ended meanwhile."""
    try:
        children = find_children(pid)
        files = len(os.listdir(f"/proc/{pid}/fd")) - FILES_OF_A_PROCESS * len(children)
        running, zombies = sum(map(is_running, children)), sum(map(is_zombie, children))
        return Worker(pid, read_rss_mb(pid), files, running, zombies)
    except (OSError, IndexError):
        return None


def find_births(pids: Iterable[int]) -> set[Birth]:
    """The same number is soon another process's: when it was born tells them apart."""
    return {Birth(pid, fields[19]) for pid in pids if (fields := read_stat(pid))}


def is_alive(birth: Birth) -> bool:
    fields = read_stat(birth.pid)
    return bool(fields) and fields[19] == birth.at and fields[0] != ZOMBIE


class Observer:
    """Takes a census every second, and remembers every codex process that was ever there."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._observe, daemon=True)
        self.seen: list[Census] = []
        self.codex: set[Birth] = set()
        self._load_ended_s = float("inf")

    def start(self) -> None:
        self._thread.start()

    def note_end_of_load(self) -> None:
        self._load_ended_s = time.monotonic()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def look(self) -> Census:
        self.codex |= find_births(self._gateway.codex_pids)
        census = take_census(self._gateway)
        self.seen.append(census)
        return census

    def _observe(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            self.look()

    @property
    def most_codex(self) -> int:
        """The most that one worker ever had."""
        return max((worker.codex for census in self.seen for worker in census.workers), default=0)

    def find_memory(self) -> tuple[float, float]:
        """Of those still there the worker that worked longest: after a third of its work, and now."""
        lives: dict[int, list[tuple[float, float]]] = {}
        for census in self.seen:
            for worker in census.workers:
                lives.setdefault(worker.pid, []).append((census.at_s, worker.rss_mb))
        life = max((lives[worker.pid] for worker in self.seen[-1].workers), key=len, default=[(0.0, 0.0)])
        work = [rss_mb for at_s, rss_mb in life if at_s < self._load_ended_s] or [life[0][1]]
        return work[len(work) // 3], life[-1][1]
