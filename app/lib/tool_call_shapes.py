"""Tool payloads of every accepted shape, read into one signal: codex v2, Responses events, chat deltas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from app.lib.json_text import dump_json

Payload = dict[str, Any]
#: Where a call stands in its source when it is not named: that source's numbering, and the number.
Place = tuple[str, int]

# A number past this is no index, and one of thousands of digits cannot be written.
MOST = 2**53
# A chunk in a notification is four deep; nobody wraps deeper in good faith.
DEEPEST_WRAP = 8


class Told(Enum):
    """How a payload tells a call's arguments."""

    FRAGMENT = "the text that comes next"
    SO_FAR = "all the text up to now"
    WHOLE = "all the text there will be"
    VALUE = "a parsed value; its own text is not known here"


# Both are made for every payload of a stream: a tuple costs a third of a frozen dataclass.
class CallSignal(NamedTuple):
    """One payload's word about one call."""

    told: Told
    text: str | None = None
    name: str | None = None
    call_id: str | None = None
    #: Every id the backend has for the call; any of them is enough to know it again.
    ids: tuple[str, ...] = ()
    place: Place | None = None
    #: With an id this tells a repeated fragment from an equal one.
    sequence: int | None = None
    #: The choice the payload itself names.
    choice: int | None = None


class Scope(NamedTuple):
    """What stands around a call: whether it is a final message's, and whose choice."""

    whole: bool
    choice: int | None = None


def read_signals(payload: object, whole: bool = False) -> list[CallSignal]:
    """What a payload says about calls: for most, nothing; `whole` if a bare chat message is a final one."""
    signals: list[CallSignal] = []
    for bare, scope in open_payload(payload, whole):
        signals += read_bare(bare, scope)
    return signals


def open_payload(payload: object, whole: bool) -> list[tuple[Payload, Scope]]:
    """What a payload wraps: one thing, or one of each choice of a chat chunk or completion."""
    if isinstance(payload, list):
        return [unwrap(each, Scope(whole)) for each in only_mappings(payload)]
    if not isinstance(payload, dict):
        return []
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return [unwrap(payload, Scope(whole))]
    return [unwrap(each, Scope(whole, read_index(each, "index"))) for each in only_mappings(choices)]


def split_choices(payload: Payload) -> list[tuple[int | None, Payload]]:
    """A payload for each choice of a chat chunk or completion, with that choice as far as it is named."""
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return [(unwrap(payload, Scope(whole=False))[1].choice, payload)]
    return [(read_index(each, "index"), each) for each in only_mappings(choices)]


def unwrap(payload: Payload, scope: Scope) -> tuple[Payload, Scope]:
    for _ in range(DEEPEST_WRAP):
        if is_injected(payload):
            break
        choice = read_index(payload, "choice_index", "choiceIndex", default=scope.choice)
        key = find_wrapper(payload)
        if key is None:
            return payload, Scope(scope.whole, choice)
        whole = WRAPPERS[key]
        payload, scope = payload[key], Scope(scope.whole if whole is None else whole, choice)
    return {}, scope


def find_wrapper(payload: Payload) -> str | None:
    for key in WRAPPERS:
        if isinstance(payload.get(key), dict):
            return key
    return None


def is_injected(params: Payload) -> bool:
    """Whether it is history: codex repeats it under this turn id, and its calls were made long ago."""
    turn_id = params.get("turnId")
    return isinstance(turn_id, str) and turn_id.startswith("auto-compact")


def read_bare(payload: Payload, scope: Scope) -> list[CallSignal]:
    kind = payload.get("type")
    read = EVENTS.get(kind) if isinstance(kind, str) else None
    if read is not None:
        return read(payload, scope)
    for key, read_part in PARTS.items():
        signals = read_part(payload, scope) if payload.get(key) else []
        if signals:
            return signals
    return []


def read_tool_calls(message: Payload, scope: Scope) -> list[CallSignal]:
    calls = list(only_mappings(message["tool_calls"]))
    # A call that has neither id nor index is told from its neighbours by its position.
    is_told_by_position = scope.whole or len(calls) > 1
    return [
        read_chat_call(call, scope, position if is_told_by_position else None)
        for position, call in enumerate(calls)
    ]


def read_one_call(call: Payload, scope: Scope) -> list[CallSignal]:
    """An entry of `tool_calls` by itself."""
    return [read_chat_call(call, scope, None)]


def read_chat_call(call: Payload, scope: Scope, position: int | None) -> CallSignal:
    given = call.get("function")
    function: Payload = given if isinstance(given, dict) else {}
    told, text = read_chat_arguments(call, function, scope)
    number = read_index(call, "index", default=position)
    call_id = read_text(call, "id")
    return CallSignal(
        told=told,
        text=text,
        name=read_text(function, "name"),
        call_id=call_id,
        ids=build_ids(call_id),
        place=None if number is None else ("index", number),
        choice=scope.choice,
    )


def read_chat_arguments(call: Payload, function: Payload, scope: Scope) -> tuple[Told, str | None]:
    """The field beside `function` holds all the text so far; the one inside it, the next fragment."""
    if call.get("arguments"):
        return read_arguments(call["arguments"], Told.WHOLE if scope.whole else Told.SO_FAR)
    return read_arguments(function.get("arguments"), Told.WHOLE if scope.whole else Told.FRAGMENT)


def read_function_call(message: Payload, scope: Scope) -> list[CallSignal]:
    """The legacy single call: there is one, so it is the first."""
    call = message["function_call"]
    if not isinstance(call, dict):
        return []
    told, text = read_arguments(call.get("arguments"), Told.WHOLE if scope.whole else Told.FRAGMENT)
    return [CallSignal(told, text, read_text(call, "name"), place=("index", 0), choice=scope.choice)]


def read_output(response: Payload, scope: Scope) -> list[CallSignal]:
    """A Responses body: every call in it is complete."""
    signals: list[CallSignal] = []
    output = response["output"]
    for number, item in enumerate(output if isinstance(output, list) else ()):
        signals += read_item_event({"item": item, "output_index": number}, scope)
    return signals


def read_item_event(event: Payload, scope: Scope, told: Told = Told.WHOLE) -> list[CallSignal]:
    """The item in a Responses event or a codex notification, if it is a call."""
    item = event.get("item")
    if not isinstance(item, dict) or read_text(item, "type") not in NAME_KEYS:
        return []
    return [build_item_signal(item, told, read_place(event), scope)]


def read_bare_item(item: Payload, scope: Scope) -> list[CallSignal]:
    return [build_item_signal(item, Told.WHOLE, None, scope)]


def build_item_signal(item: Payload, told: Told, place: Place | None, scope: Scope) -> CallSignal:
    if item.get("status") == "in_progress":
        told = Told.SO_FAR
    told, text = read_arguments(item.get("arguments"), told)
    call_id, item_id = read_text(item, "call_id", "callId"), read_text(item, "id")
    name = read_text(item, NAME_KEYS[item["type"]])
    ids = build_ids(call_id, item_id)
    return CallSignal(told, text, name, call_id or item_id, ids, place, choice=scope.choice)


def read_arguments_event(event: Payload, scope: Scope, told: Told, key: str) -> list[CallSignal]:
    told, text = read_arguments(event.get(key), told)
    item_id, call_id = read_text(event, "item_id", "itemId"), read_text(event, "call_id", "callId")
    signal = CallSignal(
        told=told,
        text=text,
        name=read_text(event, "name"),
        call_id=call_id,
        ids=build_ids(item_id, call_id),
        place=read_place(event),
        sequence=read_index(event, "sequence_number", "sequenceNumber"),
        choice=scope.choice,
    )
    return [signal]


def read_tool_request(params: Payload, scope: Scope) -> list[CallSignal]:
    """`item/tool/call`: codex asks for the result of a call."""
    call_id = read_text(params, "callId", "call_id")
    if call_id is None:
        return []
    told, text = read_arguments(params.get("arguments"), Told.WHOLE)
    return [CallSignal(told, text, read_text(params, "tool"), call_id, (call_id,), choice=scope.choice)]


def read_arguments(arguments: object, told: Told) -> tuple[Told, str | None]:
    """Text as it is; any other value written as JSON, which stands in until text comes."""
    if arguments is None or isinstance(arguments, str):
        return told, arguments
    return Told.VALUE, dump_json(arguments)


def build_ids(*ids: str | None) -> tuple[str, ...]:
    return tuple([id_ for id_ in ids if id_])


def read_place(event: Payload) -> Place | None:
    number = read_index(event, "output_index", "outputIndex")
    return None if number is None else ("output", number)


def read_text(payload: Payload, *keys: str) -> str | None:
    """The first of these that is a text with something in it."""
    for key in keys:
        value = payload.get(key)
        if value and isinstance(value, str):
            return value
    return None


def read_index(payload: Payload, *keys: str, default: int | None = None) -> int | None:
    for key in keys:
        value = payload.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST:
            return value
    return default


def only_mappings(values: object) -> Iterable[Payload]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else ()


Reader = Callable[[Payload, Scope], list[CallSignal]]
#: Keys that wrap a payload, and whether what they hold is a final message; `None`: they do not say.
WRAPPERS: dict[str, bool | None] = {
    "params": None,
    "msg": None,
    "response": None,
    "delta": False,
    "message": True,
}
#: The items that are calls, and where each keeps its tool's name.
NAME_KEYS = {"function_call": "name", "dynamicToolCall": "tool"}
RESPONSES_EVENTS: dict[str, Reader] = {
    "output_item.added": functools.partial(read_item_event, told=Told.SO_FAR),
    "output_item.done": read_item_event,
    "function_call_arguments.delta": functools.partial(read_arguments_event, told=Told.FRAGMENT, key="delta"),
    "function_call_arguments.done": functools.partial(read_arguments_event, told=Told.WHOLE, key="arguments"),
}
EVENTS: dict[str, Reader] = {
    **RESPONSES_EVENTS,
    **{f"response.{kind}": read for kind, read in RESPONSES_EVENTS.items()},
    **dict.fromkeys(NAME_KEYS, read_bare_item),
    "function": read_one_call,
}
#: What a payload without such a type may hold; the first that says something counts.
PARTS: dict[str, Reader] = {
    "tool_calls": read_tool_calls,
    "function_call": read_function_call,
    "item": read_item_event,
    "output": read_output,
    "tool": read_tool_request,
}
