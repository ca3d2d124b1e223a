"""Codex's notifications as backend events; no other place makes events of what codex says."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.backend import raw_items, turn_ends
from app.backend.account_limits import read_limits
from app.backend.callbacks import is_asked_about
from app.backend.jsonrpc import Notification
from app.backend.raw_items import (
    ODD,
    Called,
    Item,
    ItemDone,
    Said,
    SearchedWeb,
    Thought,
    read_raw_item,
    refuse,
    require,
)
from app.backend.tool_names import ToolNames
from app.lib.account_limits import AccountLimits
from app.lib.events import (
    BackendEvent,
    CallComing,
    CallRejected,
    FinishReason,
    LimitsTold,
    MessageDone,
    ModelActive,
    ReasoningDelta,
    ReasoningDone,
    ResponseDone,
    Retrying,
    SearchAction,
    SearchDone,
    TextDelta,
    ToolSignal,
    TurnEnded,
)
from app.lib.usage import NOTHING_USED, Usage

Params = dict[str, Any]

TEXT_DELTA = "item/agentMessage/delta"
#: The account's, and so of no thread.
LIMITS = "account/rateLimits/updated"
METHOD = operator.attrgetter("method")
PLACE = operator.itemgetter("threadId", "itemId")
WORDS = operator.itemgetter("delta")

# What says nothing of the model: the user's own message, and a question about a call that it made before.
NOT_THE_MODEL = ("userMessage", "dynamicToolCall")


@dataclass(slots=True)
class _Thread:
    """One choice's thread, its calls, and its tokens: as told response by response, and as a whole."""

    choice: int
    #: Calls of the response that is under way: it may still break, and then they were never made.
    calls: list[BackendEvent] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    reported: Usage = field(default_factory=Usage)
    total: Usage = field(default_factory=Usage)

    def take_calls(self) -> list[BackendEvent]:
        calls, self.calls, self.call_ids = self.calls, [], set()
        return calls


class NotificationReader:
    """Reads the notifications of one request's threads; what belongs to other threads is dropped."""

    def __init__(self, names: ToolNames | None = None) -> None:
        self._names = names or ToolNames()
        self._threads: dict[str, _Thread] = {}
        self._limits = AccountLimits()

    def add_thread(self, thread_id: str, choice: int, used: Usage = NOTHING_USED) -> None:
        """Read a thread, which earlier requests may have `used`: its total goes on from there."""
        self._threads[thread_id] = _Thread(choice, reported=used, total=used)

    def get_usage(self, thread_id: str) -> Usage:
        """The tokens of all turns of a thread."""
        thread = self._threads.get(thread_id)
        if thread is None:
            return NOTHING_USED
        is_told = thread.total.input_tokens >= thread.reported.input_tokens
        return thread.total if is_told else thread.reported

    def drop_thread(self, thread_id: str) -> None:
        """From now on it is another's: whatever becomes of its turn, its end included, is not told."""
        self._threads.pop(thread_id, None)

    def holds_calls(self, thread_id: str) -> bool:
        """Whether calls came whose response is not complete yet."""
        thread = self._threads.get(thread_id)
        return thread is not None and bool(thread.calls)

    def read(self, notification: Notification) -> list[BackendEvent]:
        try:
            return self._read(notification)
        except ODD as error:
            raise refuse(notification.method) from error

    def read_text(self, deltas: Sequence[Params]) -> list[BackendEvent]:
        """Read deltas of text that came at once: an event for each item's, with its pieces."""
        try:
            return [*self._join(deltas)]
        except (KeyError, TypeError):  # for one of them is odd
            return [event for params in deltas for event in self.read(Notification(TEXT_DELTA, params))]

    def _join(self, deltas: Iterable[Params]) -> Iterator[BackendEvent]:
        for (thread_id, item_id), run in itertools.groupby(deltas, PLACE):
            if thread := self._threads.get(thread_id):
                pieces = tuple(map(WORDS, run))
                text = "".join(pieces)
                if not isinstance(item_id, str):
                    raise TypeError(item_id)
                yield TextDelta(thread.choice, item_id, text, tuple(filter(None, pieces)))

    def _read(self, notification: Notification) -> list[BackendEvent]:
        method, params = notification.method, notification.params
        read = READERS.get(method)
        if read is None:
            return self._note_limits(params) if method == LIMITS else []
        thread = self._threads.get(params.get("threadId", ""))
        return read(self, thread, params) if thread else []

    def _note_start(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        is_the_model = params.get("item", {}).get("type") not in NOT_THE_MODEL
        return [ModelActive(thread.choice)] if is_the_model else []

    def _read_text_delta(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        return [TextDelta(thread.choice, *read_delta(params))]

    def _read_summary_delta(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        item_id, text = read_delta(params)
        return [ReasoningDelta(thread.choice, item_id, require(params.get("summaryIndex", 0), int), text)]

    def _end_response(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        """A complete response's calls were made."""
        usage = build_usage(params.get("usage"))
        thread.reported += usage
        return [*thread.take_calls(), ResponseDone(thread.choice, usage)]

    def _break_response(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        """A broken response's calls never were; a final error is told again, with its turn's end."""
        if not params.get("willRetry"):
            return []
        message = params.get("error", {}).get("message", "")
        thread.take_calls()
        return [Retrying(thread.choice, message)]

    def _note_total(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        thread.total = build_usage(params.get("tokenUsage", {}).get("total"))
        return []

    def _read_raw_item(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        done = read_raw_item(params)
        return self._tell(thread, done.item) if done else []

    def read_item(self, done: ItemDone) -> list[BackendEvent]:
        """What an item means that others were told of, too."""
        thread = self._threads.get(done.thread_id)
        return self._tell(thread, done.item) if thread else []

    def _tell(self, thread: _Thread, item: Item) -> list[BackendEvent]:
        match item:
            case Called() as call:
                thread.calls.append(self._read_call(thread, call))
                return [CallComing(thread.choice)]
            case Said(str(id_), text):
                return [MessageDone(thread.choice, id_, text)]
            case Thought(id_, texts, encrypted):
                return [ReasoningDone(thread.choice, id_, texts, encrypted)]
            case SearchedWeb(str(id_), SearchAction() as action):
                return [SearchDone(thread.choice, id_, action)]
            case _:
                return []

    def _read_call(self, thread: _Thread, call: Called) -> BackendEvent:
        """A call under the client's name; codex has the model correct those that it does not ask about."""
        name = None if call.name is None else self._names.to_client(call.name)
        if name is None or not is_asked_about(call.arguments):
            return CallRejected(thread.choice)
        payload = {
            "type": "function_call",
            "call_id": call.call_id,
            "name": name,
            "arguments": call.arguments,
        }
        if call.call_id in thread.call_ids:
            del payload["call_id"]  # another call all the same; two of one id could not be told apart
        thread.call_ids.add(call.call_id)
        return ToolSignal(thread.choice, payload)

    def _end_turn(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        thread.take_calls()
        end = turn_ends.read_turn_end(thread.choice, params, self._limits.resets_at_s)
        if isinstance(end, TurnEnded) and end.reason is not FinishReason.STOP:
            # A response that was cut short is counted in the thread's total only, if at all.
            untold = thread.total - thread.reported
            return [ResponseDone(thread.choice, untold), end] if untold.input_tokens > 0 else [end]
        return [end]

    def _note_limits(self, params: Params) -> list[BackendEvent]:
        """The only place where codex tells when a used-up allowance comes back."""
        told = read_limits(params.get("rateLimits") or {})
        if told == AccountLimits():
            return []
        self._limits = self._limits.update(told)
        return [LimitsTold(self._limits)]


def read_delta(params: Params) -> tuple[str, str]:
    """The item a delta belongs to, and its text."""
    item_id, text = params["itemId"], params["delta"]
    if not (isinstance(item_id, str) and isinstance(text, str)):
        raise TypeError(params)
    return item_id, text


def build_usage(raw: Params | None) -> Usage:
    raw = raw or {}
    names = ("inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens")
    return Usage(*(require(raw.get(name, 0), int) for name in names))


READERS: dict[str, Callable[[NotificationReader, _Thread, Params], list[BackendEvent]]] = {
    "item/started": NotificationReader._note_start,
    TEXT_DELTA: NotificationReader._read_text_delta,
    "item/reasoning/summaryTextDelta": NotificationReader._read_summary_delta,
    raw_items.METHOD: NotificationReader._read_raw_item,
    "rawResponse/completed": NotificationReader._end_response,
    "error": NotificationReader._break_response,
    "thread/tokenUsage/updated": NotificationReader._note_total,
    turn_ends.METHOD: NotificationReader._end_turn,
}
