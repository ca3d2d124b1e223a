"""A worker with a store of its own in a real process, told what to do line by line; it can be killed."""

from __future__ import annotations

import contextlib
import pathlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import orjson

from app.store.database import StoreFault
from app.store.limits import Limits
from app.store.responses import ResponseStore

OWNER = "key-1"
TTL_S = 3600.0
MAX_BYTES = 1 << 30


def build_body(response_id: str, status: str = "in_progress", **more: Any) -> dict[str, Any]:
    base = {
        "id": response_id,
        "status": status,
        "error": None,
        "completed_at": None,
        "output": [],
        "background": False,
    }
    return base | more


class StoreProcess:
    """The test's end of it."""

    def __init__(self, folder: pathlib.Path) -> None:
        command = [sys.executable, "-m", "tests.support.store_process", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, *words: object) -> None:
        assert self._process.stdin
        print(*words, file=self._process.stdin, flush=True)

    def receive(self) -> str:
        """What came of the command that was sent first."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def tell(self, *words: object) -> str:
        self.send(*words)
        return self.receive()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, closed or unlocked by the process itself."""
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def run_store(folder: pathlib.Path) -> Iterator[StoreProcess]:
    process = StoreProcess(folder)
    try:
        yield process
    finally:
        process.kill()


class Commands:
    """One method a command; its arguments are the rest of the line."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    def start(self) -> None:
        self._store.start()

    def begin(self, response_id: str) -> None:
        self._store.begin(OWNER, build_body(response_id), [])

    def finish(self, response_id: str, text: str) -> None:
        self._store.update(OWNER, build_body(response_id, "completed", text=text))

    def fill(self, response_id: str, size: str) -> None:
        self._store.begin(OWNER, build_body(response_id, "completed", text="x" * int(size)), [])

    def make_many(self, prefix: str, count: str) -> None:
        for number in range(int(count)):
            self.begin(f"{prefix}-{number}")
            self.finish(f"{prefix}-{number}", prefix)

    def limit_files(self, size: str) -> None:
        """No file may grow past this: the disk is full, as far as this process can tell."""
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size == "none" else int(size), hard))


def serve(folder: pathlib.Path) -> None:
    commands = Commands(ResponseStore(folder, Limits(TTL_S, MAX_BYTES), lock_timeout_s=10))
    for line in sys.stdin:
        name, *words = line.split()
        try:
            getattr(commands, name)(*words)
        except StoreFault as error:
            print(orjson.dumps({"unavailable": str(error)}).decode(), flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    serve(pathlib.Path(sys.argv[1]))
