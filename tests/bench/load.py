"""The one client: keep-alive, reads a stream as it comes. And what it asks."""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
DELTA = "word "
PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}}
TEN_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Looks something up.",
            "parameters": PARAMETERS,
        },
    }
    for number in range(10)
]


@dataclass(frozen=True, slots=True)
class Reply:
    first_token_s: float
    took_s: float
    #: How the gateway says that it continued the conversation; nothing from others.
    continuation: str
    data: bytes


class Client:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def post(self, path: str, body: bytes) -> Reply:
        """Send a request and read its answer to the end; anything but a 200 is an error."""
        asked_s = time.perf_counter()
        self._connection.request("POST", path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        first_s, pieces = 0.0, []
        while piece := response.read1(1 << 16):
            if not first_s and DELTA.encode() in piece:
                first_s = time.perf_counter() - asked_s
            pieces.append(piece)
        response.close()  # the connection stays
        data = b"".join(pieces)
        if response.status != 200:
            raise RuntimeError(f"{path} answered {response.status}: {data!r}")
        took_s = time.perf_counter() - asked_s
        return Reply(first_s, took_s, response.getheader("x-proxy-continuation", ""), data)

    def is_ready(self) -> bool:
        self._connection.request("GET", "/readyz")
        response = self._connection.getresponse()
        response.read()
        return response.status == 200

    def close(self) -> None:
        self._connection.close()


def build_script(deltas: int, **options: Any) -> str:
    """The prompt that makes every double say so many deltas."""
    return json.dumps([{"repeat": {"say": [DELTA], "times": deltas, **options}}])


def build_calling_script(argument_bytes: int) -> str:
    """The prompt that makes the quick stand-in call `look_up` with so long a query."""
    return json.dumps([{"call": {"argument_bytes": argument_bytes}}])


def build_chat(model: str, script: str, stream: bool, **more: Any) -> bytes:
    return build_conversation(model, [{"role": "user", "content": script}], stream, **more)


def build_history(messages: int, chars: int) -> list[dict[str, Any]]:
    """So many messages of one conversation, each of so many characters."""
    text = "Lorem ipsum. " * (chars // 13)
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number in range(messages)]


def build_conversation(model: str, messages: list[dict[str, Any]], stream: bool, **more: Any) -> bytes:
    return json.dumps({"model": model, "stream": stream, "messages": messages} | more).encode()


def build_responses(model: str, script: str, stream: bool, **more: Any) -> bytes:
    return json.dumps({"model": model, "stream": stream, "input": script} | more).encode()
