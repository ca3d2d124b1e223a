"""Story 2.12's regression under the real server, on a bare socket: the recorded deltas, said again."""

import json
import pathlib
import secrets
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gateway import Gateway, wait_until
from tests.support.replay import Recording
from tests.support.scripted_model import ScriptedModel
from tests.support.sse import DONE, read_deltas

pytestmark = pytest.mark.real

PATH = pathlib.Path(__file__).parents[1] / "fixtures" / "proto-replay" / "req-HevrLsVQESL3K1M3_3dHi.jsonl"
RECORDING = Recording(PATH)
DELTAS = RECORDING.deltas()
#: What was said up to and with a delta inside the block.
BEGUN = RECORDING.break_behind('Terms>["pl').deltas()
BLOCK = (
    "<use_tool>\n<name>localSearch</name>\n<query>quarterly plan 日本語 🎹</query>\n"
    '<salientTerms>["plan", "quarterly"]</salientTerms>\n</use_tool>'
)
SENTENCE = "I will look through your notes first.\n\n"
ARGUMENTS = '{"query":"quarterly plan 日本語 🎹","salientTerms":["plan","quarterly"]}'


class Caller:
    """A request on a socket of its own, as the recorded client made it."""

    def __init__(self, gateway: Gateway, script: list[dict[str, Any]]) -> None:
        instructions = RECORDING.build_request()["messages"][0]
        messages = [instructions, {"role": "user", "content": json.dumps(script)}]
        body = json.dumps({"model": "scripted-model", "stream": True, "messages": messages}).encode()
        self._gateway = gateway
        self._id = f"replay-{secrets.token_hex(4)}"
        host, _, port = gateway.base_url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.socket.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nx-request-id: %s\r\nContent-Length: %d\r\n\r\n%s"
            % (self._id.encode(), len(body), body)
        )

    def read_until(self, mark: bytes) -> bytes:
        """What comes up to a mark, or to the end."""
        got = b""
        while mark not in got and (more := self.socket.recv(65536)):
            got += more
        return got

    def read_chunks(self) -> list[bytes]:
        """The writes of the whole reply, as HTTP frames them."""
        with self.socket:
            raw = self.read_until(b"\r\n0\r\n\r\n")
        head, _, rest = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        chunks = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunks.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return chunks

    def find_line(self) -> dict[str, Any]:
        """What the gateway logs of it in the end."""

        def find() -> list[dict[str, Any]]:
            told = [line for line in self._gateway.lines() if line["logger"] == "access"]
            return [line for line in told if line.get("request_id") == self._id]

        [line] = wait_until(find)
        return {key: value for key, value in line.items() if key.startswith("tool_") or key == "error"}


def read_contents(brought: list[Any]) -> list[str]:
    deltas = [each[1] for each in brought if isinstance(each, tuple)]
    return [delta["content"] for delta in deltas if delta.get("content")]


def test_one_textual_frame(gateway: Gateway, model: ScriptedModel) -> None:
    """Story 2.12 AC 5: the block once, verbatim, in a frame that no write cuts; then only the finish."""
    asked = len(model.requests)
    caller = Caller(gateway, [{"say": DELTAS, "pause_s": 0.005}])
    chunks = caller.read_chunks()
    assert [chunk for chunk in chunks if chunk and not chunk.endswith(b"\n\n")] == []
    data = b"".join(chunks)
    brought = read_deltas(data)
    contents = read_contents(brought)
    assert ("".join(contents), contents[-1]) == (SENTENCE + BLOCK, BLOCK)
    assert data.count(b"use_tool>") == 2  # the opener and the closer, of one block
    started, added, block, finish, done = brought[-5:]
    [call], [more] = started[1]["tool_calls"], added[1]["tool_calls"]
    assert (call["function"]["name"], more["function"]["arguments"]) == ("localSearch", ARGUMENTS)
    assert (block, finish, done) == ((0, {"content": BLOCK}, None), (0, {}, "tool_calls"), DONE)
    flushed = {"tool_buffer_started.use_tool": 1, "tool_buffer_flushed.use_tool.complete": 1}
    assert (caller.find_line(), len(model.requests) - asked) == (flushed | {"tool_calls": 1}, 1)


def test_a_stream_that_breaks_inside_the_block(gateway: Gateway) -> None:
    """Story 2.12 AC 2, 5: what was held goes out once, then the error; no call."""
    caller = Caller(gateway, [{"say": BEGUN, "pause_s": 0.02, "open": True}, {"drop": True}])
    *said, error, done = read_deltas(b"".join(caller.read_chunks()))
    assert ("".join(read_contents(said)), [finish for *_, finish in said]) == (
        "".join(BEGUN),
        [None] * len(said),
    )
    assert (error["error"]["code"], done) == ("backend_unavailable", DONE)
    assert caller.find_line() == {
        "tool_buffer_started.use_tool": 1,
        "tool_buffer_aborted.use_tool.stream_failed": 1,
        "error": "backend_unavailable",
    }


def test_a_client_that_leaves_inside_the_block(stand_in: Callable[..., Gateway]) -> None:
    """Story 2.12 AC 2: a comment tells that the block is held; what is owed then is counted, not sent."""
    gateway = stand_in(PROXY_SSE_KEEPALIVE_MS="200")
    caller = Caller(gateway, [{"say": BEGUN, "open": True}, {"wait": 20}])
    with caller.socket:
        got = caller.read_until(b": keepalive")
    assert (b"notes first." in got, b"use_tool" in got) == (True, False)
    line = caller.find_line()
    assert (line["tool_buffer_started.use_tool"], line["tool_buffer_aborted.use_tool.client_left"]) == (1, 1)
