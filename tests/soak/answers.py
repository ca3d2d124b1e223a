"""What a client got, read strictly: an answer that is whole and in order, or the error in its place."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.sse import DONE, read_events, read_frames

Item = dict[str, Any]

TERMINAL = ("response.completed", "response.failed", "response.incomplete")


class MalformedError(Exception):
    """Bytes that no client should get."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question; calls are their names and arguments."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    choices: tuple[Choice, ...] = ()
    #: The code of an error that came after a 200.
    error: str | None = None
    call_ids: tuple[str, ...] = ()
    #: What the next question of the conversation repeats, and the name it may give instead.
    echo: tuple[Item, ...] = field(default=(), compare=False)
    id: str = ""


def require(condition: object, message: str) -> None:
    if not condition:
        raise MalformedError(message)


def read_error(data: bytes) -> str:
    """The code of an error that is a reply of its own."""
    error = json.loads(data)["error"]
    require(set(error) == {"message", "type", "param", "code"}, f"an odd error: {error}")
    return str(error["code"])


def read_chat_body(data: bytes) -> Answer:
    body = json.loads(data)
    require([each["index"] for each in body["choices"]] == [*range(len(body["choices"]))], "odd indexes")
    return build_chat_answer([each["message"] for each in body["choices"]])


def read_chat_stream(data: bytes) -> Answer:
    frames = read_frames(data)
    require(frames and frames.index(DONE) == len(frames) - 1, "it does not end once, with [DONE]")
    frames.pop()
    error = frames.pop()["error"]["code"] if frames and "error" in frames[-1] else None
    folds = fold_chat(frames)
    require(error or all(fold.reason for fold in folds.values()), "a choice without an end")
    answer = build_chat_answer([folds[index].build_message() for index in sorted(folds)])
    return Answer(answer.choices, error, answer.call_ids, answer.echo)


class Fold:
    """One choice of a chat stream, put together as an SDK does it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: dict[int, Item] = {}
        self.reason: str | None = None

    def add(self, choice: Item) -> None:
        require(self.reason is None, f"something behind a choice's end: {choice}")
        delta, self.reason = choice["delta"], choice["finish_reason"]
        self.texts.append(delta.get("content") or "")
        self.thoughts.append(delta.get("reasoning_content") or "")
        for call in delta.get("tool_calls", ()):
            self.add_call(call)

    def add_call(self, call: Item) -> None:
        known = self.calls.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
        known["id"] = known["id"] or call.get("id", "")
        for name, text in call["function"].items():
            known[name] += text

    def build_message(self) -> Item:
        calls = [{"id": call.pop("id"), "function": call} for _, call in sorted(self.calls.items())]
        text, thought = "".join(self.texts), "".join(self.thoughts)
        return {"content": text, "reasoning_content": thought, "tool_calls": calls}


def fold_chat(frames: Iterable[Item]) -> dict[int, Fold]:
    folds: dict[int, Fold] = {}
    for frame in frames:
        for choice in frame["choices"]:
            folds.setdefault(choice["index"], Fold()).add(choice)
    return folds


def build_chat_answer(messages: list[Item]) -> Answer:
    choices = tuple(
        Choice(
            message["content"] or "",
            message.get("reasoning_content") or "",
            tuple(
                (call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or ()
            ),
        )
        for message in messages
    )
    if not choices:
        return Answer()
    calls = messages[0].get("tool_calls") or []
    echo: Item = {"role": "assistant", "content": choices[0].text or None}
    if calls:
        echo["tool_calls"] = [{"type": "function", **call} for call in calls]
    return Answer(choices, None, tuple(call["id"] for call in calls), (echo,))


def read_response_body(data: bytes) -> Answer:
    return build_response_answer(json.loads(data))


def build_response_answer(body: Item) -> Answer:
    require(body["status"] == "completed", f"a response that is {body['status']}")
    output = body["output"]
    calls = [item for item in output if item["type"] == "function_call"]
    choice = Choice(
        "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"]),
        "".join(part["text"] for item in output if item["type"] == "reasoning" for part in item["summary"]),
        tuple((call["name"], call["arguments"]) for call in calls),
    )
    return Answer((choice,), None, tuple(call["call_id"] for call in calls), tuple(output), body["id"])


def read_response_stream(data: bytes) -> Answer:
    require(data.endswith(f"data: {DONE}\n\n".encode()), "it does not end with [DONE]")
    events = read_events(data)
    numbers = [event["sequence_number"] for event in events]
    require(numbers == [*range(len(events))], f"numbers out of order: {numbers}")
    ends = [event["type"] for event in events if event["type"] in TERMINAL]
    require(len(ends) == 1 and ends[0] == events[-1]["type"], f"it ends with {ends}")
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    if ends[0] == "response.failed":
        require(events[-2]["type"] == "error", "a failure without its error")
        return Answer((Choice(text),), events[-2]["code"])
    answer = build_response_answer(events[-1]["response"])
    require(text == answer.choices[0].text, "its deltas are not its text")
    return answer


def read_part(data: bytes) -> str:
    """The text in a stream that its client left: of what came, the frames that came whole."""
    texts = []
    for frame in data.decode(errors="replace").split("\n\n")[:-1]:
        payload = frame.rpartition("data: ")[2]
        if frame.startswith(":") or payload == DONE:
            continue
        event = json.loads(payload)
        if event.get("type") == "response.output_text.delta":
            texts.append(event["delta"])
        texts += [each["delta"].get("content") or "" for each in event.get("choices", ())]
    return "".join(texts)


#: By path, then by whether it is a stream.
READERS: dict[str, dict[bool, Callable[[bytes], Answer]]] = {
    "/v1/chat/completions": {False: read_chat_body, True: read_chat_stream},
    "/v1/responses": {False: read_response_body, True: read_response_stream},
}
