"""One request's threads on a codex process: opened, read, told what the core wants, interrupted."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, assert_never

from app.backend import calls, raw_items, turn_ends
from app.backend.callbacks import build_answer, build_refusal, read_key
from app.backend.directory import ModelDirectory
from app.backend.dynamic_tools import build_dynamic_tools, validate_output_schema
from app.backend.inbox import Incoming
from app.backend.jsonrpc import Notification, ServerRequest
from app.backend.notifications import METHOD, TEXT_DELTA, NotificationReader
from app.backend.process import CodexProcess
from app.backend.questions import Questions
from app.backend.raw_items import Called, read_raw_item
from app.backend.resting import RestingThread
from app.backend.tool_names import ToolNames
from app.backend.transcript import Transcript
from app.lib.errors import BackendRefused, BackendTimeout, ProcessFailed, ProxyError
from app.lib.events import BackendEvent
from app.lib.models import Model
from app.lib.orders import AskAgain, AwaitResults, Order, RefuseCall, StopChoice
from app.lib.prompt import Prompt, build_instruction, build_item, build_prompt
from app.lib.request import HistoryItem, Message, PastOutput, ToolTransport
from app.lib.usage import NOTHING_USED, Usage
from app.settings import Settings

log = logging.getLogger(__name__)


class _State(Enum):
    """What a thread's turn is at."""

    #: None was started, or it ended.
    IDLE = auto()
    #: It was asked for; its id is not known yet.
    STARTING = auto()
    RUNNING = auto()
    #: We had it interrupted; its end was not told yet.
    STOPPED = auto()


@dataclass(slots=True)
class _Thread:
    id: str
    state: _State = _State.IDLE
    turn_id: str = ""


class Threads:
    """A thread for each choice, and its running turn; whatever waits is a generator that yields meanwhile."""

    def __init__(self, process: CodexProcess, prompt: Prompt, settings: Settings) -> None:
        self._process = process
        self._rpc = process.rpc
        self._prompt = prompt
        self._settings = settings
        self._names = ToolNames(prompt.tools)
        self._reader = NotificationReader(self._names)
        self._questions = Questions(process.rpc, settings)
        self._effort: str | None = None
        #: By codex's own ids, in the order of the choices.
        self._threads: dict[str, _Thread] = {}
        #: What was told while something else was waited for.
        self._unread: list[BackendEvent] = []
        self.transcript = Transcript()

    def run_beside(self, choices: Collection[int]) -> bool:
        """Whether a turn runs that is of none of these, nor was stopped."""
        states = enumerate(thread.state for thread in self._threads.values())
        return any(state is _State.RUNNING and choice not in choices for choice, state in states)

    def open(self, directory: ModelDirectory, model: Model) -> Generator[None, None, None]:
        """Open the threads and start their turns."""
        validate_output_schema(self._prompt.output_schema)
        self._effort = self._prompt.request.effort or model.effort
        for choice, answer in enumerate((yield from self._open_threads(directory, model))):
            self._add_thread(calls.read_id(answer, "thread"), choice)
        yield from self._start_turns(dict.fromkeys(self._threads, self._rename_calls()))

    def go_on(
        self, thread: RestingThread, model: Model, said: Sequence[HistoryItem]
    ) -> Generator[None, None, None]:
        """Start a turn in a thread that holds the conversation so far."""
        self._effort = self._prompt.request.effort or model.effort
        self._add_thread(thread.id, 0, thread.usage)
        self._process.turns += 1
        yield from self._start_turns({thread.id: [build_item(item) for item in said]})

    def _add_thread(self, thread_id: str, choice: int, used: Usage = NOTHING_USED) -> None:
        self._threads[thread_id] = _Thread(thread_id)
        self._reader.add_thread(thread_id, choice, used)

    def resume(
        self, outputs: Mapping[str, PastOutput], said: Sequence[Message]
    ) -> Generator[None, None, None]:
        """Have the turn that waits for these results go on, by codex's own ids of the calls."""
        [thread] = self._threads.values()
        self.transcript.begin()
        self._questions.begin()
        if said:
            # Behind the results, as long as the turn waits; later it would break off the answer.
            yield from self._rpc.call(calls.inject_items(thread.id, [build_item(item) for item in said]))
        for call_id, output in outputs.items():
            self._questions.settle((thread.id, call_id), build_answer(output.parts))
        deadline_s = time.monotonic() + self._settings.rpc_timeout_s
        while not self.transcript.has_results:
            self._check_wait(thread, deadline_s)
            yield from self._questions.answer()
            self._unread += self._hear()
            yield

    @staticmethod
    def _check_wait(thread: _Thread, deadline_s: float) -> None:
        if thread.state is _State.IDLE:
            raise ProcessFailed("The turn ended while it waited for results.")
        if time.monotonic() >= deadline_s:
            raise BackendTimeout("Codex did not take the results in time.")

    def _open_threads(
        self, directory: ModelDirectory, model: Model
    ) -> Generator[None, None, list[dict[str, Any]]]:
        tools = build_dynamic_tools(self._prompt.tools, self._names)
        choices, searches = self._prompt.request.choices, self._prompt.request.web_search
        try:
            call = directory.start_thread(model, tools, searches)
            return (yield from self._process.open_threads(call, choices))
        except BackendRefused as error:
            if not tools:
                raise
            # Its reason names a client's tool.
            log.warning("codex refused the tools; they are told as text")
            log.debug("its reason: %s", error.message)
        self.transcript.has_secrets = True
        self._prompt = build_prompt(self._prompt.request, ToolTransport.SENTINEL)
        self._names = ToolNames()
        self._reader = NotificationReader()
        call = directory.start_thread(model, web_search=searches)
        return (yield from self._process.open_threads(call, choices))

    def _rename_calls(self) -> list[dict[str, Any]]:
        """The history, its calls under the names that codex knows."""
        return [
            item | {"name": self._names.to_codex(item["name"])} if item["type"] == "function_call" else item
            for item in self._prompt.items
        ]

    def _start_turns(self, items: dict[str, list[dict[str, Any]]]) -> Generator[None, None, None]:
        """Add items to threads and start a turn in each, in one write."""
        batch: list[calls.Call] = []
        for thread_id, added in items.items():
            batch.append(calls.inject_items(thread_id, added))
            batch.append(
                calls.start_turn(
                    thread_id, self._effort, self._prompt.request.summary, self._prompt.output_schema
                )
            )
        started = [self._threads[thread_id] for thread_id in items]
        for thread in started:
            thread.state = _State.STARTING
        answers = yield from self._rpc.call_all(batch)
        for thread, answer in zip(started, answers[1::2], strict=True):
            thread.turn_id, thread.state = calls.read_id(answer, "turn"), _State.RUNNING

    def read(self) -> list[BackendEvent]:
        """What one read of the pipe brings; waits at most a tick."""
        unread, self._unread = self._unread, []
        return unread or self._hear()

    def _hear(self) -> list[BackendEvent]:
        messages = self._rpc.receive()
        self._questions.note_read(bool(messages), self._reader.holds_calls)
        events: list[BackendEvent] = []
        for method, run in itertools.groupby(messages, METHOD):
            if method == TEXT_DELTA:
                events += self._reader.read_text([message.params for message in run])
            else:
                events += itertools.chain.from_iterable(map(self._take, run))
        return events

    def _take(self, message: Incoming) -> list[BackendEvent]:
        if isinstance(message, ServerRequest):
            self._take_question(message)
            return []
        take = NOTED.get(message.method)
        return take(self, message) if take else self._reader.read(message)

    def _take_item(self, notification: Notification) -> list[BackendEvent]:
        done = read_raw_item(notification.params)
        if done is None:
            return []
        self.transcript.note_item(done, self._questions.answered)
        if isinstance(done.item, Called):
            self._questions.note_call((done.thread_id, done.item.call_id))
        return self._reader.read_item(done)

    def _take_end(self, notification: Notification) -> list[BackendEvent]:
        if over := turn_ends.read_turn_over(notification.params):
            self.transcript.note_end(over.is_complete)
            if thread := self._threads.get(over.thread_id):
                thread.state = _State.IDLE
        return self._reader.read(notification)

    def _take_question(self, request: ServerRequest) -> None:
        key = read_key(request)
        if key and (thread := self._threads.get(key[0])) and thread.state is _State.RUNNING:
            self._questions.take(key, request, is_complete=not self._reader.holds_calls(thread.id))
        else:
            self._rpc.decline(request)

    @property
    def is_asked(self) -> bool:
        """Whether there are questions that `carry_out` will answer."""
        return self._questions.are_answerable

    def carry_out(self, orders: Sequence[Order]) -> Generator[None, None, None]:
        """Do what the core wants, and answer what codex asked."""
        threads = [*self._threads.values()]
        for order in orders:
            thread = threads[order.choice]
            match order:
                case RefuseCall(_, call_id, message):
                    self.transcript.has_secrets = True
                    self._questions.settle((thread.id, call_id), build_refusal(message))
                case AskAgain(_, message):
                    self.transcript.has_secrets = True
                    yield from self._start_turns({thread.id: [build_instruction(message)]})
                case StopChoice():
                    self._stop(thread)
                case AwaitResults():
                    pass  # as it does by itself
                case _:
                    assert_never(order)
        yield from self._questions.answer()

    def find_resting(self) -> RestingThread | None:
        """The thread, if it is one that rests behind an answer and holds just what its client knows."""
        match [*self._threads.values()]:
            case [_Thread(id=id_, state=_State.IDLE)] if (
                self.transcript.text and not self.transcript.has_secrets
            ):
                return RestingThread(id_, self._reader.get_usage(id_))
            case _:
                return None

    @property
    def is_running(self) -> bool:
        return any(thread.state is not _State.IDLE for thread in self._threads.values())

    @property
    def can_wait(self) -> bool:
        """Whether there is one turn here, which still runs."""
        return [thread.state for thread in self._threads.values()] == [_State.RUNNING]

    def _stop(self, thread: _Thread) -> None:
        """Interrupt a turn without waiting for its end, and hear no more of it."""
        self._reader.drop_thread(thread.id)
        if thread.state is _State.RUNNING:
            thread.state = _State.STOPPED
            self._rpc.ask(calls.interrupt_turn(thread.id, thread.turn_id))

    def interrupt(self) -> bool:
        """Stop what still runs; false if codex does not say so in time, or if we do not know what runs."""
        if any(thread.state is _State.STARTING for thread in self._threads.values()):
            return False
        deadline_s = time.monotonic() + self._settings.interrupt_timeout_s
        try:
            for thread in self._threads.values():
                self._stop(thread)
            # The end of the turn counts, not the reply: a second interrupt is never answered.
            while self.is_running and time.monotonic() < deadline_s:
                for message in self._rpc.receive():
                    self._take(message)
        except ProxyError:
            return False
        return not self.is_running


#: What is noted here, beside what it means to the core.
NOTED: dict[str, Callable[[Threads, Notification], list[BackendEvent]]] = {
    raw_items.METHOD: Threads._take_item,
    turn_ends.METHOD: Threads._take_end,
}
