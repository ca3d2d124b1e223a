"""The items of a thread, as codex tells them whole: read here once, for all who are to know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any

from app.lib.errors import BackendRefused
from app.lib.events import SearchAction, SearchKind
from app.lib.tool_call_shapes import is_injected

Params = dict[str, Any]

METHOD = "rawResponseItem/completed"
SEARCH_KINDS = set(SearchKind)
#: What a reader meets in what is not as codex tells it.
ODD = (AttributeError, KeyError, TypeError)


@dataclass(frozen=True, slots=True)
class Said:
    """A whole message of the model's."""

    id: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    id: str
    texts: tuple[str, ...]
    encrypted: str | None


@dataclass(frozen=True, slots=True)
class Called:
    call_id: str
    #: As codex knows the tool; `None` for one of a namespace, which no tool of a client has.
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A call has its result: the client's, or one of codex's own."""

    call_id: str | None


@dataclass(frozen=True, slots=True)
class SearchedWeb:
    id: str | None
    action: SearchAction | None


Item = Said | Thought | Called | Answered | SearchedWeb


@dataclass(frozen=True, slots=True)
class ItemDone:
    thread_id: str
    item: Item


def read_raw_item(params: Params) -> ItemDone | None:
    """`None` for what is no thread's, what repeats the history, and kinds that tell nothing."""
    try:
        return _read(params)
    except ODD as error:
        raise refuse(METHOD) from error


def refuse(method: str) -> BackendRefused:
    """Another release of codex: better an error that says so than an answer with holes."""
    return BackendRefused(f"Codex sent {method} in an unknown shape.")


def _read(params: Params) -> ItemDone | None:
    match params:
        case {"threadId": str(thread_id), "item": {"type": str(kind)} as raw} if not is_injected(params):
            read = ITEMS.get(kind)
            item = read(raw) if read else None
            return ItemDone(thread_id, item) if item else None
        case _:
            return None


def read_message(raw: Params) -> Said | None:
    match raw:
        case {"role": "assistant", "content": list(parts)}:
            return Said(read_id(raw), "".join(part.get("text", "") for part in parts))
        case _:
            return None


def read_reasoning(raw: Params) -> Thought | None:
    match raw:
        case {"id": str(id_), "summary": list(parts)}:
            texts = tuple(require(part.get("text", ""), str) for part in parts)
            return Thought(id_, texts, require(raw.get("encrypted_content"), str, NoneType))
        case _:
            return None


def read_call(raw: Params) -> Called:
    call_id, arguments = require(raw["call_id"], str), require(raw["arguments"], str)
    return Called(call_id, None if raw.get("namespace") else require(raw["name"], str), arguments)


def read_output(raw: Params) -> Answered:
    call_id = raw.get("call_id")
    return Answered(call_id if isinstance(call_id, str) else None)


def read_search(raw: Params) -> SearchedWeb:
    match raw:
        case {"action": {"type": str()} as action}:
            return SearchedWeb(read_id(raw), read_action(action))
        case _:
            return SearchedWeb(read_id(raw), None)


def read_action(action: Params) -> SearchAction:
    """What else codex may come to do on the web is told as a search."""
    kind = SearchKind(action["type"]) if action["type"] in SEARCH_KINDS else SearchKind.SEARCH
    query, url, pattern = (action.get(key) or "" for key in ("query", "url", "pattern"))
    return SearchAction(kind, query, tuple(action.get("queries") or ()), url, pattern)


def read_id(raw: Params) -> str | None:
    id_ = raw.get("id")
    return id_ if isinstance(id_, str) else None


def require(value: Any, *types: type) -> Any:
    """What is of a known type; anything else would only be missed further on, where nobody knows codex."""
    if type(value) not in types:
        raise TypeError(value)
    return value


ITEMS: dict[str, Callable[[Params], Item | None]] = {
    "message": read_message,
    "reasoning": read_reasoning,
    "function_call": read_call,
    "function_call_output": read_output,
    "web_search_call": read_search,
}
