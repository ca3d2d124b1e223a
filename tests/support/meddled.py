"""A gateway whose codex processes are meddled with: plans for them, and what is left of it all afterwards."""

import json
import os
import pathlib
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests

from tests.support.gateway import ROOT, SERVE_COUNTED, Gateway, run_gateway, wait_until
from tests.support.processes import find_children, is_running

Counts = dict[str, int]
Plan = dict[str, Any]
#: A process that ignores everything is given two seconds, and a keeper that failed looks again a while later.
RECOVERY_S = 15


def when(do: str, argument: Any = None, **moment: Any) -> Plan:
    """A plan, as tests/support/meddler.py reads it."""
    return {"do": do, "with": argument, **moment}


class Meddled:
    """One gateway for many faults: a plan is for whichever process comes to its moment first."""

    def __init__(self, gateway: Gateway, folder: pathlib.Path, warm: int) -> None:
        self.gateway = gateway
        #: What the worker held when all was well.
        self.before: Counts = {}
        self._warm = warm
        self._folder = folder
        self._plan = folder / "plan.json"

    @contextmanager
    def arm(self, plan: Plan) -> Iterator[None]:
        """Have a plan carried out within this block."""
        for note in (*self._folder.glob("struck-*"), *self._folder.glob("answers-*")):
            note.unlink()
        whole = self._folder / "next.json"
        whole.write_text(json.dumps(plan))
        whole.rename(self._plan)
        try:
            yield
        finally:
            self._plan.unlink(missing_ok=True)

    @property
    def struck(self) -> set[int]:
        """The processes that have struck since the last plan."""
        return {int(note.name.partition("-")[2]) for note in self._folder.glob("struck-*")}

    def read_lines(self, pid: int) -> list[str]:
        """What codex said in this process, as names."""
        note = self._folder / f"lines-{pid}"
        return note.read_text().split() if note.exists() else []

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What the gateway has answered to questions of the meddler's own since the last plan."""
        notes = [note.read_text() for note in self._folder.glob("answers-*")]
        return [json.loads(line) for note in notes for line in note.splitlines()]

    def find_inside(self, said: str) -> int | None:
        """A process whose turn goes on, and has said this."""
        turns = {pid: read_turn(self.read_lines(pid)) for pid in self.gateway.codex_pids}
        return next((pid for pid, lines in turns.items() if said in lines), None)

    def kill_codex(self, pid: int) -> None:
        """As the kernel does for want of memory: codex itself, from behind the meddler."""
        for codex in find_children(pid):
            os.kill(codex, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))

    def count(self) -> Counts:
        counted: Counts = requests.get(f"{self.gateway.base_url}/counts", timeout=10).json()
        return counted

    def forget_peak(self) -> None:
        """Measure the worker's memory from here on."""
        [worker] = self.gateway.worker_pids
        pathlib.Path(f"/proc/{worker}/clear_refs").write_text("5")

    def read_peak_mb(self) -> int:
        [worker] = self.gateway.worker_pids
        status = pathlib.Path(f"/proc/{worker}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    def settle(self) -> Counts:
        """What the worker holds once its pool is full and nothing else runs."""
        wait_until(self.is_full, RECOVERY_S)
        return self.count()

    def is_full(self) -> bool:
        """As many processes as are to be warm, nobody inside a turn, and nobody of the past."""
        pids = self.gateway.codex_pids
        behind = {codex for pid in pids for codex in find_children(pid)}
        if len(pids) != self._warm or find_everyone(self.gateway.state_dir) != pids | behind:
            return False
        return len(behind) == self._warm and all(map(self._is_idle, pids))

    def _is_idle(self, pid: int) -> bool:
        lines = self.read_lines(pid)
        return "account/read" in lines and not read_turn(lines)

    def has_recovered(self) -> bool:
        return self.is_full() and all(now <= self.before[name] for name, now in self.count().items())


def read_turn(lines: list[str]) -> list[str]:
    """What was said in the last turn; nothing, once it has ended."""
    if lines.count("turn/start") <= lines.count("turn/completed"):
        return []
    return lines[len(lines) - 1 - lines[::-1].index("turn/start") :]


def find_everyone(state_dir: pathlib.Path) -> set[int]:
    """Every process that runs with this gateway's CODEX_HOME, whoever is its parent by now."""
    mark = f"CODEX_HOME={state_dir}/".encode()
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if has_mark(pid, mark)}


def has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes() and is_running(pid)
    except OSError:
        return False


def write_meddler(path: pathlib.Path, command: Sequence[str]) -> str:
    """A codex binary with a meddler before it, as a path for CODEX_BIN."""
    path.mkdir()
    config = shlex.quote(json.dumps({"command": [*command], "folder": str(path)}))
    run = shlex.join([sys.executable, "-I", "-S", str(ROOT / "tests" / "support" / "meddler.py")])
    binary = path / "codex"
    binary.write_text(f'#!/bin/sh\nMEDDLER={config} exec {run} "$@"\n')
    binary.chmod(0o755)
    return str(binary)


@contextmanager
def run_meddled(folder: pathlib.Path, command: Sequence[str], **environ: str) -> Iterator[Meddled]:
    path = folder / "meddler"
    binary = write_meddler(path, command)
    with run_gateway(folder, command=SERVE_COUNTED, ready=False, CODEX_BIN=binary, **environ) as gateway:
        gateway.wait_listening()
        yield Meddled(gateway, path, int(environ["PROXY_WARM_PROCESSES"]))
