"""The real server for a test: gunicorn with its gevent worker, gone with everything it started."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import requests

from tests.support.processes import find_children, is_running

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVE = ("-m", "app", "serve")
#: The same server, with a route that counts what its worker holds.
SERVE_COUNTED = ("-m", "gunicorn", "-c", "config/gunicorn.conf.py", "tests.support.counted_app:app")
T = TypeVar("T")


def wait_until(probe: Callable[[], T], within_s: float = 10) -> T:
    """The first truthy result; raises when none came in time."""
    deadline_s = time.monotonic() + within_s
    while not (found := probe()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"nothing in {within_s} s")
        time.sleep(0.01)
    return found


class Gateway:
    """A running gateway; what it printed is in `log`."""

    def __init__(self, folder: pathlib.Path, environ: dict[str, str], command: Sequence[str] = SERVE) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.log_path = folder / "gateway.log"
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("PROXY_", "CODEX_"))
        }
        own = {"HOME": str(folder), "PROXY_STATE_DIR": str(self.state_dir), "PROXY_PORT": "0"}
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=clean | own | environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.base_url = ""

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """The log's JSON lines."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    def wait_ready(self) -> None:
        """Until it listens and has a codex process."""
        self.wait_listening()
        wait_until(self._is_ready, 20)

    def wait_listening(self) -> None:
        self.base_url = wait_until(self._find_url, 20)
        wait_until(lambda: self.worker_pids, 20)

    def _find_url(self) -> str:
        if self.process.poll() is not None:
            raise AssertionError(f"the gateway ended with {self.process.returncode}: {self.log}")
        found = re.search(r"serves (http://\S+)/v1", self.log)
        return found.group(1) if found else ""

    def _is_ready(self) -> bool:
        return requests.get(f"{self.base_url}/readyz", timeout=20).status_code == 200

    @property
    def worker_pids(self) -> set[int]:
        return find_children(self.process.pid)

    @property
    def codex_pids(self) -> set[int]:
        return {child for worker in self.worker_pids for child in find_children(worker)}

    def chat(self, content: Any, **more: Any) -> requests.Response:
        """One chat request; a script is sent as its JSON."""
        text = content if isinstance(content, str) else json.dumps(content)
        body = {"model": "scripted-model", "messages": [{"role": "user", "content": text}]} | more
        url = f"{self.base_url}/v1/chat/completions"
        # An idle connection would hold up a graceful stop.
        headers = {"connection": "close"} if body.get("stream") else {}
        return requests.post(url, json=body, headers=headers, timeout=30, stream=bool(body.get("stream")))

    def stop(self, with_signal: int = signal.SIGTERM, within_s: float = 20) -> int:
        """End it as an operator would, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """Whatever is still there, at the end of a test."""
        everyone = [*self.codex_pids, *self.worker_pids]
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in everyone:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def run_gateway(
    folder: pathlib.Path, ready: bool = True, command: Sequence[str] = SERVE, **environ: str
) -> Iterator[Gateway]:
    gateway = Gateway(folder, environ, command)
    try:
        if ready:
            gateway.wait_ready()
        yield gateway
        # The quick way: a graceful stop looks around once a second.
        gateway.stop(signal.SIGINT)
    finally:
        gateway.kill()


def write_stand_in(folder: pathlib.Path, **faults: Any) -> str:
    """A codex binary that is the stand-in with these faults, as a path for CODEX_BIN."""
    path = folder / "codex-stand-in"
    config = shlex.quote(json.dumps({"models": ["scripted-model"]} | faults))
    script = shlex.quote(str(ROOT / "tests" / "support" / "stand_in.py"))
    path.write_text(f'#!/bin/sh\nSTAND_IN={config} exec {shlex.quote(sys.executable)} {script} "$@"\n')
    path.chmod(0o755)
    return str(path)


def write_provider(folder: pathlib.Path, base_url: str) -> str:
    """A codex configuration that runs the scripted model, as a path for PROXY_CODEX_CONFIG_FILE."""
    path = folder / "provider.toml"
    path.write_text(
        'model = "scripted-model"\nmodel_provider = "scripted"\n[model_providers.scripted]\n'
        f'name = "scripted"\nbase_url = "{base_url}"\nwire_api = "responses"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
    )
    return str(path)
