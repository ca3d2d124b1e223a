"""The codex processes of one worker: kept warm, handed to one owner each, parked, taken back or ended."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Generator

from app.backend.breaker import Breaker
from app.backend.fitness import Fitness
from app.backend.home import CodexHome
from app.backend.idle import IdleProcesses
from app.backend.line import Line, Ticket, Wish
from app.backend.log_fields import name_process
from app.backend.parking import Continuation, ParkedTurn, Parking
from app.backend.process import CodexProcess
from app.backend.slots import Claim, Slots
from app.backend.threads import Threads
from app.backend.waiting import run_beside
from app.lib.continuation import ThreadKey
from app.lib.conversation import Conversation
from app.lib.errors import BackendRefused, GatewayBusy, GatewayStopping, ProcessFailed
from app.lib.events import Queued
from app.lib.placement import Origin
from app.pipeline import Census
from app.settings import Settings

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0


class Pool:
    """At any time a process is starting, idle here, owned by one request, parked, or ending; each has a slot.

    Whoever waits, waits in one line, for a process or a slot and for its turn to start one.
    """

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        # A plain lock: an owner takes it a few times a request, and never inside itself.
        self._lock = threading.Lock()
        self._slots = Slots(settings.max_processes, settings.max_starting)
        self._fitness = Fitness(home, settings)
        self._idle = IdleProcesses(self._fitness.is_usable)
        self._owned: set[CodexProcess] = set()
        self._parking = Parking(settings.park_ttl_s)
        #: Processes whose turns are being ended: they are free in a moment.
        self._returning: set[CodexProcess] = set()
        self._line = Line(settings.max_queue)
        self._breaker = Breaker()
        self._closing = threading.Event()
        self._emptied = threading.Condition(self._lock)
        #: Set when a process is gone.
        self.shrunk = threading.Event()

    @property
    def is_ready(self) -> bool:
        return self._breaker.is_ready

    def census(self) -> Census:
        with self._lock:
            here = len(self._idle), len(self._owned), len(self._parking)
            ending = max(self._slots.taken - sum(here), 0)
            return Census(*here, ending, len(self._line), **dataclasses.asdict(self._slots.tally))

    def lease(self, wish: Wish) -> Generator[Queued | None, None, CodexProcess]:
        """A process for one owner, who has it greeted; yields while it waits."""
        found = self._claim(wish)
        if found is Claim.NOTHING:
            found = yield from self._wait_in_line(wish)
        return found if isinstance(found, CodexProcess) else self._spawn()

    def greet(self, process: CodexProcess) -> Generator[None, None, None]:
        """Let a process say hello, if it has not."""
        if process.account is not None:
            return
        try:
            yield from process.greet()
        except BackendRefused:  # no fault that another process may make good, but a failure of this one
            self.note_failed()
            raise
        with self._lock:
            self._breaker.note_greeting(process.started_s)

    def note_started(self, process: CodexProcess) -> None:
        """Its owner's turn runs: another one may start."""
        with self._lock:
            self._breaker.note_success(process.started_s)
            self._end_start(process)

    def note_failed(self) -> None:
        """Whoever wanted one had no process that was of use."""
        with self._lock:
            self._breaker.note_failure()

    def give_back(self, process: CodexProcess) -> None:
        """Make a process that is between turns available again."""
        is_fit = self._fitness.allows_another(process) and process.rest()
        with self._lock:
            if is_fit := is_fit and not self._closing.is_set():
                self._owned.discard(process)
                self._idle.add(process)
            self._end_start(process)
        if not is_fit:
            self.discard(process)

    def release(self, process: CodexProcess, threads: Threads) -> None:
        """Take back a process whose turns still run; its owner need not wait for their end."""
        with self._lock:
            self._interrupt(process, threads)

    def park(self, turn: ParkedTurn) -> None:
        """Keep a turn that waits for results, with its process, for whoever brings them."""
        with self._lock:
            if not self._closing.is_set():
                self._owned.discard(turn.process)
                self._parking.add(turn)
                self._slots.tally.parks += 1
                self._line.call_next()  # for which there may be room now
                return
        self.discard(turn.process)

    def resume(self, conversation: Conversation) -> Continuation | Origin:
        """The turn that a request brings the results for, now its own; or why there is none."""
        with self._lock:
            found = self._parking.take(conversation)
            if isinstance(found, Origin):
                return found
            self._owned.add(found.turn.process)
        if self._fitness.is_usable(found.turn.process):
            return found
        self.discard(found.turn.process)
        return Origin.FAILED

    def discard(self, process: CodexProcess) -> None:
        """End a process, without making its owner wait for that."""
        run_beside(self._end, process)

    def close(self) -> None:
        """End every process, and wait until they are gone."""
        self._closing.set()
        with self._lock:
            for process in [*self._idle.take_all(), *(turn.process for turn in self._parking.take_all())]:
                self.discard(process)
            for process in self._owned:  # its owner reads the pipe: it sees the end and lets go
                process.terminate()
            self._emptied.wait_for(lambda: not self._slots.taken, CLOSE_TIMEOUT_S)

    def lease_spare(self) -> CodexProcess | None:
        """A new process, if one is wanted ahead of need, or due to show whether that works again."""
        with self._lock:
            is_wanted = len(self._idle) < self._settings.warm_processes and not self._breaker.is_open
            is_due = (is_wanted or self._breaker.is_due) and not self._closing.is_set()
            if not is_due or not self._slots.may_start or not self._slots.claim():
                return None
        return self._spawn()

    def retire(self, spare_lifetime_s: float) -> None:
        """End what is dead, of another login, waited too long, or was left by a past burst."""
        with self._lock:
            for process in self._idle.take_unwanted(self._settings.warm_processes, spare_lifetime_s):
                self.discard(process)
            for turn in self._parking.take_where(
                lambda turn: self._parking.is_late(turn) or not self._fitness.is_usable(turn.process)
            ):
                self._drop(turn)

    def drop_parked(self) -> None:
        with self._lock:
            for turn in self._parking.take_all():
                self._drop(turn)

    def _claim(self, wish: Wish, ticket: Ticket | None = None) -> CodexProcess | Claim:
        with self._lock:
            if self._closing.is_set():
                raise GatewayStopping("The gateway is shutting down.")
            if not self._line.is_next(ticket) or not self._slots.may_start:
                return Claim.NOTHING
            process = self._take_idle(wish.key)
            if process is not None:
                self._slots.start(process)
                return process
            self._breaker.check()
            if self._slots.claim():
                return Claim.SLOT
            while wish.ends_parked and self._parking and len(self._returning) < max(len(self._line), 1):
                self._drop(self._parking.take_oldest())
            return Claim.NOTHING

    def _wait_in_line(self, wish: Wish) -> Generator[Queued, None, CodexProcess | Claim]:
        with self._lock:
            ticket = self._line.join(wish)
        deadline_s = time.monotonic() + wish.patience_s
        try:
            while (found := self._claim(wish, ticket)) is Claim.NOTHING:
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0:
                    raise GatewayBusy("Every codex process is busy; try again shortly.")
                yield Queued()
                ticket.wait(min(remaining_s, self._settings.tick_s))
            return found
        finally:
            with self._lock:
                self._line.leave(ticket)

    def _take_idle(self, key: ThreadKey | None) -> CodexProcess | None:
        while process := self._idle.take(key):
            self._owned.add(process)
            if self._fitness.is_usable(process):
                return process
            self.discard(process)
        return None

    def _spawn(self) -> CodexProcess:
        """Fill a slot that was claimed."""
        try:
            process = CodexProcess(self._home, self._settings)
        except BaseException as error:
            with self._lock:
                self._slots.give_up()
                self._line.call_next()
            if isinstance(error, OSError):
                raise ProcessFailed(f"A codex process could not be started: {error.strerror}") from error
            raise
        with self._lock:
            self._owned.add(process)
            self._slots.fill(process)
            if self._closing.is_set():
                process.terminate()
        return process

    def _end_start(self, process: CodexProcess) -> None:
        self._slots.end_start(process)
        self._line.call_next()

    def _drop(self, turn: ParkedTurn) -> None:
        self._owned.add(turn.process)
        self._interrupt(turn.process, turn.threads)

    def _interrupt(self, process: CodexProcess, threads: Threads) -> None:
        self._returning.add(process)
        run_beside(self._end_turns, process, threads)

    def _end_turns(self, process: CodexProcess, threads: Threads) -> None:
        is_free = False
        try:
            is_free = threads.interrupt()
        finally:
            (self.give_back if is_free else self.discard)(process)
            with self._lock:
                self._returning.discard(process)
        if not is_free:
            log.warning("a codex process is out of step", extra=name_process(process.pid))

    def _end(self, process: CodexProcess) -> None:
        with self._lock:
            self._end_start(process)
        died = process.describe_end() if process.has_ended() else None
        try:
            process.kill()
        finally:
            with self._lock:
                self._owned.discard(process)
                self._slots.free(process)
                self._line.call_next()
                self._emptied.notify_all()
            self.shrunk.set()
        if died and not self._closing.is_set():
            with self._lock:
                self._slots.tally.process_deaths += 1
            log.warning("a codex process ended by itself", extra=name_process(process.pid, **died))
