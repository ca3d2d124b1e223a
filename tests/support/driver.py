"""A JSON-lines client of an app-server, real or stand-in: blocking, with a deadline on every wait."""

import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

Message = dict[str, Any]


STAND_IN = Path(__file__).with_name("stand_in.py")


class ProcessEndedError(Exception):
    """The process closed its stdout."""


class Driver:
    """Starts the process, and kills it on leaving; `seen` holds every message that was read."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.out_fd = self.stdout.fileno()
        self.watch = select.poll()
        self.watch.register(self.out_fd, select.POLLIN)
        self.seen: list[Message] = []
        self.unread: deque[Message] = deque()
        self.partial = b""
        self.last_id = 0

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

    def write(self, message: Message) -> None:
        data = memoryview(orjson.dumps(message) + b"\n")
        while data:
            data = data[os.write(self.stdin.fileno(), data) :]

    def send(self, method: str, params: Message) -> int:
        """Send a request; its id."""
        self.last_id += 1
        self.write({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def answer(self, request_id: int, text: str) -> None:
        """Answer an `item/tool/call`."""
        content = [{"type": "inputText", "text": text}]
        self.write({"id": request_id, "result": {"contentItems": content, "success": True}})

    def call(self, method: str, params: Message, within_s: float = 10) -> Message:
        """Send a request and read up to its response."""
        request_id = self.send(method, params)
        return self.read_until(
            lambda message: message.get("id") == request_id and "method" not in message, within_s
        )

    def initialize(self, opt_out: Sequence[str] = ()) -> Message:
        capabilities = {"experimentalApi": True, "optOutNotificationMethods": list(opt_out)}
        about = {"name": "codex_gateway", "title": "Codex Gateway", "version": "0.1.0"}
        response = self.call("initialize", {"clientInfo": about, "capabilities": capabilities})
        self.write({"method": "initialized"})
        return response

    def start_turn(self, script: Any, tools: Sequence[Message] = ()) -> Message:
        """Start a turn in a thread of its own; the params that name both."""
        sealed = {
            "ephemeral": True,
            "baseInstructions": "",
            "sandbox": "read-only",
            "approvalPolicy": "never",
        }
        raw = {"environments": [], "experimentalRawEvents": True, "dynamicTools": list(tools)}
        thread_id = self.call("thread/start", {**sealed, **raw})["result"]["thread"]["id"]
        text = script if isinstance(script, str) else orjson.dumps(script).decode()
        said = {"threadId": thread_id, "input": [{"type": "text", "text": text}], "environments": []}
        started = self.call("turn/start", {**said, "summary": "auto"})
        return {"threadId": thread_id, "turnId": started["result"]["turn"]["id"]}

    def read_until(self, matches: Callable[[Message], bool], within_s: float = 10) -> Message:
        """Read up to the first message that matches."""
        deadline = time.monotonic() + within_s
        while True:
            while self.unread:
                message = self.unread.popleft()
                self.seen.append(message)
                if matches(message):
                    return message
            self.unread.extend(map(orjson.loads, self.read_lines(deadline)))

    def read_lines(self, deadline: float) -> list[bytes]:
        """The whole lines that one read brings."""
        if not self.watch.poll(max(0, deadline - time.monotonic()) * 1000):
            raise TimeoutError(f"nothing matched in time; last seen: {self.seen[-1:]}")
        data = os.read(self.out_fd, 1 << 20)
        if not data:
            raise ProcessEndedError
        *lines, self.partial = (self.partial + data).split(b"\n")
        return lines


def start_stand_in(**config: Any) -> Driver:
    """The stand-in with this STAND_IN; called with the interpreter to be spared the search for it."""
    env = {"PATH": os.environ["PATH"], "STAND_IN": orjson.dumps(config).decode()}
    return Driver([sys.executable, str(STAND_IN), "app-server", "-c", "web_search=disabled"], env)
