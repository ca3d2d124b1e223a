"""Codex's notifications as backend events; no other place makes events of what codex says."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, assert_never

from app.backend.callbacks import is_asked_about
from app.backend.codex_errors import build_error
from app.backend.jsonrpc import Notification
from app.backend.limits import read_limits
from app.backend.tool_names import ToolNames
from app.lib.account_limits import AccountLimits
from app.lib.errors import BackendRefused, BackendUnavailable
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
    SearchKind,
    TextDelta,
    ToolSignal,
    TurnEnded,
    TurnFailed,
)
from app.lib.tool_call_shapes import is_echo
from app.lib.usage import NOTHING_USED, Usage

Params = dict[str, Any]

TEXT_DELTA = "item/agentMessage/delta"
METHOD = operator.attrgetter("method")
PLACE = operator.itemgetter("threadId", "itemId")
WORDS = operator.itemgetter("delta")

# Part of a longer message, at times: "stream disconnected before completion: Incomplete response …".
INCOMPLETE = {
    "Incomplete response returned, reason: max_output_tokens": FinishReason.LENGTH,
    "Incomplete response returned, reason: content_filter": FinishReason.CONTENT_FILTER,
}

SEARCH_KINDS = set(SearchKind)
# What says nothing of the model: the user's own message, and a question about a call that it made before.
NOT_THE_MODEL = ("userMessage", "dynamicToolCall")
RESPONSE_ENDS = (ResponseDone, Retrying)


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
        except (AttributeError, KeyError, TypeError) as error:
            # Another release of codex: better an error that says so than an answer with holes.
            raise BackendRefused(f"Codex sent {notification.method} in an unknown shape.") from error

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
        if notification.method == "account/rateLimits/updated":
            return self._note_limits(notification.params)
        thread = self._threads.get(notification.params.get("threadId", ""))
        if thread is None:
            return []
        read = READERS.get(notification.method)
        if read is not None:
            return self._tell(thread, read(thread.choice, notification.params))
        match notification.method:
            case "thread/tokenUsage/updated":
                thread.total = build_usage(notification.params.get("tokenUsage", {}).get("total"))
                return []
            case "turn/completed":
                return self._end_turn(thread, notification.params)
            case "rawResponseItem/completed":
                return self._read_item(thread, notification.params)
            case _:
                return []

    def _tell(self, thread: _Thread, event: BackendEvent | None) -> list[BackendEvent]:
        if isinstance(event, RESPONSE_ENDS):
            return self._end_response(thread, event)
        return [event] if event else []

    def _end_response(self, thread: _Thread, end: ResponseDone | Retrying) -> list[BackendEvent]:
        """A complete response's calls were made, a broken one's never."""
        made = thread.take_calls()
        match end:
            case ResponseDone(_, usage):
                thread.reported += usage
                return [*made, end]
            case Retrying():
                return [end]
            case _:
                assert_never(end)

    def _read_item(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        match params:
            case {"item": {"type": "function_call"} as item} if not is_echo(params):
                thread.calls.append(self._read_call(thread, item))
                return [CallComing(thread.choice)]
            case _:
                return self._tell(thread, read_raw_item(thread.choice, params))

    def _read_call(self, thread: _Thread, item: Params) -> BackendEvent:
        """A call under the client's name; codex has the model correct those that it does not ask about."""
        call_id, arguments = item["call_id"], item["arguments"]
        name = None if item.get("namespace") else self._names.to_client(item["name"])
        if not (isinstance(call_id, str) and isinstance(arguments, str)):
            raise TypeError(item)
        if name is None or not is_asked_about(arguments):
            return CallRejected(thread.choice)
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        if call_id in thread.call_ids:
            del call["call_id"]  # another call all the same; two of one id could not be told apart
        thread.call_ids.add(call_id)
        return ToolSignal(thread.choice, call)

    def _end_turn(self, thread: _Thread, params: Params) -> list[BackendEvent]:
        thread.take_calls()
        end = read_turn_completed(thread.choice, params, self._limits.resets_at_s)
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


def read_item_started(choice: int, params: Params) -> BackendEvent | None:
    return None if params.get("item", {}).get("type") in NOT_THE_MODEL else ModelActive(choice)


def read_text_delta(choice: int, params: Params) -> BackendEvent:
    return TextDelta(choice, *read_delta(params))


def read_summary_delta(choice: int, params: Params) -> BackendEvent:
    item_id, text = read_delta(params)
    return ReasoningDelta(choice, item_id, require(params.get("summaryIndex", 0), int), text)


def read_delta(params: Params) -> tuple[str, str]:
    """The item a delta belongs to, and its text."""
    item_id, text = params["itemId"], params["delta"]
    if not (isinstance(item_id, str) and isinstance(text, str)):
        raise TypeError(params)
    return item_id, text


def require(value: Any, *types: type) -> Any:
    """What is of a known type; anything else would only be missed further on, where nobody knows codex."""
    if type(value) not in types:
        raise TypeError(value)
    return value


def read_raw_item(choice: int, params: Params) -> BackendEvent | None:
    match params.get("item"):
        case _ if is_echo(params):
            return None
        case {"type": "message", "role": "assistant", "id": str(id_), "content": list(parts)}:
            return MessageDone(choice, id_, "".join(part.get("text", "") for part in parts))
        case {"type": "reasoning", "id": str(id_), "summary": list(parts)}:
            texts = tuple(require(part.get("text", ""), str) for part in parts)
            encrypted = require(params["item"].get("encrypted_content"), str, NoneType)
            return ReasoningDone(choice, id_, texts, encrypted)
        case {"type": "web_search_call", "id": str(id_), "action": {"type": str()} as action}:
            return SearchDone(choice, id_, read_action(action))
        case _:
            return None


def read_action(action: Params) -> SearchAction:
    """What else codex may come to do on the web is told as a search."""
    kind = SearchKind(action["type"]) if action["type"] in SEARCH_KINDS else SearchKind.SEARCH
    query, url, pattern = (action.get(key) or "" for key in ("query", "url", "pattern"))
    return SearchAction(kind, query, tuple(action.get("queries") or ()), url, pattern)


def read_usage(choice: int, params: Params) -> BackendEvent:
    return ResponseDone(choice, build_usage(params.get("usage")))


def build_usage(raw: Params | None) -> Usage:
    raw = raw or {}
    names = ("inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens")
    return Usage(*(require(raw.get(name, 0), int) for name in names))


def read_error(choice: int, params: Params) -> BackendEvent | None:
    # A final error is told again, with its turn, by `turn/completed`.
    if not params.get("willRetry"):
        return None
    return Retrying(choice, params.get("error", {}).get("message", ""))


def read_turn_completed(choice: int, params: Params, resets_at_s: float | None = None) -> BackendEvent:
    turn = params.get("turn", {})
    if turn.get("status") == "completed":
        return TurnEnded(choice, FinishReason.STOP)
    if turn.get("status") == "interrupted":
        return TurnFailed(BackendUnavailable("The turn was interrupted."))
    error = turn.get("error") or {}
    message = error.get("message") or "Codex failed without saying why."
    for marker, reason in INCOMPLETE.items():
        if marker in message:
            return TurnEnded(choice, reason)
    return TurnFailed(build_error(message, error.get("codexErrorInfo"), resets_at_s))


READERS: dict[str, Callable[[int, Params], BackendEvent | None]] = {
    "item/started": read_item_started,
    TEXT_DELTA: read_text_delta,
    "item/reasoning/summaryTextDelta": read_summary_delta,
    "rawResponse/completed": read_usage,
    "error": read_error,
}
