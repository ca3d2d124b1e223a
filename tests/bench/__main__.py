"""`make bench`: what the gateway costs, beside its floor, as one table."""

import argparse
import pathlib
import platform
import shutil
import time
from importlib.metadata import version

from tests.bench import cpu, first_token, memory, tool_core
from tests.bench.servers import STATE, Server, run_codex_gateway, run_floor, run_stand_in_gateway
from tests.bench.table import Row, render, replace_section

STAND_IN_MODEL = "gpt-5.5"
CODEX_MODEL = "scripted-model"
QUICK = 0.1


def main() -> None:
    options = read_options()
    began_s = time.monotonic()
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(mode=0o700)
    try:
        rows = measure(QUICK if options.quick else 1)
    finally:
        shutil.rmtree(STATE, ignore_errors=True)
    text = f"{render(rows)}\n\n{describe_run(time.monotonic() - began_s, options.quick)}"
    print(text)
    if options.write:
        replace_section(options.write, text)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests: a look, not a measurement")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the table into this document")
    return parser.parse_args()


def measure(part: float) -> list[Row]:
    """All rows; `part` scales how many requests stand behind each."""
    with run_floor() as floor:
        with run_codex_gateway() as gateway:
            codex_rows = measure_codex(gateway, floor, part)
        with run_stand_in_gateway() as gateway:
            flat = memory.measure_worker(gateway, STAND_IN_MODEL, round(2000 * part))
            cpu_rows = [cpu.compare(case, STAND_IN_MODEL, gateway, floor, part) for case in cpu.CASES]
    first, ahead, tools, storing, *codex_cpu_rows, fresh, used = codex_rows
    core_rows = tool_core.measure(part)
    return [first, ahead, tools, storing, *cpu_rows, *codex_cpu_rows, flat, fresh, used, *core_rows]


def measure_codex(gateway: Server, floor: Server, part: float) -> list[Row]:
    fresh = memory.measure_fresh_codex(gateway)
    first, ahead, used = first_token.compare(gateway, CODEX_MODEL, round(100 * part))
    tools = first_token.compare_tools(gateway, CODEX_MODEL, round(100 * part))
    storing = first_token.compare_storing(gateway, CODEX_MODEL, round(300 * part))
    cpu_rows = [cpu.compare(case, CODEX_MODEL, gateway, floor, part) for case in cpu.CODEX_CASES]
    return [first, ahead, tools, storing, *cpu_rows, fresh, used]


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
