"""Memory: the worker's over many requests, an idle codex process's own."""

import statistics
import time

from tests.bench.load import CHAT, Client, build_chat, build_script
from tests.bench.processes import read_cpu_s, read_private_mb, read_rss_mb
from tests.bench.servers import Server, wait_until
from tests.bench.table import Row
from tests.support.processes import find_children

FLAT_MB = 5
CODEX_MB = 24
# "about 24 MB": up to a tenth more
CODEX_LIMIT_MB = CODEX_MB * 1.1


def measure_worker(gateway: Server, model: str, requests: int) -> Row:
    """Resident memory after a tenth of so many requests, and after all of them on top."""
    client = Client(gateway.port)
    body = build_chat(model, build_script(1), stream=True)
    marks = []
    for count in (requests // 10, requests):
        for _ in range(count):
            client.post(CHAT, body)
        marks.append(read_rss_mb(gateway.worker_pid))
    first, second = marks
    return Row(
        f"worker memory after {requests // 10 + requests:,} requests",
        f"{second:.1f} MB",
        f"{first:.1f} MB (after {requests // 10:,})",
        f"{second - first:+.1f} MB",
        f"< +{FLAT_MB} MB",
        second - first < FLAT_MB,
    )


def measure_fresh_codex(gateway: Server) -> Row:
    wait_until(lambda: is_quiet(gateway))
    private_mb = statistics.mean(read_private_mb(pid) for pid in find_children(gateway.worker_pid))
    return Row(
        "private memory of an idle codex process, before its first turn",
        f"{private_mb:.1f} MB",
        goal=f"about {CODEX_MB} MB",
        met=private_mb <= CODEX_LIMIT_MB,
    )


def measure_used_codex(pid: int, turns: int) -> Row:
    what = f"private memory of an idle codex process, after {turns} turns"
    return Row(what, "-", f"{read_private_mb(pid):.1f} MB (bare pipe)")


def is_quiet(gateway: Server) -> bool:
    """Whether the processes are past their start: the same ones, without work for a second."""
    before = {pid: read_cpu_s(pid) for pid in find_children(gateway.worker_pid)}
    time.sleep(1)
    after = {pid: read_cpu_s(pid) for pid in find_children(gateway.worker_pid)}
    return before.keys() == after.keys() and sum(after.values()) - sum(before.values()) < 0.01
