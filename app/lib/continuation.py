"""What a request may go on from: told by what its client says went before, never by chance.

A thread of codex holds a conversation. Whoever tells that very conversation, on the same terms and under the
same key, may go on in it; whatever differs makes it another one, which is told to codex anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

import orjson

from app.lib.request import (
    HistoryItem,
    Message,
    Part,
    PastCall,
    PastOutput,
    PastReasoning,
    Role,
    TextPart,
    TurnRequest,
)

NO_ARGUMENTS = "{}"
# Longer ones cost too much to be read; a client that writes them anew is told anew.
MAX_SETTLED_CHARS = 100_000


class ThreadKey(NamedTuple):
    """What a request has to match to go on in a thread."""

    owner: str
    #: All that a thread and its turns are set to.
    terms: bytes
    history: bytes


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a request brings for calls that wait."""

    #: What it says went before, the calls included; nothing, where it brings results alone.
    told: tuple[HistoryItem, ...]
    #: By the ids the client knows the calls by.
    outputs: dict[str, PastOutput]
    #: What it says behind the results.
    said: tuple[Message, ...]


def find_answered(history: Iterable[HistoryItem]) -> frozenset[str]:
    """The calls that a history has results for."""
    return frozenset(item.call_id for item in history if isinstance(item, PastOutput))


def split_delivery(request: TurnRequest, call_ids: Collection[str]) -> Delivery | None:
    """Take a request apart at the results of these calls; `None` where they do not just stand behind them."""
    told: list[HistoryItem] = []
    outputs: dict[str, PastOutput] = {}
    said: list[Message] = []
    for item in request.history:
        match item:
            case PastOutput(call_id) if call_id in call_ids:
                if said or call_id in outputs:
                    return None
                outputs[call_id] = item
            case Message(role) if outputs and role is not Role.ASSISTANT:
                said.append(item)
            case _ if said or (outputs and isinstance(item, Message)):
                return None
            case _:
                told.append(item)
    return Delivery(() if request.brings_results_only else tuple(told), outputs, tuple(said))


def split_follow_up(history: Sequence[HistoryItem]) -> tuple[Sequence[HistoryItem], Sequence[HistoryItem]]:
    """The conversation so far, up to the model's last word, and what the client says to that."""
    end = max((place for place, item in enumerate(history, 1) if is_answer(item)), default=0)
    return history[:end], history[end:]


def is_answer(item: HistoryItem) -> bool:
    """Whether an item is the model's."""
    return isinstance(item, PastCall) or (isinstance(item, Message) and item.role is Role.ASSISTANT)


def digest_history(items: Iterable[HistoryItem]) -> bytes:
    """The same for every telling of one conversation.

    Clients tell an answer in one message or in several, its calls behind or between its words, and the
    arguments of those in a JSON of their own. Reasoning counts for nothing: only the model's own API can
    read it, and few clients tell it.
    """
    folded: list[Any] = []
    words: list[str] = []
    calls: list[list[str]] = []
    for item in items:
        match item:
            case PastReasoning():
                continue
            case PastCall(call_id, name, arguments):
                calls.append([call_id, name, settle_arguments(arguments)])
                continue
            case Message(Role.ASSISTANT, parts) if all(isinstance(part, TextPart) for part in parts):
                words += [part.text for part in parts if isinstance(part, TextPart)]
                continue
            case Message(role, parts):
                told: list[Any] = [role.value, *map(fold_part, parts)]
            case PastOutput(call_id, parts):
                told = ["output", call_id, *map(fold_part, parts)]
            case _:
                assert_never(item)
        folded += [*fold_answer(words, calls), told]
        words, calls = [], []
    return build_digest([*folded, *fold_answer(words, calls)])


def fold_answer(words: list[str], calls: list[list[str]]) -> list[Any]:
    return [["answer", "".join(words), *calls]] if words or calls else []


def fold_part(part: Part) -> str:
    """No text is the same as a picture: it has no such beginning."""
    return f"text {part.text}" if isinstance(part, TextPart) else f"image {part.data_url}"


def settle_arguments(arguments: str) -> str:
    """The same for the same JSON, its numbers as they are written; what is none, or long, stays as it is."""
    if len(arguments) > MAX_SETTLED_CHARS:
        return arguments
    try:
        return orjson.dumps(_DECODER.decode(arguments or NO_ARGUMENTS)).decode()
    except (ValueError, RecursionError, orjson.JSONEncodeError):
        return arguments


# A wrapped object or number cannot be taken for the other; of two keys of one name, the order counts.
_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: {"object": sorted(pairs, key=lambda pair: pair[0])},
    parse_int=lambda digits: {"number": digits},
    parse_float=lambda digits: {"number": digits},
    parse_constant=lambda name: {"number": name},
)


def digest_terms(request: TurnRequest) -> bytes | None:
    """All that a thread and its turns are set to; `stop` and limits are ours alone.

    `None` for schemas that are nested deeper than can be told.
    """
    choice, wanted = request.tools.choice, request.json_format
    terms = [
        [request.model, request.effort, request.summary, request.web_search, request.parallel],
        [[spec.name, spec.description, spec.parameters, spec.strict] for spec in request.tools],
        [choice.mode.value, choice.name, sorted(choice.allowed or ()), choice.allowed is None],
        [wanted.schema, wanted.strict] if wanted else None,
    ]
    try:
        return build_digest(terms)
    except orjson.JSONEncodeError:
        return None


def build_digest(value: Any) -> bytes:
    return hashlib.sha256(orjson.dumps(value)).digest()
