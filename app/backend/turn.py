"""One request's turn on a codex process: threads opened, events read, the process given back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from app.backend import calls
from app.backend.directory import ModelDirectory
from app.backend.jsonrpc import Notification
from app.backend.notifications import LOGIN_ADVICE, NotificationReader, find_ended_thread
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.lib.errors import (
    BackendRefused,
    ClientGone,
    GatewayStopping,
    ProxyError,
    UpstreamUnauthorized,
)
from app.lib.events import BackendEvent, Tick, TurnFailed
from app.lib.models import Model
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
        self._reader = NotificationReader()
        self._process: CodexProcess | None = None
        #: The turns that run: thread id to turn id.
        self._running: dict[str, str] = {}
        self._next_look_s = time.monotonic() + context.settings.tick_s
        self._gone_since_s: float | None = None

    def batches(self) -> Generator[list[BackendEvent], None, None]:
        yield self._tick()
        process = self._process = yield from self._ticking(self._context.pool.lease())
        yield from self._start(process)
        while True:
            yield self._read(process)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.is_settled and self._interrupt(process):
            self._context.pool.give_back(process)
        else:
            log.warning("a codex process is out of step", extra={"fields": {"codex_pid": process.pid}})
            self._context.pool.discard(process)

    def _start(self, process: CodexProcess) -> Generator[list[BackendEvent], None, None]:
        directory = self._context.directory
        model = yield from self._ticking(directory.find(self._prompt.model, process))
        if process.account.needs_login and not directory.is_demo(model):
            raise UpstreamUnauthorized(LOGIN_ADVICE)
        opening = process.open_threads(directory.start_thread(model), self._prompt.choices)
        threads = yield from self._ticking(opening)
        yield from self._start_turns(process, [read_id(each, "thread") for each in threads], model)

    def _start_turns(
        self, process: CodexProcess, thread_ids: list[str], model: Model
    ) -> Generator[list[BackendEvent], None, None]:
        batch: list[calls.Call] = []
        for choice, thread_id in enumerate(thread_ids):
            self._reader.add_thread(thread_id, choice)
            batch.append(calls.inject_items(thread_id, self._prompt.items))
            batch.append(calls.start_turn(thread_id, self._prompt.effort or model.effort))
        answers = yield from self._ticking(process.call_all(batch))
        for thread_id, answer in zip(thread_ids, answers[1::2], strict=True):
            self._running[thread_id] = read_id(answer, "turn")

    def _read(self, process: CodexProcess) -> list[BackendEvent]:
        notifications = process.receive()
        self._note_ends(notifications)
        events = [event for each in notifications for event in self._reader.read(each)]
        return events + self._tick()

    def _note_ends(self, notifications: list[Notification]) -> None:
        for thread_id in filter(None, map(find_ended_thread, notifications)):
            self._running.pop(thread_id, None)

    def _interrupt(self, process: CodexProcess) -> bool:
        """Stop what still runs; false if codex does not say so in time."""
        timeout_s = self._context.settings.interrupt_timeout_s
        deadline_s = time.monotonic() + timeout_s
        try:
            for thread_id, turn_id in self._running.items():
                process.ask(calls.interrupt_turn(thread_id, turn_id), timeout_s)
            # The end of the turn counts, not the reply: a second interrupt is never answered.
            while self._running and time.monotonic() < deadline_s:
                self._note_ends(process.receive())
        except ProxyError:
            return False
        return not self._running

    def _tick(self) -> list[BackendEvent]:
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + self._context.settings.tick_s
            self._look_at_client(now_s)
        if now_s >= self._context.drain.deadline_s:
            return [TurnFailed(GatewayStopping("The gateway is restarting; try again."))]
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


def read_id(answer: dict[str, Any], kind: str) -> str:
    match answer.get(kind):
        case {"id": str(id_)}:
            return id_
        case _:
            raise BackendRefused(f"Codex answered with a {kind} without an id.")
