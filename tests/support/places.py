"""Gateways where the same is tried side by side: on the stand-in and on codex, for streams and for bodies."""

import pathlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import codex_cli_bin

from tests.support.gateway import wait_until, write_provider, write_stand_in
from tests.support.meddled import RECOVERY_S, Meddled, run_meddled
from tests.support.told import Told, ask, fold

SCRIPT = [{"say": ["one ", "two"]}]
ANSWERED: Told = (200, "one two", None)
STOPPED: Told = (200, "one ", None)
BROKEN: Told = (503, "", "backend_unavailable")
BROKEN_OFF: Told = (200, "one ", "backend_unavailable")
LATE: Told = (504, "", "backend_timeout")
LATE_OFF: Told = (200, "one ", "backend_timeout")
#: Two processes may not start in time, or a call may time out and then the model be silent for a while.
BOUND_S = 10

BRISK = {
    "PROXY_RPC_TIMEOUT_MS": "1000",
    "PROXY_START_TIMEOUT_MS": "2000",
    "PROXY_FIRST_EVENT_TIMEOUT_MS": "3000",
    "PROXY_STREAM_IDLE_TIMEOUT_MS": "1000",
    "PROXY_INTERRUPT_TIMEOUT_MS": "500",
    "PROXY_SSE_KEEPALIVE_MS": "1000",  # so that it looks at its clock four times a second
}
# No more than are to be warm: whoever fails is replaced by the other, and no burst leaves spares.
WARM = {"PROXY_WARM_PROCESSES": "2", "PROXY_MAX_PROCESSES": "2"}
# Every request has a process of its own, from its first line to its last.
FRESH = {
    "PROXY_WARM_PROCESSES": "0",
    "PROXY_PROCESS_MAX_TURNS": "1",
    # Both are counted from the request's arrival, and two processes may not start in time.
    "PROXY_FIRST_EVENT_TIMEOUT_MS": "9000",
    "PROXY_COMMIT_AFTER_MS": "9000",
}


class Place(NamedTuple):
    """A gateway, and whether its clients want streams."""

    meddled: Meddled
    stream: bool

    def ask(self, script: Any = SCRIPT, **more: Any) -> Told:
        """What a client is told, in bounded time."""
        began_s = time.monotonic()
        told = ask(self.meddled.gateway, script, self.stream, **more)
        assert time.monotonic() - began_s < BOUND_S
        return told

    def recover(self) -> None:
        """The next request is answered; then there are as many processes, files and greenlets as before."""
        assert self.ask() == ANSWERED
        wait_until(self.meddled.has_recovered, RECOVERY_S)


def try_everywhere(places: list[Place], attempt: Callable[[Place], Told]) -> list[Told]:
    """Side by side, since most of it is waiting; with what went wrong made good."""

    def run(place: Place) -> Told:
        told = attempt(place)
        place.recover()
        return told

    with ThreadPoolExecutor(len(places)) as executor:
        return list(executor.map(run, places))


def everywhere(places: list[Place], told: Told) -> list[Told]:
    return [told if place.stream else fold(told) for place in places]


@contextmanager
def run_place(
    folder: pathlib.Path, backend: str, model_url: str, stream: bool, **environ: str
) -> Iterator[Place]:
    command, provider = write_stand_in(folder), {}
    if backend == "real":
        command = str(codex_cli_bin.bundled_codex_path())
        provider = {"PROXY_CODEX_CONFIG_FILE": write_provider(folder, model_url)}
    with run_meddled(folder, [command], **(BRISK | environ | provider)) as meddled:
        place = Place(meddled, stream)
        assert place.ask() == ANSWERED  # and with it comes what only a first request brings
        meddled.before = meddled.settle()
        yield place
