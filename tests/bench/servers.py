"""The servers under test, each on a port of its own: gateway and floor on one gunicorn configuration."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench.load import Client
from tests.bench.processes import CORES
from tests.bench.recording import install_quick_codex
from tests.support.processes import find_children

ROOT = pathlib.Path(__file__).parents[2]
STATE = ROOT / ".bench-state"
GUNICORN = ["-m", "gunicorn", "-c", str(ROOT / "config" / "gunicorn.conf.py")]
# Hundreds of stand-ins are as many interpreters to start, one after the other.
WARM_WITHIN_S = 120
#: By the names of CodexGateways.
CODEX_SETTINGS = {
    "warm": {},
    "parking": {},
    "replaying": {"PROXY_PARK_TURNS": "false"},
    "following": {},
    # No process waits, and none serves twice: every request starts its own.
    "cold": {"PROXY_WARM_PROCESSES": "0", "PROXY_PROCESS_MAX_TURNS": "1"},
}
PROVIDER = """
model = "scripted-model"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    worker_pid: int
    environment: dict[str, str]


@contextlib.contextmanager
def run_floor() -> Iterator[Server]:
    with run_gunicorn("tests.bench.floor:app", {"PROXY_STATE_DIR": str(STATE / "floor")}) as server:
        yield server


@contextlib.contextmanager
def run_stand_in_gateway(app: str = "wsgi:app", **settings: str) -> Iterator[Server]:
    binary = install_quick_codex(STATE, CORES[1:])
    environment = {"CODEX_BIN": str(binary), "PROXY_STATE_DIR": str(STATE / "stand-in"), **settings}
    with run_gunicorn(app, environment) as server:
        wait_until(lambda: is_warm(server), WARM_WITHIN_S)
        yield server


@dataclass(frozen=True, slots=True)
class CodexGateways:
    """What the ways to a first token need, each on a gateway whose processes know nothing else."""

    warm: Server
    parking: Server
    replaying: Server
    following: Server
    cold: Server


@contextlib.contextmanager
def run_codex_gateways(model_port: int) -> Iterator[CodexGateways]:
    with contextlib.ExitStack() as stack:
        yield CodexGateways(
            *(
                stack.enter_context(run_codex_gateway(model_port, name, **settings))
                for name, settings in CODEX_SETTINGS.items()
            )
        )


@contextlib.contextmanager
def run_codex_gateway(model_port: int, name: str, **settings: str) -> Iterator[Server]:
    """The real binary, with the scripted model behind it."""
    config = STATE / "provider.toml"
    config.write_text(PROVIDER.format(port=model_port))
    environment = {"PROXY_CODEX_CONFIG_FILE": str(config), "PROXY_STATE_DIR": str(STATE / name), **settings}
    with run_gunicorn("wsgi:app", environment) as server:
        wait_until(lambda: is_warm(server))
        yield server


@contextlib.contextmanager
def run_gunicorn(app: str, settings: dict[str, str]) -> Iterator[Server]:
    environment = {
        # the stand-in runs on the interpreter that is first on the path
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "PROXY_PORT": "0",
        "PROXY_WARM_PROCESSES": "2",
        **settings,
    }
    with run_python([*GUNICORN, app], environment) as process:
        port = int(read_match(process, rb"serves http://127\.0\.0\.1:(\d+)/v1"))
        wait_until(lambda: find_children(process.pid))
        [worker_pid] = find_children(process.pid)
        yield Server(port, worker_pid, environment)


@contextlib.contextmanager
def run_model() -> Iterator[int]:
    """The scripted model in a process of its own, out of the client's way; its port."""
    with run_python(["-m", "tests.support.scripted_model"], dict(os.environ)) as process:
        yield int(read_match(process, rb"^(\d+)$"))


@contextlib.contextmanager
def run_python(arguments: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with open(STATE / "stderr", "ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def read_match(process: subprocess.Popen[bytes], pattern: bytes) -> str:
    """What the pattern's group finds in the first line of output that it matches."""
    assert process.stdout
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found[1].decode()
    raise RuntimeError(
        f"{process.args} ended early; its last words:\n{(STATE / 'stderr').read_text()[-2000:]}"
    )


def is_warm(server: Server) -> bool:
    """Whether the processes to be kept warm are there; a gateway that keeps none is ready as it is."""
    wanted = int(server.environment["PROXY_WARM_PROCESSES"])
    client = Client(server.port)
    try:
        return len(find_children(server.worker_pid)) == wanted and (not wanted or client.is_ready())
    finally:
        client.close()


def wait_until(condition: Callable[[], object], within_s: float = 30) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError("a server did not get ready in time")
        time.sleep(0.05)
