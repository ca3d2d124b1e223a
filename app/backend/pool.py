"""The codex processes of one worker: kept warm, handed to one owner each, taken back or ended."""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
import time
from collections.abc import Generator
from typing import Any, TypeVar

from app.backend.home import CodexHome
from app.backend.process import CodexProcess
from app.lib.errors import BackendUnavailable, ClientGone, GatewayBusy, GatewayStopping
from app.lib.events import Queued
from app.pipeline import Client
from app.settings import Settings

log = logging.getLogger(__name__)

KEEPER_PERIOD_S = 1.0
SPARE_LIFETIME_S = 60.0
MAX_BACK_OFF_S = 30.0
CLOSE_TIMEOUT_S = 5.0
SWEEP_PERIOD_S = 60.0


class Slot(enum.Enum):
    """What a request finds when no process is idle."""

    FREE = enum.auto()
    NONE = enum.auto()


class Pool:
    """At any time a process is starting, idle here, owned by one request, or ending; each takes a slot."""

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        # A plain lock: an owner takes it twice a request, and never inside itself.
        self._changed = threading.Condition(threading.Lock())
        self._slots_taken = 0
        #: Idle processes with the time since when; the last one in is the first one out.
        self._idle: list[tuple[float, CodexProcess]] = []
        self._owned: set[CodexProcess] = set()
        self._closing = threading.Event()
        self._next_sweep_s = 0.0
        self.has_greeted = False

    def start(self) -> None:
        """Begin to keep processes warm; in the worker, after fork."""
        threading.Thread(target=self._keep, name="codex-pool", daemon=True).start()

    def lease(self, patience_s: float) -> Generator[Queued | None, None, CodexProcess]:
        """A process for one owner: an idle one, else a new one; yields while it waits."""
        deadline_s = time.monotonic() + patience_s
        while True:
            found = self._take()
            if isinstance(found, CodexProcess):
                return found
            if found is Slot.FREE:
                return (yield from self._start_process())
            if time.monotonic() >= deadline_s:
                raise GatewayBusy("Every codex process is busy; try again shortly.")
            yield Queued()

    def give_back(self, process: CodexProcess) -> None:
        """Make a process that is between turns available again."""
        is_fit = process.turns < self._settings.process_max_turns and process.rest()
        with self._changed:
            if is_fit and not self._closing.is_set():
                self._owned.discard(process)
                self._idle.append((time.monotonic(), process))
                self._changed.notify()
                return
        self.discard(process)

    def discard(self, process: CodexProcess) -> None:
        """End a process, without making its owner wait for that."""
        threading.Thread(target=self._end, args=(process,), name="codex-end", daemon=True).start()

    def close(self) -> None:
        """End every process, and wait until they are gone."""
        self._closing.set()
        with self._changed:
            idle, self._idle = self._idle, []
            for _, process in idle:
                self.discard(process)
            for process in self._owned:  # its owner reads the pipe: it sees the end and lets go
                process.terminate()
            self._changed.wait_for(lambda: self._slots_taken == 0, CLOSE_TIMEOUT_S)

    def _take(self) -> CodexProcess | Slot:
        """An idle process, or a slot for a new one, or a wait of at most a tick for either."""
        with self._changed:
            if self._closing.is_set():
                raise GatewayStopping("The gateway is shutting down.")
            while self._idle:
                _, process = self._idle.pop()
                self._owned.add(process)
                if self._is_usable(process):
                    return process
                self.discard(process)
            if self._claim_slot():
                return Slot.FREE
            self._changed.wait(self._settings.tick_s)
            return Slot.NONE

    def _claim_slot(self) -> bool:
        """With the lock held."""
        is_free = self._slots_taken < self._settings.max_processes
        self._slots_taken += is_free
        return is_free

    def _free_slot(self) -> None:
        with self._changed:
            self._slots_taken -= 1
            self._changed.notify_all()

    def _start_process(self) -> Generator[None, None, CodexProcess]:
        """Fill a slot that was taken."""
        process = self._spawn()
        try:
            yield from process.greet()
        except BaseException:
            self.discard(process)
            raise
        self.has_greeted = True
        return process

    def _spawn(self) -> CodexProcess:
        try:
            process = CodexProcess(self._home, self._settings)
        except OSError as error:
            self._free_slot()
            raise BackendUnavailable(f"A codex process could not be started: {error.strerror}") from error
        except BaseException:
            self._free_slot()
            raise
        with self._changed:
            self._owned.add(process)
        return process

    def _is_usable(self, process: CodexProcess) -> bool:
        """A login or logout since it started makes a process unusable: it may hold the old account."""
        return process.is_alive() and process.login_stamp == self._home.login_stamp()

    def _end(self, process: CodexProcess) -> None:
        died = None if process.is_alive() else process.describe_end()
        try:
            process.kill()
        finally:
            with self._changed:
                self._owned.discard(process)
            self._free_slot()
        if died and not self._closing.is_set():
            log.warning("a codex process ended by itself", extra={"fields": died})

    def _keep(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            try:
                self._tidy()
                pause_s = 0.0 if self._start_spare() else KEEPER_PERIOD_S
            except Exception as error:  # noqa: BLE001  nobody else would start it again
                pause_s = min(max(pause_s, KEEPER_PERIOD_S) * 2, MAX_BACK_OFF_S)
                log.warning("the pool could not be kept: %s", error)

    def _tidy(self) -> None:
        self._retire_spares()
        if time.monotonic() >= self._next_sweep_s:
            self._next_sweep_s = time.monotonic() + SWEEP_PERIOD_S
            self._home.sweep()

    def _start_spare(self) -> bool:
        """Start one process ahead of need; false when none is needed, or no slot is free."""
        with self._changed:
            if len(self._idle) >= self._settings.warm_processes or not self._claim_slot():
                return False
        self.give_back(run_through(self._start_process()))
        return True

    def _retire_spares(self) -> None:
        """End the dead, and what a past burst left idle beyond the warm number."""
        now_s = time.monotonic()
        with self._changed:
            spare = len(self._idle) - self._settings.warm_processes
            old = [entry for entry in self._idle[: max(spare, 0)] if now_s - entry[0] > SPARE_LIFETIME_S]
            dead = [entry for entry in self._idle if not self._is_usable(entry[1])]
            for entry in {*old, *dead}:
                self._idle.remove(entry)
                self.discard(entry[1])


T = TypeVar("T")


def run_through(waiting: Generator[Any, None, T], client: Client | None = None) -> T:
    """Wait for a generator's result where nothing else is to be done; as long as the client does, if any."""
    with contextlib.closing(waiting):
        while True:
            try:
                next(waiting)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if client and client.has_left():
                raise ClientGone("The client closed the connection.")
