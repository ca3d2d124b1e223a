"""Past calls and their outputs, put so that codex or the model is given all of them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from app.lib.request import HistoryItem, Message, Part, PastCall, PastOutput, PastReasoning, Role, TextPart
from app.lib.tool_manifest import flatten_call, flatten_output

MAX_ID_CHARS = 64  # the model's API takes no longer one


class CallIds:
    """The ids that calls go by, short and each used once, and which of them wait for an output."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers = itertools.count(1)
        #: The client's id to the calls it stands for, a queue for each batch of them.
        self._waiting: dict[str, list[tuple[int, deque[str]]]] = {}
        self._batch = 0

    def end_batch(self) -> None:
        """Something else than a call came."""
        self._batch += 1

    def open(self, given: str) -> str:
        """The id for a call the client gave this one."""
        call_id = given if self._can_take(given) else next(filter(self._can_take, self._make()))
        self._taken.add(call_id)
        batches = self._waiting.setdefault(given, [])
        if not batches or batches[-1][0] != self._batch:
            batches.append((self._batch, deque()))
        batches[-1][1].append(call_id)
        return call_id

    def close(self, given: str) -> str | None:
        """The id of the call that an output answers, if one waits for it.

        That is one of the latest batch, and there the first: clients that use a tool's name for an id
        give the outputs of a batch in the order of its calls.
        """
        batches = self._waiting.get(given)
        if not batches:
            return None
        queue = batches[-1][1]
        call_id = queue.popleft()
        if not queue:
            batches.pop()
        return call_id

    def _can_take(self, call_id: str) -> bool:
        return 0 < len(call_id) <= MAX_ID_CHARS and call_id not in self._taken

    def _make(self) -> Iterator[str]:
        return (f"call_{number}" for number in self._numbers)


def settle_history(items: Iterable[HistoryItem]) -> list[HistoryItem]:
    """The history with every output behind its own call.

    Codex drops an output that has none, so it becomes text; to a call without output codex gives one.
    """
    history = list(items)
    if all(isinstance(item, Message) for item in history):
        return history
    ids = CallIds()
    return [settle_item(item, ids) for item in history]


def settle_item(item: HistoryItem, ids: CallIds) -> HistoryItem:
    if isinstance(item, PastCall):
        return PastCall(ids.open(item.call_id), item.name, item.arguments)
    ids.end_batch()
    if not isinstance(item, PastOutput):
        return item
    call_id = ids.close(item.call_id)
    return flatten_item(item) if call_id is None else PastOutput(call_id, item.parts)


def flatten_history(items: Iterable[HistoryItem]) -> list[HistoryItem]:
    """The history with calls and outputs as text, for a model that knows no functions."""
    return [flatten_item(item) for item in items]


def flatten_item(item: HistoryItem) -> Message | PastReasoning:
    match item:
        case Message() | PastReasoning():
            return item
        case PastCall(call_id, name, arguments):
            return Message(Role.ASSISTANT, (TextPart(flatten_call(call_id, name, arguments)),))
        case PastOutput(call_id, parts):
            text = TextPart(flatten_output(call_id, join_text(parts)))
            return Message(Role.USER, (text, *(part for part in parts if not isinstance(part, TextPart))))
        case _:
            assert_never(item)


def join_text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def lift_leading_assistant(items: Sequence[HistoryItem]) -> tuple[HistoryItem, ...]:
    """Read an assistant message before any user message as instructions, unless it made calls.

    Obsidian Copilot 3.1.x sends its system prompt that way.
    """
    lifted: list[HistoryItem] = []
    for place, item in enumerate(items):
        match item, items[place + 1 : place + 2]:
            case Message(Role.DEVELOPER), _:
                lifted.append(item)
            case Message(Role.ASSISTANT, parts), ([] | [Message() | PastOutput()]):
                lifted.append(Message(Role.DEVELOPER, parts))
            case _:
                break
    return (*lifted, *items[len(lifted) :])
