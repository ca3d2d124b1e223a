"""What the machine allows, against what the gateway may come to need."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import resource
from collections.abc import Iterable, Iterator

from app.doctor.findings import Finding, format_bytes, note, ok, wrong
from app.doctor.patient import Patient

LIMITS = "limits"

#: As config/gunicorn.conf.py has them.
WORKER_CONNECTIONS = 2000
MOST_FILES = 8192
#: What a worker has open beside its connections and processes: logs, locks, the store.
OWN_FILES = 100
PROCESS_FILES = 3
PROCESS_BYTES = 24_000_000
#: A worker's own, about.
WORKER_BYTES = 100_000_000
#: Threads count as processes; codex has about so many, and one for each core.
PROCESS_THREADS = 24
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def check_limits(patient: Patient) -> list[Finding]:
    settings = patient.settings
    processes = settings.max_processes * settings.workers
    memory = read_memory()
    threads = min([*read_limits("pids", "pids.max"), read_soft(resource.RLIMIT_NPROC)])
    return [
        judge_files(read_files(), settings.max_processes),
        judge_memory(memory, processes * PROCESS_BYTES + settings.workers * WORKER_BYTES, processes),
        judge_threads(threads, processes, PROCESS_THREADS + (os.cpu_count() or 1)),
    ]


def judge_files(allowed: float, processes: int) -> Finding:
    """Of one worker; connections are the most, and seldom all there."""
    least = OWN_FILES + PROCESS_FILES * processes
    wanted = least + WORKER_CONNECTIONS
    if allowed >= wanted:
        return ok(LIMITS, f"{describe(allowed)} open files, {wanted:,} are wanted")
    advice = f"`ulimit -n {wanted}`, or LimitNOFILE={wanted} in the service"
    if allowed >= 2 * least:
        places = f"{allowed - least:,.0f} of {WORKER_CONNECTIONS:,} connections"
        return note(LIMITS, f"{describe(allowed)} open files are enough for {places} of a worker: {advice}")
    return wrong(LIMITS, f"{describe(allowed)} open files are too few for {processes} processes: {advice}")


def judge_memory(memory: tuple[float, float], wanted: int, processes: int) -> Finding:
    available, total = memory
    text = f"{processes} codex processes may take {format_bytes(wanted)}"
    advice = "set PROXY_MAX_PROCESSES or WEB_CONCURRENCY lower"
    if wanted > total:
        return wrong(LIMITS, f"{text}, and there are {format_bytes(int(total))} of memory: {advice}")
    if wanted > available:
        return note(
            LIMITS, f"{text}, and {format_bytes(int(available))} of memory are available now: {advice}"
        )
    return ok(LIMITS, f"{text} of {format_bytes(int(available))} of available memory")


def judge_threads(allowed: float, processes: int, each: int) -> Finding:
    wanted = processes * each
    if allowed >= wanted:
        return ok(LIMITS, f"{describe(allowed)} processes and threads, {wanted:,} are wanted")
    advice = f"TasksMax={wanted} in the service, `ulimit -u {wanted}`, or a lower PROXY_MAX_PROCESSES"
    return wrong(
        LIMITS,
        f"{describe(allowed)} processes and threads are too few for {processes} codex processes: {advice}",
    )


def describe(allowed: float) -> str:
    return "any number of" if math.isinf(allowed) else f"{allowed:,.0f}"


def read_soft(kind: int) -> float:
    soft, _ = resource.getrlimit(kind)
    return math.inf if soft == resource.RLIM_INFINITY else soft


def read_files() -> float:
    """As many as the server takes for itself when it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(read_soft(resource.RLIMIT_NOFILE), min(hard, MOST_FILES))


def read_memory() -> tuple[float, float]:
    """Available and in all, in bytes."""
    table = parse_meminfo(pathlib.Path("/proc/meminfo").read_text("ascii"))
    most = min(
        [*read_limits("memory", "memory.max"), *read_limits("memory", "memory.limit_in_bytes"), math.inf]
    )
    return min(table["MemAvailable"], most), min(table["MemTotal"], most)


def parse_meminfo(text: str) -> dict[str, float]:
    rows = (line.partition(":") for line in text.splitlines())
    return {name: float(amount.split()[0]) * 1024 for name, _, amount in rows if amount.endswith("kB")}


def read_limits(controller: str, name: str) -> list[float]:
    """What the control groups around us allow; nothing where they do not tell."""
    try:
        groups = pathlib.Path("/proc/self/cgroup").read_text("utf-8")
    except OSError:
        return []
    return list(read_numbers(path / name for path in find_groups(groups, controller)))


def find_groups(text: str, controller: str) -> Iterator[pathlib.Path]:
    """Our group and those around it, in the one hierarchy of today or the controller's own of before."""
    for line in text.splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            root = CGROUPS / controllers if controllers else CGROUPS
            inner = root / place.lstrip("/")
            yield from (path for path in (inner, *inner.parents) if path.is_relative_to(root))


def read_numbers(paths: Iterable[pathlib.Path]) -> Iterator[float]:
    for path in paths:
        with contextlib.suppress(OSError, ValueError):  # not there, not ours to read, or the word `max`
            yield float(int(path.read_text("ascii")))
