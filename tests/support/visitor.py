"""A backend without its server, and somebody who asks it for a login."""

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from app.backend.codex import CodexBackend
from app.lib.account import LoginCode, LoginEnd, LoginStep
from app.settings import Settings
from tests.support.gateway import wait_until
from tests.support.processes import find_children

BOUND_S = 15
# That nothing stays is what counts: on a busy machine a process that is killed may take a while to end.
LET_GO_WITHIN_S = 30
#: The keeper's own threads look up once a second; these end with what they do.
BESIDE = ("AccountDesk.", "DeviceLogin.", "Pool.")


class Visitor:
    """Satisfies the pipeline's `Client`."""

    def __init__(self, patience_s: float = 10) -> None:
        self.patience_s = patience_s
        self.left = False

    def has_left(self) -> bool:
        return self.left


def read_code(steps: Iterator[LoginStep | None]) -> LoginCode:
    """Wait for a login's first word, which is a code."""
    step = read_step(steps)
    assert isinstance(step, LoginCode)
    return step


def read_end(steps: Iterator[LoginStep | None]) -> LoginEnd:
    """Wait for a login's last word, which nothing follows."""
    step = read_step(steps)
    assert isinstance(step, LoginEnd)
    assert list(steps) == []
    return step


def read_step(steps: Iterator[LoginStep | None]) -> LoginStep:
    """The next that is told; a tick comes at least once a second until then."""
    deadline_s = time.monotonic() + BOUND_S
    while True:
        began_s = time.monotonic()
        step = next(steps)
        if step is not None:
            return step
        assert time.monotonic() - began_s < 1.5
        assert time.monotonic() < deadline_s


@dataclass(frozen=True)
class Holdings:
    """What this test process holds: open files and pipes, children, and what goes on beside the requests.

    Not its sockets, of which a backend has none: they belong to models in this process, that others ask.
    """

    files: Counter[str]
    children: set[int]
    beside: set[threading.Thread]

    @classmethod
    def count(cls) -> "Holdings":
        links = (link.partition(":[")[0] for link in read_links("/proc/self/fd"))
        return cls(
            Counter(link for link in links if link != "socket"),
            find_children(os.getpid()),
            {each for each in threading.enumerate() if each.name.startswith(BESIDE)},
        )

    def beyond(self, earlier: "Holdings") -> "Holdings":
        """What there is more than there was."""
        return Holdings(
            self.files - earlier.files, self.children - earlier.children, self.beside - earlier.beside
        )


NOTHING = Holdings(Counter(), set(), set())


def await_nothing_beyond(before: Holdings) -> None:
    """Until no more is held than then; on failure it is told what is."""
    deadline_s = time.monotonic() + LET_GO_WITHIN_S
    while (left := Holdings.count().beyond(before)) != NOTHING:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.01)


def read_links(folder: str) -> Iterator[str]:
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it was the listing's own, or closed just then
            yield os.readlink(f"{folder}/{name}")


@contextlib.contextmanager
def run_backend(**environ: str) -> Iterator[CodexBackend]:
    """A backend that is ready; whatever was done with it, nothing of it is left at the end."""
    before = Holdings.count()
    backend = CodexBackend(Settings.from_env({"PROXY_WARM_PROCESSES": "1"} | environ))
    backend.start()
    try:
        wait_until(backend.is_ready, 20)
        yield backend
    finally:
        backend.close()
    await_nothing_beyond(before)
