"""`make bench`: what the gateway costs, beside its floor, as one table."""

import argparse
import contextlib
import pathlib
import platform
import shutil
import time
from importlib.metadata import version
from typing import NamedTuple

from tests.bench import (
    burst,
    cpu,
    first_token,
    growth,
    held,
    hot_paths,
    memory,
    throughput,
    tool_core,
    watched,
)
from tests.bench.cases import CASES, CODEX_CASES
from tests.bench.servers import (
    STATE,
    CodexGateways,
    Server,
    run_codex_gateway,
    run_codex_gateways,
    run_floor,
    run_model,
    run_stand_in_gateway,
)
from tests.bench.table import Row, render, replace_section
from tests.bench.throughput import Rate

STAND_IN_MODEL = "gpt-5.5"
CODEX_MODEL = "scripted-model"
QUICK = 0.1
PROFILE = "python -m tests.bench --profile"


def main() -> None:
    options = read_options()
    part = QUICK if options.quick else 1
    began_s = time.monotonic()
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(mode=0o700)
    try:
        result = profile(part, options.stacks) if options.profile else render(measure(part))
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
    text = f"{result}\n\n{describe_run(time.monotonic() - began_s, options.quick)}"
    print(text)
    if options.write:
        replace_section(options.write, text, PROFILE if options.profile else "make bench")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests: a look, not a measurement")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the table into this document")
    parser.add_argument("--profile", action="store_true", help="tell instead where the worker's time goes")
    parser.add_argument(
        "--stacks", type=pathlib.Path, metavar="FOLDER", help="and keep what it was seen doing"
    )
    return parser.parse_args()


def profile(part: float, folder: pathlib.Path | None) -> str:
    with run_stand_in_gateway("tests.bench.sampled:app") as gateway:
        return hot_paths.measure(gateway, STAND_IN_MODEL, part, folder)


def measure(part: float) -> list[Row]:
    """All rows; `part` scales how many requests stand behind each."""
    with run_floor() as floor:
        # First what shares the cores: the rest has them set apart, and what is started then as well.
        with run_model() as port:
            burst_rows = measure_burst(port, part)
            with run_codex_gateways(port) as gateways:
                codex = measure_codex(gateways, floor, part)
        with run_stand_in_gateway() as gateway:
            flat = memory.measure_worker(gateway, STAND_IN_MODEL, round(2000 * part))
            cpu_rows = measure_cpu(gateway, floor, part)
        crowd_rows = measure_crowds(floor, part, codex.rates)
    core_rows = tool_core.measure(part)
    return [
        *(*codex.first_rows, *burst_rows, *crowd_rows),
        *(*cpu_rows, *codex.cpu_rows, flat, *codex.memory_rows, *core_rows),
    ]


def measure_burst(model_port: int, part: float) -> list[Row]:
    limit = max(round(16 * part), 4)
    with run_codex_gateway(model_port, "burst", PROXY_MAX_PROCESSES=str(limit)) as gateway:
        return burst.measure(gateway, CODEX_MODEL, round(50 * part))


class CodexResult(NamedTuple):
    """What was measured with the real binary."""

    first_rows: list[Row]
    cpu_rows: list[Row]
    memory_rows: list[Row]
    rates: list[Rate]


def measure_codex(gateways: CodexGateways, floor: Server, part: float) -> CodexResult:
    warm = gateways.warm
    fresh = memory.measure_fresh_codex(warm)
    first_rows, used = first_token.compare(gateways, CODEX_MODEL, max(round(60 * part), 15))
    first_rows.append(first_token.compare_tools(warm, CODEX_MODEL, round(100 * part)))
    first_rows.append(first_token.compare_storing(warm, CODEX_MODEL, round(300 * part)))
    cpu_rows = [cpu.compare(case, CODEX_MODEL, warm, floor, part) for case in CODEX_CASES]
    rates = throughput.measure_codex(warm, CODEX_MODEL, part)
    return CodexResult(first_rows, cpu_rows, [fresh, used], rates)


def measure_cpu(gateway: Server, floor: Server, part: float) -> list[Row]:
    with run_stand_in_gateway(PROXY_PARK_TURNS="false", PROXY_STATE_DIR=str(STATE / "calling")) as calling:
        return [
            *growth.measure_deltas(gateway, floor, STAND_IN_MODEL, part),
            *(cpu.compare(case, STAND_IN_MODEL, gateway, floor, part) for case in CASES),
            *growth.measure_histories(gateway, floor, STAND_IN_MODEL, part),
            *growth.measure_arguments(calling, floor, STAND_IN_MODEL, part),
            watched.compare(gateway, STAND_IN_MODEL, part),
        ]


def measure_crowds(floor: Server, part: float, codex_rates: list[Rate]) -> list[Row]:
    held_s = max(round(10 * part), 2)
    with run_crowd_gateway(128) as gateway:
        rows = [
            *throughput.measure(gateway, floor, STAND_IN_MODEL, part, codex_rates),
            *held.measure(gateway, floor, STAND_IN_MODEL, 100, held_s),
        ]
    streams = max(round(500 * part), 150)
    with run_crowd_gateway(streams + 12) as gateway:
        return [*rows, *held.measure(gateway, floor, STAND_IN_MODEL, streams, held_s)]


def run_crowd_gateway(processes: int) -> contextlib.AbstractContextManager[Server]:
    # All warm before the clock runs, and no room for more: none is started while it does. Whoever waits for
    # others to begin waits as long as it takes.
    limits = dict.fromkeys(("PROXY_MAX_PROCESSES", "PROXY_WARM_PROCESSES", "PROXY_MAX_QUEUE"), str(processes))
    return run_stand_in_gateway(**limits, PROXY_QUEUE_TIMEOUT_MS="60000")


def describe_run(took_s: float, quick: bool) -> str:
    parts = ", ".join(f"{name} {version(name)}" for name in ("gunicorn", "gevent", "flask"))
    how = " `--quick`: too few requests to quote." if quick else ""
    return (
        f"{read_cpu_model()}, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"{parts}, codex {version('openai-codex-cli-bin')}; {took_s:.0f} s.{how}"
    )


def read_cpu_model() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


if __name__ == "__main__":
    main()
