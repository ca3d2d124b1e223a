"""What the kernel tells about another process, and where it lets one run."""

import contextlib
import os
import pathlib
import time

from tests.support.processes import PROC, find_children, read_stat

RUNNING = "R"
SETTLED_WITHIN_S, LOOK_AGAIN_S = 1.0, 0.001
CORES = sorted(os.sched_getaffinity(0))


def read_cpu_s(pid: int) -> float:
    """User and system time of all threads: utime + stime of /proc/PID/stat, without its 10 ms grain."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python does not offer


def read_settled_cpu_s(pid: int) -> float:
    """The same, once the process has nothing to do.

    The clock of a process that runs on another core lags by up to a tick: what it used since then is added
    when it stops. A worker that gave an answer tidies up behind it, and a round may be no longer than a tick.
    """
    deadline_s = time.monotonic() + SETTLED_WITHIN_S
    while read_stat(pid)[:1] == [RUNNING] and time.monotonic() < deadline_s:
        time.sleep(LOOK_AGAIN_S)
    return read_cpu_s(pid)


def read_rss_mb(pid: int) -> float:
    return _sum_kb(PROC / str(pid) / "status", ("VmRSS:",)) / 1024


def read_peak_mb(pid: int) -> float:
    """The most resident memory that it ever had."""
    return _sum_kb(PROC / str(pid) / "status", ("VmHWM:",)) / 1024


def read_private_mb(pid: int) -> float:
    """What the process has for itself; the pages of the binary that several processes map are not in it."""
    return _sum_kb(PROC / str(pid) / "smaps_rollup", ("Private_Clean:", "Private_Dirty:")) / 1024


def set_apart(worker_pid: int) -> None:
    """Give the worker a core to itself, and the client and the worker's children the others."""
    if len(CORES) < 2:
        return
    os.sched_setaffinity(worker_pid, CORES[:1])
    for pid in (os.getpid(), *find_children(worker_pid)):
        for thread in PROC.glob(f"{pid}/task/*"):
            with contextlib.suppress(ProcessLookupError):  # it may have ended
                os.sched_setaffinity(int(thread.name), CORES[1:])


def _sum_kb(path: pathlib.Path, names: tuple[str, ...]) -> int:
    lines = (line.split() for line in path.read_text().splitlines())
    return sum(int(words[1]) for words in lines if words[0] in names)
