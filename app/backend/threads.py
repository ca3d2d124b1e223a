"""One request's threads on a codex process: opened, read, told what the core wants, interrupted."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, assert_never

from app.backend import calls
from app.backend.callbacks import Answer, Callbacks, Key, build_answer, build_refusal, read_key
from app.backend.directory import ModelDirectory
from app.backend.dynamic_tools import build_dynamic_tools, validate_output_schema
from app.backend.inbox import Incoming
from app.backend.jsonrpc import Notification, ServerRequest
from app.backend.notifications import METHOD, TEXT_DELTA, NotificationReader
from app.backend.process import CodexProcess
from app.backend.resting import RestingThread
from app.backend.tool_names import ToolNames
from app.backend.transcript import Transcript
from app.lib.errors import BackendRefused, BackendTimeout, ProcessFailed, ProxyError
from app.lib.events import BackendEvent
from app.lib.models import Model
from app.lib.orders import AskAgain, AwaitResults, Order, RefuseCall, StopChoice
from app.lib.prompt import Prompt, build_instruction, build_item, build_prompt
from app.lib.request import HistoryItem, Message, PastOutput, ToolTransport
from app.settings import Settings

log = logging.getLogger(__name__)

MAX_PATIENCE_S = 30.0


class Threads:
    """A thread for each choice, and its running turn; whatever waits is a generator that yields meanwhile."""

    def __init__(self, process: CodexProcess, prompt: Prompt, settings: Settings) -> None:
        self._process = process
        self._prompt = prompt
        self._settings = settings
        self._names = ToolNames(prompt.tools)
        self._reader = NotificationReader(self._names)
        self._callbacks = Callbacks()
        self._effort: str | None = None
        #: By choice.
        self._ids: list[str] = []
        #: The turns that run: thread id to turn id.
        self._running: dict[str, str] = {}
        #: Threads whose turn we had interrupted before the others'.
        self._stopped: set[str] = set()
        #: Threads whose response seemed broken behind a call.
        self._given_up: set[str] = set()
        self._heard_s = time.monotonic()
        #: Calls are out that start turns whose ids are not known yet.
        self._is_starting = False
        #: What was told while something else was waited for.
        self._unread: list[BackendEvent] = []
        #: Questions that can be answered, with their answers.
        self._answerable: list[tuple[ServerRequest, Answer]] = []
        self.transcript = Transcript()

    def run_beside(self, choices: Collection[int]) -> bool:
        """Whether a turn runs that is of none of these, nor was stopped."""
        theirs = {self._ids[choice] for choice in choices}
        return bool(self._running.keys() - self._stopped - theirs)

    def open(self, directory: ModelDirectory, model: Model) -> Generator[None, None, None]:
        """Open the threads and start their turns."""
        validate_output_schema(self._prompt.output_schema)
        self._effort = self._prompt.request.effort or model.effort
        for choice, answer in enumerate((yield from self._open_threads(directory, model))):
            self._ids.append(calls.read_id(answer, "thread"))
            self._reader.add_thread(self._ids[-1], choice)
        yield from self._start_turns(dict.fromkeys(self._ids, self._rename_calls()))

    def go_on(
        self, thread: RestingThread, model: Model, said: Sequence[HistoryItem]
    ) -> Generator[None, None, None]:
        """Start a turn in a thread that holds the conversation so far."""
        self._effort = self._prompt.request.effort or model.effort
        self._ids.append(thread.id)
        self._reader.add_thread(thread.id, 0, thread.usage)
        self._process.turns += 1
        yield from self._start_turns({thread.id: [build_item(item) for item in said]})

    def resume(
        self, outputs: Mapping[str, PastOutput], said: Sequence[Message]
    ) -> Generator[None, None, None]:
        """Have the turn that waits for these results go on, by codex's own ids of the calls."""
        [thread_id] = self._ids
        self.transcript.begin()
        self._heard_s = time.monotonic()
        if said:
            # Behind the results, as long as the turn waits; later it would break off the answer.
            yield from self._process.call(calls.inject_items(thread_id, [build_item(item) for item in said]))
        for call_id, output in outputs.items():
            self._settle((thread_id, call_id), build_answer(output.parts))
        deadline_s = time.monotonic() + self._settings.rpc_timeout_s
        while not self.transcript.has_results:
            self._check_wait(thread_id, deadline_s)
            yield from self._answer_questions()
            self._unread += self._hear()
            yield

    def _check_wait(self, thread_id: str, deadline_s: float) -> None:
        if thread_id not in self._running:
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
        self._is_starting = True
        answers = yield from self._process.call_all(batch)
        for thread_id, answer in zip(items, answers[1::2], strict=True):
            self._running[thread_id] = calls.read_id(answer, "turn")
        self._is_starting = False

    def read(self) -> list[BackendEvent]:
        """What one read of the pipe brings; waits at most a tick."""
        unread, self._unread = self._unread, []
        return unread or self._hear()

    def _hear(self) -> list[BackendEvent]:
        messages = self._process.receive()
        if self._callbacks.waiting:
            self._lose_patience(bool(messages))
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
        if message.method in NOTED:
            NOTED[message.method](self, message)
        return self._reader.read(message)

    def _note_end(self, notification: Notification) -> None:
        self.transcript.note_end(notification.params)
        match notification.params:
            case {"threadId": str(thread_id)}:
                self._running.pop(thread_id, None)

    def _note_item(self, notification: Notification) -> None:
        self.transcript.note_item(notification.params, self._callbacks)
        match notification.params:
            case {"threadId": str(thread_id), "item": {"type": "function_call", "call_id": str(call_id)}}:
                # Its response goes on, and an answer about an earlier call of its id is void.
                self._given_up.discard(thread_id)
                self._callbacks.forget((thread_id, call_id))

    def _take_question(self, request: ServerRequest) -> None:
        """Answer if the core has said how; else it waits for that, or for the turn's interrupt."""
        key = read_key(request)
        if key is None or not self._is_awaited(key[0]):
            self._process.decline(request)
            return
        self._heard_s = time.monotonic()
        answer = self._callbacks.ask(key, request)
        if answer is not None:
            self._answerable.append((request, answer))

    def _is_awaited(self, thread_id: str) -> bool:
        """Whether there may yet be a word on a thread's calls."""
        is_broken = thread_id in self._given_up and self._reader.holds_calls(thread_id)
        return thread_id in self._running and thread_id not in self._stopped and not is_broken

    def _lose_patience(self, is_heard: bool) -> None:
        """Decline questions behind which codex falls silent though the response is not complete.

        It tells of a connection that broke there only once its questions are answered.
        """
        now_s = time.monotonic()
        if is_heard:
            self._heard_s = now_s
        if now_s < self._heard_s + min(MAX_PATIENCE_S, self._settings.idle_timeout_s / 4):
            return
        silent = {each for each in self._callbacks.waiting if self._reader.holds_calls(each)}
        self._given_up |= silent
        for request in self._callbacks.take_open(silent):
            self._process.decline(request)

    @property
    def is_asked(self) -> bool:
        """Whether there are questions that `carry_out` will answer."""
        return bool(self._answerable)

    def carry_out(self, orders: Sequence[Order]) -> Generator[None, None, None]:
        """Do what the core wants, and answer what codex asked."""
        for order in orders:
            thread_id = self._ids[order.choice]
            match order:
                case RefuseCall(_, call_id, message):
                    self.transcript.has_secrets = True
                    self._settle((thread_id, call_id), build_refusal(message))
                case AskAgain(_, message):
                    self.transcript.has_secrets = True
                    yield from self._start_turns({thread_id: [build_instruction(message)]})
                case StopChoice():
                    self._stop(thread_id)
                case AwaitResults():
                    pass  # as it does by itself
                case _:
                    assert_never(order)
        yield from self._answer_questions()

    def _settle(self, key: Key, answer: Answer) -> None:
        self._answerable += [(request, answer) for request in self._callbacks.settle(key, answer)]

    def _answer_questions(self) -> Generator[None, None, None]:
        while self._answerable:
            request, answer = self._answerable.pop(0)
            yield from self._process.answer(request, answer)

    def find_resting(self) -> RestingThread | None:
        """The thread, if it is one that rests behind an answer and holds just what its client knows."""
        if len(self._ids) != 1 or self._running or self.transcript.has_secrets or not self.transcript.text:
            return None
        return RestingThread(self._ids[0], self._reader.get_usage(self._ids[0]))

    @property
    def is_running(self) -> bool:
        return bool(self._running) or self._is_starting

    @property
    def can_wait(self) -> bool:
        """Whether there is one turn here, which still runs."""
        return [*self._running] == self._ids[:1] and not self._stopped

    def _stop(self, thread_id: str) -> None:
        """Interrupt a turn without waiting for its end, and hear no more of it."""
        self._reader.drop_thread(thread_id)
        if thread_id in self._running and thread_id not in self._stopped:
            self._stopped.add(thread_id)
            self._process.ask(calls.interrupt_turn(thread_id, self._running[thread_id]))

    def interrupt(self) -> bool:
        """Stop what still runs; false if codex does not say so in time, or if we do not know what runs."""
        if self._is_starting:
            return False
        deadline_s = time.monotonic() + self._settings.interrupt_timeout_s
        try:
            for thread_id in [*self._running]:
                self._stop(thread_id)
            # The end of the turn counts, not the reply: a second interrupt is never answered.
            while self._running and time.monotonic() < deadline_s:
                for message in self._process.receive():
                    self._take(message)
        except ProxyError:
            return False
        return not self._running


NOTED: dict[str, Callable[[Threads, Notification], None]] = {
    "turn/completed": Threads._note_end,
    "rawResponseItem/completed": Threads._note_item,
}
