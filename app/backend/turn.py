"""One request's turn on a codex process: threads opened, events read, the process given back."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from app.backend.directory import ModelDirectory
from app.backend.jsonrpc import Notification
from app.backend.notifications import LOGIN_ADVICE, NotificationReader
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.lib.errors import (
    BackendRefused,
    BackendTimeout,
    BackendUnavailable,
    ClientGone,
    GatewayStopping,
    ProxyError,
    UpstreamUnauthorized,
)
from app.lib.events import BackendEvent, Queued, Tick, TurnFailed
from app.lib.models import Model
from app.lib.prompt import Prompt
from app.pipeline import Client
from app.settings import Settings

T = TypeVar("T")


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
        #: False while calls are unanswered, and for good after the pipe broke.
        self._in_step = True

    def batches(self) -> Iterator[list[BackendEvent]]:
        yield self._tick()
        process = self._process = yield from self._ticking(self._context.pool.lease(self._client), Queued())
        try:
            yield from self._start(process)
            while True:
                yield self._read(process)
        except (BackendUnavailable, BackendTimeout):
            self._in_step = False
            raise

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._in_step and self._interrupt(process):
            self._context.pool.give_back(process)
        else:
            self._context.pool.discard(process)

    def _start(self, process: CodexProcess) -> Generator[list[BackendEvent], None, None]:
        model = yield from self._ticking(self._context.directory.find(self._prompt.model, process))
        if process.account.needs_login and not self._context.directory.is_demo(model):
            raise UpstreamUnauthorized(LOGIN_ADVICE)
        self._in_step = False
        thread_ids = yield from self._open_threads(process, model)
        yield from self._start_turns(process, thread_ids, model)
        self._in_step = True

    def _open_threads(
        self, process: CodexProcess, model: Model
    ) -> Generator[list[BackendEvent], None, list[str]]:
        params = self._context.directory.thread_params(model)
        answers = yield from self._ticking(process.open_threads(params, self._prompt.choices))
        return [read_id(answer, "thread") for answer in answers]

    def _start_turns(
        self, process: CodexProcess, thread_ids: list[str], model: Model
    ) -> Generator[list[BackendEvent], None, None]:
        calls: list[tuple[str, dict[str, Any]]] = []
        for choice, thread_id in enumerate(thread_ids):
            self._reader.add_thread(thread_id, choice)
            calls.append(("thread/inject_items", {"threadId": thread_id, "items": self._prompt.items}))
            calls.append(("turn/start", self._turn_params(thread_id, model)))
        answers = yield from self._ticking(process.call_all(calls))
        for thread_id, answer in zip(thread_ids, answers[1::2], strict=True):
            self._running[thread_id] = read_id(answer, "turn")

    def _turn_params(self, thread_id: str, model: Model) -> dict[str, Any]:
        effort = self._prompt.effort or model.effort
        return {
            "threadId": thread_id,
            "input": [],
            "environments": [],
            "summary": "auto",
            **({"effort": effort} if effort else {}),
        }

    def _read(self, process: CodexProcess) -> list[BackendEvent]:
        events: list[BackendEvent] = []
        self._in_step = False  # for good, if one cannot be read: the rest of them is lost
        for notification in process.receive():
            events += self._reader.read(notification)
            self._note_end(notification)
        self._in_step = True
        return events + self._tick()

    def _note_end(self, notification: Notification) -> None:
        if notification.method == "turn/completed":
            self._running.pop(notification.params.get("threadId", ""), None)

    def _interrupt(self, process: CodexProcess) -> bool:
        """Stop what still runs; false if codex does not say so in time."""
        deadline_s = time.monotonic() + self._context.settings.interrupt_timeout_s
        try:
            for thread_id, turn_id in self._running.items():
                process.ask("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
            # The end of the turn counts, not the reply: a second interrupt is never answered.
            while self._running and time.monotonic() < deadline_s:
                for notification in process.receive():
                    self._note_end(notification)
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
        if self._in_step or now_s >= self._gone_since_s + self._context.settings.interrupt_timeout_s:
            raise ClientGone("The client closed the connection.")

    def _ticking(
        self, waiting: Generator[None, None, T], *signs: BackendEvent
    ) -> Generator[list[BackendEvent], None, T]:
        """Give the time, and a sign of what it is spent on, for every tick another wait yields."""
        while True:
            try:
                next(waiting)
            except StopIteration as stop:
                result: T = stop.value
                return result
            yield [*signs, *self._tick()]


def read_id(answer: dict[str, Any], kind: str) -> str:
    match answer.get(kind):
        case {"id": str(id_)}:
            return id_
        case _:
            raise BackendRefused(f"Codex answered with a {kind} without an id.")
