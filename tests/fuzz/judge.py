"""Reads what a client got as strictly as can be: every frame, every order, one end and nothing behind it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.sse import DONE

Frame = dict[str, Any]
ERROR_KEYS = {"message", "type", "param", "code"}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


@dataclass(slots=True)
class Told:
    """One choice, added up."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    #: Id, name, arguments.
    calls: list[list[str]] = field(default_factory=list)
    finish: str | None = None
    has_role: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": "".join(self.text),
            "reasoning": "".join(self.reasoning),
            "calls": [tuple(call) for call in self.calls],
            "finish": self.finish,
        }


def cut_frames(data: bytes) -> list[bytes]:
    """Whole frames, comments left out."""
    *frames, rest = data.split(b"\n\n")
    assert rest == b"", f"half a frame: {rest!r}"
    return [frame for frame in frames if not frame.startswith(b":")]


def judge_error(body: Any) -> str | None:
    """The code of an error of ours."""
    assert body.keys() == {"error"}, body
    error = body["error"]
    assert error.keys() == ERROR_KEYS, error
    assert isinstance(error["message"], str), error
    code: str | None = error["code"]
    return code


class ChatJudge:
    """Feed it frames; what came until now is in `choices`."""

    def __init__(self, choices: int = 1) -> None:
        self.choices = [Told() for _ in range(choices)]
        self.error: str | None = None
        self.is_done = False
        self.usage: Any = None
        self._names: set[tuple[str, int, str]] = set()

    def feed(self, data: bytes) -> None:
        for frame in cut_frames(data):
            assert not self.is_done, f"something behind the end: {frame!r}"
            assert frame.startswith(b"data: "), frame
            if frame == f"data: {DONE}".encode():
                self._end()
            else:
                self._take(json.loads(frame[len(b"data: ") :]))

    def _end(self) -> None:
        self.is_done = True
        assert self.error or all(told.finish for told in self.choices), "a choice without an end"

    def _take(self, chunk: Frame) -> None:
        assert self.error is None, f"something behind an error: {chunk}"
        assert self.usage is None, f"something behind the usage: {chunk}"
        if "error" in chunk:
            self.error = judge_error(chunk) or "none"
            return
        assert chunk["object"] == "chat.completion.chunk"
        self._names.add((chunk["id"], chunk["created"], chunk["model"]))
        assert len(self._names) == 1, self._names
        if not chunk["choices"]:
            self.usage = chunk["usage"]
            assert all(told.finish for told in self.choices), "usage before the end"
        for choice in chunk["choices"]:
            self._add(self.choices[choice["index"]], choice)

    def _add(self, told: Told, choice: Frame) -> None:
        delta = choice["delta"]
        assert told.finish is None, f"something behind a choice's end: {choice}"
        assert ("role" in delta) is not told.has_role, f"the role has to be first, and once: {choice}"
        assert not ("content" in delta and "tool_calls" in delta), choice
        told.has_role = True
        told.finish = choice["finish_reason"]
        assert told.finish is None or delta == {}, choice
        told.text.append(delta.get("content") or "")
        told.reasoning.append(delta.get("reasoning_content") or "")
        for call in delta.get("tool_calls", ()):
            self._add_call(told, call)
        if "function_call" in delta:
            self._add_call(
                told, {"index": 0, "id": "", "type": "function", "function": delta["function_call"]}
            )

    def _add_call(self, told: Told, call: Frame) -> None:
        function, index = call["function"], call["index"]
        if "name" in function:
            assert index == len(told.calls), f"indices are not dense: {call}"
            assert call["type"] == "function"
            told.calls.append([call["id"], function["name"], ""])
        told.calls[index][2] += function["arguments"]
        if "arguments" in call:
            assert call["arguments"].startswith(told.calls[index][2]) or not call["arguments"], call

    def to_list(self) -> list[dict[str, Any]]:
        return [told.to_dict() for told in self.choices]


def judge_chat_stream(data: bytes, choices: int = 1) -> ChatJudge:
    judge = ChatJudge(choices)
    judge.feed(data)
    assert judge.is_done, "it does not end with [DONE]"
    return judge


def read_completion(body: Frame) -> list[dict[str, Any]]:
    """A body's choices in the same words."""
    assert [choice["index"] for choice in body["choices"]] == [*range(len(body["choices"]))]
    return [read_message(choice["message"], choice["finish_reason"]) for choice in body["choices"]]


def read_message(message: Frame, finish: str) -> dict[str, Any]:
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
    if "function_call" in message:
        calls.append(("", message["function_call"]))
    return {
        "text": message["content"] or "",
        "reasoning": message.get("reasoning_content", ""),
        "calls": [(id_, function["name"], function["arguments"]) for id_, function in calls],
        "finish": finish,
    }


class ResponseJudge:
    """Feed it events; every item is added up from its deltas and held to what its end says."""

    def __init__(self) -> None:
        self.final: Frame | None = None
        self.error: str | None = None
        self.is_done = False
        self._count = 0
        self._kinds: list[str] = []
        #: As they were added, and those of them that are done, by their place.
        self._added: list[Frame] = []
        self._done: dict[int, Frame] = {}
        self._deltas: dict[tuple[int, str], str] = {}

    def feed(self, data: bytes) -> None:
        for frame in cut_frames(data):
            assert not self.is_done, f"something behind the end: {frame!r}"
            if frame == f"data: {DONE}".encode():
                assert self.final is not None, "no terminal event"
                self.is_done = True
                continue
            name, payload = frame.split(b"\n")
            event = json.loads(payload.removeprefix(b"data: "))
            assert name.decode() == f"event: {event['type']}"
            assert event["sequence_number"] == self._count, "numbers are not dense"
            self._count += 1
            self._take(event)

    def _take(self, event: Frame) -> None:
        kind = event["type"]
        assert self.final is None, f"something behind the terminal event: {kind}"
        assert self.error is None or kind == "response.failed", f"something behind an error: {kind}"
        if not self._kinds:
            assert kind == "response.created"
        self._kinds.append(kind)
        if kind in TERMINAL:
            self._end(event["response"], kind)
        elif kind == "error":
            assert event["error"].keys() == ERROR_KEYS
            self.error = event["code"] or "none"
        elif kind == "response.output_item.added":
            assert event["output_index"] == len(self._added), "places are not dense"
            self._added.append(event["item"])
        elif kind == "response.output_item.done":
            self._finish(event["output_index"], event["item"])
        elif "output_index" in event:
            self._grow(kind, event)

    def _grow(self, kind: str, event: Frame) -> None:
        index = event["output_index"]
        assert self._added[index]["id"] == event["item_id"], event
        assert index not in self._done, f"something of an item that is done: {event}"
        key = (
            index,
            kind.rpartition(".")[0] + str(event.get("summary_index", event.get("content_index", ""))),
        )
        if kind.endswith(".delta"):
            self._deltas[key] = self._deltas.get(key, "") + event["delta"]
        elif kind.endswith(("text.done", "arguments.done")):
            text = event["arguments"] if "arguments" in event else event["text"]
            assert self._deltas.get(key, "") == text, f"deltas are not the whole: {event}"

    def _finish(self, index: int, item: Frame) -> None:
        assert index not in self._done, f"done twice: {item}"
        assert (self._added[index]["id"], self._added[index]["type"]) == (item["id"], item["type"])
        grown = "".join(text for (place, _), text in self._deltas.items() if place == index)
        assert grown == read_item_text(item), f"{grown!r} is not {item}"
        self._done[index] = item

    def _end(self, response: Frame, kind: str) -> None:
        assert self._done.keys() == set(range(len(self._added))), "an item without an end"
        assert response["output"] == [self._done[index] for index in range(len(self._added))]
        assert response["status"] in kind
        ids = [item["id"] for item in response["output"]]
        assert len(set(ids)) == len(ids), ids
        self.final = response


def read_item_text(item: Frame) -> str:
    match item["type"]:
        case "message":
            return "".join(part["text"] for part in item["content"])
        case "reasoning":
            return "".join(part["text"] for part in item["summary"])
        case "function_call":
            assert item["arguments"], "at least one delta of arguments, always"
            return str(item["arguments"])
        case _:
            return ""


def judge_response_stream(data: bytes) -> ResponseJudge:
    judge = ResponseJudge()
    judge.feed(data)
    assert judge.is_done, "it does not end with [DONE]"
    return judge


def read_response(body: Frame) -> dict[str, Any]:
    """A response in the words of a choice."""
    output = body["output"]
    return {
        "text": join(item for item in output if item["type"] == "message"),
        "reasoning": join(item for item in output if item["type"] == "reasoning"),
        "calls": [
            (item["call_id"], item["name"], item["arguments"])
            for item in output
            if item["type"] == "function_call"
        ],
    }


def join(items: Iterable[Frame]) -> str:
    return "".join(map(read_item_text, items))


def judge_reply(status: int, data: bytes, body: Frame, about: str = "") -> str | None:
    """Any reply to a request of either dialect; the code of the error in it, if there is one."""
    try:
        if status != 200:
            return judge_error(json.loads(data)) or "none"
        if not body.get("stream"):
            return judge_body(json.loads(data))
        if "messages" in body:
            return judge_chat_stream(data, body.get("n") or 1).error
        return judge_response_stream(data).error
    except (AssertionError, ValueError, LookupError, TypeError) as error:
        raise AssertionError(f"{type(error).__name__}: {error} in {about}\n{data[-3000:]!r}") from error


def judge_body(body: Frame) -> str | None:
    if body["object"] == "chat.completion":
        assert all(choice["finish"] for choice in read_completion(body))
    else:
        assert body["status"] in ("completed", "incomplete", "queued"), body["status"]
        read_response(body)
    return None
