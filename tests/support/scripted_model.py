"""A Responses-API model on loopback that plays the script found in the last user message."""

import json
import os
import select
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any

from tests.support.script import Step, build_error_body, build_usage, plan_answer

Body = dict[str, Any]


class ClientGoneError(Exception):
    """The client closed the connection before the answer's end."""


class ScriptedModel:
    """The model as a context manager; what it saw and what it is doing can be read at any time."""

    def __init__(self) -> None:
        self.requests: list[Body] = []
        self.open_streams = 0
        self.closed_early = 0
        self.closing = False
        self._changed = threading.Condition()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.model = self
        # a short poll interval: shutdown waits for it
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "ScriptedModel":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait_for(self, condition: Callable[["ScriptedModel"], bool], within_s: float = 5) -> bool:
        """Wait until the condition holds; False when it did not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), within_s)

    def begin(self, body: Body) -> None:
        with self._changed:
            self.requests.append(body)
            self.open_streams += 1
            self._changed.notify_all()

    def end(self, early: bool) -> None:
        with self._changed:
            self.open_streams -= 1
            self.closed_early += early
            self._changed.notify_all()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    model: ScriptedModel


class Handler(BaseHTTPRequestHandler):
    """Reads one request, plays one answer, closes the connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name is the base class's)
        """Quiet: the tests read `requests`."""

    def do_GET(self) -> None:
        """Codex asks some providers for their models; there is nothing to tell."""
        self.reply(404, "{}", {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.close_connection = True
        self.server.model.begin(body)
        early = True
        try:
            Answer(self).play(plan_answer(body["input"]))
            early = False
        except (ClientGoneError, ConnectionError):
            pass  # counted below: a client may leave at any time
        finally:
            self.server.model.end(early and not self.server.model.closing)

    def reply(self, status: int, body: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        fixed = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        for name, value in (fixed | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())


class Answer:
    """One response as server-sent events. The 200 waits for the first event, as `http` may come first."""

    seed = os.urandom(6).hex()
    numbers = count()

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.id = self.build_id("resp")
        self.usage = build_usage()
        self.headers: dict[str, str] = {}
        self.output_index = 0
        self.started = False
        self.watch = select.poll()
        # without POLLIN: only the end of the connection wakes a wait
        self.watch.register(handler.connection, select.POLLRDHUP)

    def build_id(self, prefix: str) -> str:
        return f"{prefix}_{self.seed}{next(self.numbers)}"

    def play(self, steps: list[Step]) -> None:
        for step in steps:
            if STEPS.get(step.name, Answer.refuse)(self, step):
                return
        self.send("response.completed", response={"id": self.id, "usage": self.usage})

    def send(self, kind: str, **fields: Any) -> None:
        if not self.started:
            self.start()
        data = json.dumps({"type": kind, **fields})
        self.handler.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())

    def start(self) -> None:
        self.started = True
        self.handler.send_response(200)
        self.handler.send_header("content-type", "text/event-stream")
        self.handler.send_header("connection", "close")
        for name, value in self.headers.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.send("response.created", response={"id": self.id})

    def add_item(self, item: Body) -> None:
        self.send("response.output_item.added", output_index=self.output_index, item=item)

    def finish_item(self, item: Body) -> None:
        self.send("response.output_item.done", output_index=self.output_index, item=item)
        self.output_index += 1

    def pause(self, seconds: float) -> None:
        """Wait, but leave as soon as the client does."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self.watch.poll(min(left, 0.1) * 1000) or self.handler.server.model.closing:
                raise ClientGoneError

    def say(self, step: Step) -> bool:
        message = {"type": "message", "id": self.build_id("msg"), "role": "assistant"}
        self.add_item({**message, "content": []})
        for number, delta in enumerate(step.value):
            self.pause(step.options.get("pause_s", 0) if number else 0)
            self.send("response.output_text.delta", item_id=message["id"], content_index=0, delta=delta)
        if not step.options.get("open"):
            text = "".join(step.value)
            self.finish_item({**message, "content": [{"type": "output_text", "text": text}]})
        return False

    def say_whole(self, step: Step) -> bool:
        message = {"type": "message", "id": self.build_id("msg"), "role": "assistant"}
        self.add_item({**message, "content": []})
        self.finish_item({**message, "content": [{"type": "output_text", "text": step.value}]})
        return False

    def think(self, step: Step) -> bool:
        item_id = self.build_id("rs")
        place = {"item_id": item_id, "output_index": self.output_index, "summary_index": 0}
        self.add_item({"type": "reasoning", "id": item_id, "summary": []})
        self.send("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
        for delta in step.value:
            self.send("response.reasoning_summary_text.delta", **place, delta=delta)
        summary = [{"type": "summary_text", "text": "".join(step.value)}]
        encrypted = "ZW5jcnlwdGVk"
        self.finish_item(
            {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": encrypted}
        )
        return False

    def wait(self, step: Step) -> bool:
        self.pause(step.value)
        return False

    def set_usage(self, step: Step) -> bool:
        self.usage = build_usage(step.value)
        return False

    def tell_limits(self, step: Step) -> bool:
        """The account's limits, in the headers of the stream: before anything else is said."""
        self.headers |= step.value
        return False

    def call(self, step: Step) -> bool:
        call = {"type": "function_call", "id": self.build_id("fc"), "name": step.value["name"]}
        call["call_id"] = step.value.get("call_id") or self.build_id("call")
        self.add_item({**call, "arguments": ""})
        self.finish_item({**call, "arguments": step.value["arguments"]})
        return False

    def search(self, step: Step) -> bool:
        """A web search that the model's own API ran; the value is its action."""
        search = {"type": "web_search_call", "id": self.build_id("ws")}
        self.add_item({**search, "status": "in_progress"})
        self.finish_item({**search, "status": "completed", "action": step.value})
        return False

    def fail_http(self, step: Step) -> bool:
        self.handler.reply(step.value, build_error_body(step), step.options.get("headers", {}))
        return True

    def fail(self, step: Step) -> bool:
        self.send("response.failed", response={"id": self.id, "error": step.value})
        return True

    def stop_incomplete(self, step: Step) -> bool:
        details = {"reason": step.value}
        self.send(
            "response.incomplete",
            response={"id": self.id, "incomplete_details": details, "usage": self.usage},
        )
        return True

    def drop(self, step: Step) -> bool:
        """The stream begins, and the connection closes with nothing more said."""
        if not self.started:
            self.start()
        return True

    def refuse(self, step: Step) -> bool:
        raise ValueError(f"only the stand-in plays {step.name!r}")


STEPS: dict[str, Callable[[Answer, Step], bool]] = {
    "say": Answer.say,
    "say_whole": Answer.say_whole,
    "think": Answer.think,
    "wait": Answer.wait,
    "usage": Answer.set_usage,
    "limits": Answer.tell_limits,
    "call": Answer.call,
    "search": Answer.search,
    "http": Answer.fail_http,
    "fail": Answer.fail,
    "incomplete": Answer.stop_incomplete,
    "drop": Answer.drop,
}


def main() -> None:
    with ScriptedModel() as model:
        print(model.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
