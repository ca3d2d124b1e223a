"""One request's turn on a codex process: threads opened, events read, the process given back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.backend.codex_errors import LOGIN_ADVICE
from app.backend.directory import ModelDirectory
from app.backend.drain import Drain
from app.backend.line import Wish
from app.backend.log_fields import name_process
from app.backend.parking import ParkedTurn
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.resting import RestingThread
from app.backend.threads import Threads
from app.lib.conversation import Conversation, FollowUp
from app.lib.errors import (
    PROCESS_FAULTS,
    ClientGone,
    GatewayStopping,
    ProxyError,
    UpstreamUnauthorized,
)
from app.lib.events import BackendEvent, Placed, Tick, TurnFailed
from app.lib.models import Model
from app.lib.orders import AwaitResults, Order, StopChoice
from app.lib.placement import Origin, Tier
from app.lib.prompt import Prompt
from app.pipeline import Client
from app.settings import Settings

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What every turn of a worker shares."""

    settings: Settings
    pool: Pool
    directory: ModelDirectory
    drain: Drain


class CodexTurn:
    """Owns a process from its first batch until `close`."""

    def __init__(self, context: TurnContext, prompt: Prompt, client: Client, owner: str) -> None:
        self._context = context
        self._prompt = prompt
        self._client = client
        self._conversation = Conversation(owner, prompt, context.settings.parks_turns)
        #: Whether the request tells all of it, and does not just bring results to a turn that knows the rest.
        self._tells_all = True
        self._process: CodexProcess | None = None
        self._threads: Threads | None = None
        self._orders: list[Order] = []
        self._arrived_s = time.monotonic()
        self._next_look_s = self._arrived_s + context.settings.tick_s
        self._gone_since_s: float | None = None

    def batches(self) -> Generator[list[BackendEvent], None, None]:
        yield self._tick()
        try:
            threads = yield from self._begin()
        except PROCESS_FAULTS as error:
            # Nothing of the turn was told: another process begins it anew, once.
            self._drop_process(error)
            threads = yield from self._begin_again()
        while True:
            if self._orders or threads.is_asked:
                orders, self._orders = self._orders, []
                yield from self._ticking(threads.carry_out(orders))
            yield threads.read() + self._tick()

    def _begin(self) -> Generator[list[BackendEvent], None, Threads]:
        conversation = self._conversation
        found = self._context.pool.resume(conversation) if conversation.is_kept else Origin.NEW
        if isinstance(found, Origin):
            return (yield from self._start(found))
        process, threads = found.turn.process, found.turn.threads
        self._process, self._threads, self._tells_all = process, threads, bool(found.delivery.told)
        yield from self._ticking(threads.resume(found.outputs, found.said))
        yield [Placed(Tier.PARKED, Origin.TURN), *self._tick()]
        return threads

    def _begin_again(self) -> Generator[list[BackendEvent], None, Threads]:
        try:
            return (yield from self._start(Origin.FAILED))
        except PROCESS_FAULTS:
            self._context.pool.note_failed()
            raise

    def _start(self, origin: Origin) -> Generator[list[BackendEvent], None, Threads]:
        """Begin the turn on a process of the pool's, in a thread that holds its history or is given it."""
        pool, follow_up = self._context.pool, self._conversation.find_follow_up()
        wish = Wish(self._client.patience_s, follow_up.key, self._arrived_s)
        process = self._process = yield from self._ticking(pool.lease(wish))
        thread = process.resting.take(follow_up.key) if follow_up.key else None
        yield [self._place(process, thread, follow_up, origin), *self._tick()]
        yield from self._ticking(pool.greet(process))
        model = yield from self._ticking(self._find_model(process))
        threads = self._threads = Threads(process, self._prompt, self._context.settings)
        opening = (
            threads.go_on(thread, model, follow_up.said)
            if thread
            else threads.open(self._context.directory, model)
        )
        yield from self._ticking(opening)
        pool.note_started(process)
        return threads

    @staticmethod
    def _place(
        process: CodexProcess, thread: RestingThread | None, follow_up: FollowUp, origin: Origin
    ) -> Placed:
        tier = Tier.COLD if process.account is None else Tier.WARM
        if thread:
            return Placed(tier, Origin.THREAD)
        is_missed = follow_up.key is not None and origin is Origin.NEW
        return Placed(tier, Origin.UNKNOWN if is_missed else origin)

    def _drop_process(self, error: ProxyError) -> None:
        process, self._process, self._threads, self._tells_all = self._process, None, None, True
        pid = process.pid if process else None
        log.warning("a codex process failed before its turn began: %s", error, extra=name_process(pid))
        if process:
            self._context.pool.discard(process)

    def order(self, orders: Sequence[Order]) -> None:
        self._orders += orders

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        pool, threads = self._context.pool, self._threads
        if self._is_abandoned():
            pool.discard(process)
        elif not process.is_settled:
            log.warning("a codex process is out of step", extra=name_process(process.pid))
            pool.discard(process)
        elif threads is None or not threads.is_running:
            self._rest(process)
            pool.give_back(process)
        elif not self._park(process, threads):
            pool.release(process, threads)

    def _park(self, process: CodexProcess, threads: Threads) -> bool:
        """Leave the turn to whoever brings the results it waits for, if it may wait."""
        awaited = next((order for order in self._orders if isinstance(order, AwaitResults)), None)
        if awaited is None or not threads.can_wait or self._context.drain.is_set:
            return False
        key = self._conversation.find_key_behind(threads.transcript.text, awaited.calls)
        if key is None:
            return False
        calls = {record.id: record.call_id or "" for record in awaited.calls}
        self._context.pool.park(ParkedTurn(key, calls, process, threads))
        return True

    def _rest(self, process: CodexProcess) -> None:
        """Have the process remember the conversation that its thread holds now."""
        threads = self._threads
        thread = threads.find_resting() if threads and self._tells_all else None
        key = self._conversation.find_key_behind(threads.transcript.text) if threads and thread else None
        if thread and key:
            process.resting.keep(key, thread)

    def _is_abandoned(self) -> bool:
        """Whether the client left a turn that was still wanted, and the operator has that end the process."""
        if not self._context.settings.kill_on_disconnect or self._threads is None:
            return False
        unwanted = {order.choice for order in self._orders if isinstance(order, StopChoice | AwaitResults)}
        is_gone = self._gone_since_s is not None or self._client.has_left()
        return is_gone and self._threads.run_beside(unwanted)

    def _find_model(self, process: CodexProcess) -> Generator[None, None, Model]:
        directory = self._context.directory
        model = yield from directory.find(self._prompt.request.model, process)
        needs_login = process.account is not None and process.account.needs_login
        if needs_login and not directory.is_demo(model):
            raise UpstreamUnauthorized(LOGIN_ADVICE)
        return model

    def _tick(self) -> list[BackendEvent]:
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + self._context.settings.tick_s
            self._look_at_client(now_s)
        if now_s >= self._context.drain.deadline_s:
            return [TurnFailed(GatewayStopping("The gateway is stopping; try again."))]
        return [Tick(now_s)]

    def _look_at_client(self, now_s: float) -> None:
        """Leave when the client did; but let calls be answered first, or the process must be thrown away."""
        if not self._client.has_left():
            return
        self._gone_since_s = self._gone_since_s or now_s
        is_settled = self._process is None or self._process.is_settled
        if is_settled or now_s >= self._gone_since_s + self._context.settings.interrupt_timeout_s:
            raise ClientGone("The client closed the connection.")

    def _ticking(
        self, waiting: Generator[BackendEvent | None, None, T]
    ) -> Generator[list[BackendEvent], None, T]:
        """Give the time for every tick that another wait yields, after what it has to say."""
        with contextlib.closing(waiting):
            while True:
                try:
                    sign = next(waiting)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                yield [*([sign] if sign else []), *self._tick()]
