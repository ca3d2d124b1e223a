"""What requests say of responses that were stored."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.handlers.stores import ask, ask_lightly
from app.lib.dialects.response_body import Body
from app.lib.dialects.response_input import build_input_item
from app.lib.errors import ContextTooLong, InvalidRequest, UnknownPrevious, UnknownResponse
from app.lib.request import HistoryItem, ItemReference, PastCall, PastOutput, PastReasoning
from app.schemas.response_input import read_input
from app.schemas.responses import ResponsesRequest
from app.store.responses import NOTHING, Conversation, ResponseStore, Standing

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """The conversation a request belongs to."""

    #: What went before, as it was stored, and what it says.
    earlier: Conversation
    history: tuple[HistoryItem, ...]
    #: The request's own items, every reference followed.
    items: tuple[HistoryItem, ...]

    def build_input(self, id_suffix: str) -> list[Body]:
        """The request's own items, to be stored behind what went before."""
        return [build_input_item(item, f"in{place:03}_{id_suffix}") for place, item in enumerate(self.items)]


class Archive:
    """One owner's view of the store; what it cannot do now is a 503."""

    def __init__(self, store: ResponseStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    def get(self, response_id: str) -> Body:
        return require(ask(lambda: self._store.get(self._owner, response_id)), response_id)

    def read_input(self, response_id: str) -> list[Body]:
        return require(ask(lambda: self._store.read_input(self._owner, response_id)), response_id)

    def delete(self, response_id: str) -> None:
        is_gone = ask(lambda: self._store.delete(self._owner, response_id))
        require(is_gone or None, response_id)

    def get_standing(self, response_id: str) -> Standing:
        return require(ask(lambda: self._store.get_standing(self._owner, response_id)), response_id)

    def ask_cancel(self, response_id: str) -> None:
        ask(lambda: self._store.ask_cancel(self._owner, response_id))

    def read_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        return ask(lambda: self._store.read_events(response_id, after, 1000))

    def resolve(self, request: ResponsesRequest) -> Context:
        items = tuple(self._follow(request.items))
        earlier = self._find_earlier(request.previous_response_id, items)
        history = read_stored(earlier.items)
        told = {item.call_id for item in (*history, *items) if isinstance(item, PastCall)}
        return Context(earlier, history, tuple(self._complete(items, told)))

    def _find_earlier(self, previous_id: str | None, items: tuple[HistoryItem, ...]) -> Conversation:
        if previous_id is not None:
            return self._recall(previous_id)
        outputs = [item for item in items if isinstance(item, PastOutput)]
        if not outputs or len(outputs) < len(items):
            return NOTHING
        # Nothing but results: the conversation that asked for them is theirs.
        call_id = outputs[0].call_id
        return ask_lightly(lambda: self._store.recall_call(self._owner, call_id)) or NOTHING

    def _recall(self, response_id: str) -> Conversation:
        standing = ask(lambda: self._store.get_standing(self._owner, response_id))
        is_over = standing is not None and standing.is_over
        recalled = ask(lambda: self._store.recall(self._owner, response_id)) if is_over else None
        if recalled is None:
            why = "not found" if standing is None or is_over else "is not finished yet"
            raise UnknownPrevious(
                f"Previous response with id '{response_id}' {why}.", param="previous_response_id"
            )
        return recalled

    def _follow(self, items: Sequence[HistoryItem | ItemReference]) -> Iterator[HistoryItem]:
        """The items, those in the place of references that were stored."""
        referred = self._find_referred([item.id for item in items if isinstance(item, ItemReference)])
        thoughts = self._find_thoughts(items)
        for item in items:
            match item:
                case ItemReference(item_id):
                    yield from read_stored([referred[item_id]])
                case PastReasoning(None, _, str(item_id)) if item_id in thoughts:
                    yield from read_stored([thoughts.pop(item_id)])
                case _:
                    yield item

    def _find_referred(self, ids: Sequence[str]) -> dict[str, Body]:
        found = ask(lambda: self._store.find_items(self._owner, {("item", each) for each in ids}))
        for item_id, times in collections.Counter(ids).items():
            if ("item", item_id) not in found:
                raise UnknownResponse(
                    f"Item with id '{item_id}' not found. Items are kept only of responses that are stored.",
                    param="input",
                    code="item_not_found",
                )
            if times > 1:
                raise InvalidRequest(f"Item with id '{item_id}' is referred to twice.", param="input")
        return {item_id: item for (_, item_id), item in found.items()}

    def _find_thoughts(self, items: Sequence[HistoryItem | ItemReference]) -> dict[str, Body]:
        """Reasoning that a client echoes without what only the model can read: it was not given that."""
        bare = [item for item in items if isinstance(item, PastReasoning) and item.encrypted is None]
        found = self._find_lightly({("item", item.item_id) for item in bare if item.item_id})
        return {item_id: item for (_, item_id), item in found.items()}

    def _complete(self, items: tuple[HistoryItem, ...], told: set[str]) -> Iterator[HistoryItem]:
        """Put the calls that were made here before outputs that lack them."""
        untold = {item.call_id for item in items if isinstance(item, PastOutput)} - told
        calls = self._find_lightly({("call", call_id) for call_id in untold})
        for item in items:
            call = calls.pop(("call", item.call_id), None) if isinstance(item, PastOutput) else None
            yield from read_stored([call] if call else [])
            yield item

    def _find_lightly(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], Body]:
        """None of them rather than an error: the request is complete without."""
        try:
            return ask_lightly(lambda: self._store.find_items(self._owner, keys)) or {}
        except ContextTooLong:
            return {}


def require(found: T | None, response_id: str) -> T:
    if found is None:
        raise UnknownResponse(f"Response with id '{response_id}' not found.")
    return found


def read_stored(items: list[Body]) -> tuple[HistoryItem, ...]:
    """Items that we wrote: there are no references among them."""
    read = read_input(items) if items else ()
    return tuple(item for item in read if not isinstance(item, ItemReference))
