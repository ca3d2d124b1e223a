"""One turn of the stand-in: a script's steps as the notifications codex would send."""

import json
import os
from collections.abc import Generator
from json.encoder import encode_basestring
from typing import Any, Protocol

from tests.support import script
from tests.support.stand_in_steps import FOREVER, STEPS, Play, UpstreamFailedError
from tests.support.stand_in_tools import HIDDEN, parse_arguments, read_output, read_result
from tests.support.stand_in_wire import Message, build_id, build_limits, build_tokens, now_ms

CONTEXT_WINDOW = 258_400
ABORTED = "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>"
CANCELLED = "dynamic tool call was cancelled before receiving a response"


class Host(Protocol):
    """What a turn needs of the process it runs in."""

    config: Message

    def write(self, lines: bytes) -> None: ...
    def notify(self, method: str, params: Message) -> None: ...
    def wants(self, method: str) -> bool: ...
    def request(self, turn: "Turn", method: str, params: Message) -> int: ...
    def repeat_reply(self) -> None: ...
    def stop_reading(self) -> None: ...
    def die(self, code: int) -> None: ...


class Task:
    """Something that takes time: a turn, or a late answer."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.wake_at = 0.0


class Thread:
    """A conversation: its items are what the model would be sent."""

    def __init__(self, tools: set[str]) -> None:
        self.id = build_id()
        self.tools = tools
        self.items: list[Message] = []
        self.total = dict.fromkeys(build_tokens(script.build_usage()), 0)
        self.turn: Turn | None = None


class Turn:
    """Plays the responses of a turn; a generator, so that the process can read its stdin in between."""

    def __init__(self, host: Host, thread: Thread, said: list[Message]) -> None:
        self.host, self.thread, self.said = host, thread, said
        self.id = build_id()
        self.limits: dict[str, str] = {}  # headers of the response that is played
        self.task: Task | None = None
        self.started_ms = now_ms()
        self.usage = script.build_usage()
        self.calls: list[Message] = []
        self.asked: dict[str, int] = {}  # call id → id of our request
        self.answers: dict[int, Message] = {}
        self.last_message: Message | None = None
        self.injected: list[Message] = []  # what came while it waited

    def play(self) -> Play:
        self.begin()
        try:
            more = True
            while more:
                more = yield from self.respond()
        except UpstreamFailedError as error:
            self.end("failed", error.wire)
        else:
            self.end("completed")

    def respond(self) -> Generator[float, None, bool]:
        """Play one response; true when its calls bring another."""
        self.usage, self.limits = script.build_usage(), {}
        try:
            for step in script.plan_answer(self.thread.items):
                yield from STEPS[step.name](self, step) or ()
        except UpstreamFailedError:
            yield from self.collect_outputs()  # codex tells of the failure once its tools are done
            raise
        self.complete_response()
        called = bool(self.calls)
        yield from self.collect_outputs()
        self.report_usage()
        while self.injected:
            self.add_item({"id": f"msg_{build_id()}", **self.injected.pop(0)})
        return called

    def begin(self) -> None:
        self.notify_status("active", activeFlags=[])
        started = self.describe("inProgress", None) | {"completedAt": None, "durationMs": None}
        self.host.notify("turn/started", {"threadId": self.thread.id, "turn": started})
        if self.said:
            texts = [{"type": "input_text", "text": part.get("text", "")} for part in self.said]
            self.add_item({"type": "message", "id": f"msg_{build_id()}", "role": "user", "content": texts})
            item = {"type": "userMessage", "id": build_id(), "clientId": None, "content": self.said}
            self.notify_item("started", item)
            self.notify_item("completed", item)

    def end(self, status: str, error: Message | None = None) -> None:
        self.notify_status("systemError" if error else "idle")
        if error:
            self.notify("error", error=error, willRetry=False)
        self.host.notify("turn/completed", {"threadId": self.thread.id, "turn": self.describe(status, error)})
        self.thread.turn = None

    def describe(self, status: str, error: Message | None) -> Message:
        items = [self.last_message] if self.last_message and status == "completed" else []
        return {
            "id": self.id,
            "rootTurnId": self.id,
            "items": items,
            "itemsView": "summary" if items else "notLoaded",
            "status": status,
            "error": error,
            "startedAt": self.started_ms // 1000,
            "completedAt": now_ms() // 1000,
            "durationMs": now_ms() - self.started_ms,
        }

    def interrupt(self) -> None:
        """Leave the history as codex leaves it; the process answers, then ends the turn."""
        for call in self.calls:
            if call["call_id"] in self.asked:
                failed = {"contentItems": [], "success": False, "durationMs": 0}
                self.notify_item("completed", self.describe_call(call, "failed") | failed)
            self.add_output(call, CANCELLED)
        self.add_item(
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ABORTED}]}
        )

    def notify(self, method: str, **params: Any) -> None:
        self.host.notify(method, {"threadId": self.thread.id, "turnId": self.id, **params})

    def notify_item(self, what: str, item: Message) -> None:
        self.notify(f"item/{what}", item=item, **{f"{what}AtMs": now_ms()})

    def notify_status(self, kind: str, **more: Any) -> None:
        self.host.notify(
            "thread/status/changed", {"threadId": self.thread.id, "status": {"type": kind, **more}}
        )

    def add_item(self, item: Message) -> None:
        """An item for the history, told as the raw item it is."""
        self.thread.items.append(item)
        metadata = {"turn_id": self.id}
        self.notify(
            "rawResponseItem/completed", item={**item, "internal_chat_message_metadata_passthrough": metadata}
        )

    def complete_response(self) -> None:
        usage = build_tokens(self.usage)
        metadata = {"amount": None, "metadata": self.usage}
        response_id = f"resp_{os.urandom(8).hex()}"
        self.notify("rawResponse/completed", responseId=response_id, usage=usage, usageMetadata=metadata)

    def report_usage(self, last: Message | None = None) -> None:
        used = build_tokens(self.usage)
        self.thread.total = {key: value + used[key] for key, value in self.thread.total.items()}
        last = build_tokens(last) if last else used
        usage = {"total": self.thread.total, "last": last, "modelContextWindow": CONTEXT_WINDOW}
        self.notify("thread/tokenUsage/updated", tokenUsage=usage)
        self.host.notify("account/rateLimits/updated", build_limits(self.limits))

    def start_message(self) -> Message:
        item = {"type": "agentMessage", "id": f"msg_{os.urandom(8).hex()}", "text": "", "phase": None}
        item |= {"memoryCitation": None, "delivery": None, "questions": None}
        self.notify_item("started", item)
        return item

    def write_deltas(self, item_id: str, deltas: list[str]) -> None:
        """Many lines as one text: a benchmark's turn is mostly this."""
        if not self.host.wants("item/agentMessage/delta"):
            return
        place = f'"threadId":"{self.thread.id}","turnId":"{self.id}","itemId":"{item_id}"'
        head = f'{{"method":"item/agentMessage/delta","params":{{{place},"delta":'
        tail = f'}},"emittedAtMs":{now_ms()}}}\n'
        lines = head + (tail + head).join(map(encode_basestring, deltas)) + tail
        self.host.write(lines.encode(errors="replace"))

    def finish_message(self, item: Message, text: str) -> None:
        self.last_message = {**item, "text": text}
        self.notify_item("completed", self.last_message)
        content = [{"type": "output_text", "text": text}]
        self.add_item({"type": "message", "id": item["id"], "role": "assistant", "content": content})

    def add_call(self, call: Message) -> None:
        """A call of the model's; the client is asked at once, or one by one as codex 0.163 does."""
        self.add_item(call)
        if not (self.calls and self.host.config.get("one_by_one")):
            self.ask_tool(call)
        self.calls.append(call)

    def ask_tool(self, call: Message) -> None:
        if self.find_refusal(call) is None:
            place = {"namespace": None, "tool": call["name"], "arguments": json.loads(call["arguments"])}
            self.notify_item("started", self.describe_call(call, "inProgress"))
            params = {"threadId": self.thread.id, "turnId": self.id, "callId": call["call_id"], **place}
            self.asked[call["call_id"]] = self.host.request(self, "item/tool/call", params)

    def find_refusal(self, call: Message) -> str | None:
        """Codex's own answer to a call that it does not pass on."""
        if call["name"] not in self.thread.tools - HIDDEN:
            return f"unsupported call: {call['name']}"
        try:
            parse_arguments(call["arguments"])
        except ValueError as error:
            return f"failed to parse function arguments: {error}"
        return None

    def describe_call(self, call: Message, status: str) -> Message:
        item = {"type": "dynamicToolCall", "id": call["call_id"], "namespace": None, "tool": call["name"]}
        item |= {"arguments": json.loads(call["arguments"]), "status": status}
        return item | {"contentItems": None, "success": None, "durationMs": None}

    def collect_outputs(self) -> Play:
        """Wait for the answers to the calls, in the calls' order."""
        while self.calls:
            call = self.calls[0]
            output: str | list[Message] | None = self.find_refusal(call)
            if output is None:
                output = yield from self.await_result(call)
            self.calls.pop(0)
            self.add_output(call, output)

    def await_result(self, call: Message) -> Generator[float, None, str | list[Message]]:
        if call["call_id"] not in self.asked:
            self.ask_tool(call)
        result = read_result((yield from self.await_answer(self.asked[call["call_id"]])))
        status = "completed" if result["success"] else "failed"
        done = {"contentItems": result["contentItems"], "success": result["success"], "durationMs": 0}
        self.notify_item("completed", self.describe_call(call, status) | done)
        return read_output(result)

    def ask(self, method: str, params: Message) -> Generator[float, None, Message]:
        """Send a request to the gateway and wait for what it answers."""
        return (yield from self.await_answer(self.host.request(self, method, params)))

    def await_answer(self, request_id: int) -> Generator[float, None, Message]:
        while request_id not in self.answers:
            yield FOREVER
        return self.answers[request_id]

    def add_output(self, call: Message, output: str | list[Message]) -> None:
        item = {"type": "function_call_output", "id": f"fco_{build_id()}", "call_id": call["call_id"]}
        self.add_item({**item, "output": output})
