"""What codex asks about the calls of one request's threads: answered, kept open, or declined."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator

from app.backend.callbacks import Answer, Callbacks, Key
from app.backend.jsonrpc import ServerRequest
from app.backend.rpc import Rpc
from app.settings import Settings

MAX_PATIENCE_S = 30.0


class Questions:
    """Each is answered once the core has said how; else it waits for that, or for its turn's interrupt.

    Codex tells of a connection that broke behind a call only once its questions are answered. So where it
    falls silent, and the response is not complete, they are declined.
    """

    def __init__(self, rpc: Rpc, settings: Settings) -> None:
        self._rpc = rpc
        self._patience_s = min(MAX_PATIENCE_S, settings.idle_timeout_s / 4)
        self._heard_s = time.monotonic()
        self._callbacks = Callbacks()
        #: Those that can be answered, with their answers.
        self._answerable: list[tuple[ServerRequest, Answer]] = []
        #: Threads whose response seemed broken behind a call.
        self._given_up: set[str] = set()

    @property
    def are_answerable(self) -> bool:
        return bool(self._answerable)

    def begin(self) -> None:
        """Another request is answered from here on."""
        self._heard_s = time.monotonic()

    def take(self, key: Key, request: ServerRequest, is_complete: bool) -> None:
        """Take a question of a turn that runs; whether its response is complete, as far as we know."""
        if not is_complete and key[0] in self._given_up:
            self._rpc.decline(request)
            return
        self._heard_s = time.monotonic()
        answer = self._callbacks.ask(key, request)
        if answer is not None:
            self._answerable.append((request, answer))

    def settle(self, key: Key, answer: Answer) -> None:
        """Have every question about a call answered with this: those here, and those to come."""
        self._answerable += [(request, answer) for request in self._callbacks.settle(key, answer)]

    @property
    def answered(self) -> Collection[Key]:
        """The calls that the core has said something on."""
        return self._callbacks.answered

    def note_call(self, key: Key) -> None:
        """Its response goes on, and an answer about an earlier call of its id is void."""
        self._given_up.discard(key[0])
        self._callbacks.forget(key)

    def note_read(self, is_heard: bool, holds_calls: Callable[[str], bool]) -> None:
        """Lose patience where codex has been silent for long; which threads' responses are not complete."""
        waiting = self._callbacks.waiting
        if not waiting:
            return
        now_s = time.monotonic()
        if is_heard:
            self._heard_s = now_s
        if now_s >= self._heard_s + self._patience_s:
            self._give_up({*filter(holds_calls, waiting)})

    def _give_up(self, thread_ids: set[str]) -> None:
        self._given_up |= thread_ids
        for request in self._callbacks.take_open(thread_ids):
            self._rpc.decline(request)

    def answer(self) -> Generator[None, None, None]:
        """Answer those that can be, at whatever length."""
        while self._answerable:
            yield from self._rpc.answer(*self._answerable.pop(0))
