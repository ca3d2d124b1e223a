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
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.threads import Threads
from app.lib.errors import ClientGone, GatewayStopping, UpstreamUnauthorized
from app.lib.events import BackendEvent, Tick, TurnFailed
from app.lib.models import Model
from app.lib.orders import Order, StopChoice
from app.lib.prompt import Prompt
from app.pipeline import Client
from app.settings import Settings

T = TypeVar("T")

log = logging.getLogger(__name__)


class Drain:
    """When the turns still running must end; set once, when the worker is told to stop."""

    def __init__(self) -> None:
        self.deadline_s = float("inf")


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What every turn of a worker shares."""

    settings: Settings
    pool: Pool
    directory: ModelDirectory
    drain: Drain


class CodexTurn:
    """Owns a process from its first batch until `close`."""

    def __init__(self, context: TurnContext, prompt: Prompt, client: Client) -> None:
        self._context = context
        self._prompt = prompt
        self._client = client
        self._process: CodexProcess | None = None
        self._threads: Threads | None = None
        self._orders: list[Order] = []
        self._next_look_s = time.monotonic() + context.settings.tick_s
        self._gone_since_s: float | None = None

    def batches(self) -> Generator[list[BackendEvent], None, None]:
        yield self._tick()
        leased = self._context.pool.lease(self._client.patience_s)
        process = self._process = yield from self._ticking(leased)
        model = yield from self._ticking(self._find_model(process))
        threads = self._threads = Threads(process, self._prompt, self._context.settings)
        yield from self._ticking(threads.open(self._context.directory, model))
        while True:
            if self._orders:
                orders, self._orders = self._orders, []
                yield from self._ticking(threads.carry_out(orders))
            yield threads.read() + self._tick()

    def order(self, orders: Sequence[Order]) -> None:
        self._orders += orders

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._is_abandoned():
            self._context.pool.discard(process)
        elif process.is_settled and (self._threads is None or self._threads.interrupt()):
            self._context.pool.give_back(process)
        else:
            log.warning("a codex process is out of step", extra={"fields": {"codex_pid": process.pid}})
            self._context.pool.discard(process)

    def _is_abandoned(self) -> bool:
        """Whether the client left a turn that was still wanted, and the operator has that end the process."""
        if not self._context.settings.kill_on_disconnect or self._threads is None:
            return False
        unwanted = {order.choice for order in self._orders if isinstance(order, StopChoice)}
        is_gone = self._gone_since_s is not None or self._client.has_left()
        return is_gone and self._threads.run_beside(unwanted)

    def _find_model(self, process: CodexProcess) -> Generator[None, None, Model]:
        directory = self._context.directory
        model = yield from directory.find(self._prompt.request.model, process)
        if process.account.needs_login and not directory.is_demo(model):
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
