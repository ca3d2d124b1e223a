"""Codex's questions about calls of the client's tools: which calls it asks about, how they are answered."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn, assert_never

import orjson

from app.backend.jsonrpc import ServerRequest
from app.lib.json_depth import is_deeper
from app.lib.json_text import has_surrogates
from app.lib.request import ImagePart, Part, TextPart

MAX_ARGUMENTS_DEPTH = 127

#: A thread, and a call in it.
Key = tuple[str, str]
Answer = dict[str, Any]


class Callbacks:
    """The questions of one request's threads; a question and the answer to it come in either order.

    A release asks about the calls of a response one at a time, each after the last was answered; another
    about all at once. One that nobody has an answer to stays open until its turn is interrupted.
    """

    def __init__(self) -> None:
        self._open: dict[Key, list[ServerRequest]] = {}
        self._answers: dict[Key, Answer] = {}

    def ask(self, key: Key, request: ServerRequest) -> Answer | None:
        """Take a question: the answer if there is one, else it is kept."""
        answer = self._answers.get(key)
        if answer is None:
            self._open.setdefault(key, []).append(request)
        return answer

    def settle(self, key: Key, answer: Answer) -> list[ServerRequest]:
        """Have every question about a call answered with this: those here, and those to come."""
        self._answers[key] = answer
        return self._open.pop(key, [])

    @property
    def answered(self) -> Collection[Key]:
        return self._answers.keys()

    def forget(self, key: Key) -> None:
        """There is another call of that id."""
        self._answers.pop(key, None)

    def take_open(self, thread_ids: Iterable[str]) -> list[ServerRequest]:
        """The questions these threads wait with; they are kept no longer."""
        keys = [key for key in self._open if key[0] in thread_ids]
        return [request for key in keys for request in self._open.pop(key)]

    @property
    def waiting(self) -> set[str]:
        """The threads with a question open."""
        return {thread_id for thread_id, _ in self._open}


def read_key(request: ServerRequest) -> Key | None:
    """The call a question is about; `None` in a shape nobody knows."""
    match request.params:
        case {"threadId": str(thread_id), "callId": str(call_id)}:
            return thread_id, call_id
        case _:
            return None


def build_refusal(message: str) -> Answer:
    """An answer that has the model correct its call."""
    return {"contentItems": [{"type": "inputText", "text": message}], "success": False}


def build_answer(parts: Sequence[Part]) -> Answer:
    """What a call came to: one text is codex's output as it is, several parts are a list."""
    return {"contentItems": [build_content(part) for part in parts or (TextPart(""),)], "success": True}


def build_content(part: Part) -> dict[str, str]:
    match part:
        case TextPart(text):
            return {"type": "inputText", "text": text}
        case ImagePart(data_url):
            return {"type": "inputImage", "imageUrl": data_url}
        case _:
            assert_never(part)


def is_asked_about(arguments: str) -> bool:
    """Whether codex can read a call's arguments: any JSON, numbers of any size, but nothing half."""
    # Only so many brackets can nest that deep; counting them is quick.
    may_be_deep = arguments.count("{") + arguments.count("[") > MAX_ARGUMENTS_DEPTH
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return _is_only_large(arguments)
    return not (may_be_deep and is_deeper(value, MAX_ARGUMENTS_DEPTH))


def _is_only_large(arguments: str) -> bool:
    """Whether a number past any float is all that the quick parser did not like."""
    try:
        value = _DECODER.decode(arguments)
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return False
    return not (has_surrogates(text) or is_deeper(value, MAX_ARGUMENTS_DEPTH))


def _refuse(literal: str) -> NoReturn:
    raise ValueError(literal)


# The numbers stay text: Python limits their digits, codex does not.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=str, parse_int=str)
