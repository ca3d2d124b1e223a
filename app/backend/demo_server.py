"""The demo model over HTTP: a Responses API of one route on a loopback port."""

from __future__ import annotations

import http
import re
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import orjson

from app.backend import demo_model
from app.backend.local_server import LocalHandler, LocalServer
from app.lib import sse

_MAX_BODY_BYTES = 64 * 1024 * 1024
# Word by word, and joined again the very text.
_PIECE = re.compile(r"\s*\S+|\s+")


class DemoServer:
    """The scripted model behind model id `demo`, on a loopback port of its own."""

    def __init__(self, word_pause_s: float = 0.02) -> None:
        self._word_pause_s = word_pause_s
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind a port and serve it in a daemon thread."""
        if self._server is not None:
            return
        self._server = _Server(self._word_pause_s)
        # The interval bounds how long `close` waits.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="demo", daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        if self._server is None:
            raise RuntimeError("the demo server is not running")
        return self._server.base_url

    def close(self) -> None:
        """End the thread and free the port; streams that still run stop at their next word."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.closing.set()
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(LocalServer):
    def __init__(self, word_pause_s: float) -> None:
        self.word_pause_s = word_pause_s
        self.closing = threading.Event()
        super().__init__(_Handler)


class _Refused(Exception):
    """A request that gets a JSON error instead of a stream."""

    def __init__(self, status: http.HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(LocalHandler):
    @property
    def _owner(self) -> _Server:
        return cast(_Server, self.server)

    def do_POST(self) -> None:  # noqa: N802 - the name it is called by
        try:
            reply = demo_model.decide(self._read_body())
        except _Refused as refusal:
            self.send_error(refusal.status, str(refusal))
        else:
            self._stream(reply)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # The inherited handler says 501 of a method it has no `do_` for; here that is one more unknown route.
        status = (
            http.HTTPStatus.NOT_FOUND if code == http.HTTPStatus.NOT_IMPLEMENTED else http.HTTPStatus(code)
        )
        body = orjson.dumps(_build_error(message or explain or status.phrase))
        self.send_head(status, "application/json", len(body))
        self.wfile.write(body)

    def _read_body(self) -> dict[str, Any]:
        self._check_way()
        if self.path.partition("?")[0] != "/v1/responses":
            raise _Refused(http.HTTPStatus.NOT_FOUND, "The demo model only has POST /v1/responses.")
        try:
            body = orjson.loads(self.rfile.read(self._read_length()))
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            raise _Refused(http.HTTPStatus.BAD_REQUEST, "The body is not a JSON object.")
        return body

    def _check_way(self) -> None:
        # A page whose name was rebound to loopback still sends its own; one that only posts says its origin.
        port = self._owner.server_port
        is_named = self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        if not is_named or "Origin" in self.headers:
            raise _Refused(http.HTTPStatus.FORBIDDEN, "The demo model only answers on loopback.")

    def _read_length(self) -> int:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(http.HTTPStatus.LENGTH_REQUIRED, "A Content-Length is needed.")
        # Compared by digits first: `int` refuses very long numbers.
        if len(length) > 18 or int(length) > _MAX_BODY_BYTES:
            raise _Refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is larger than 64 MB.")
        return int(length)

    def _stream(self, reply: demo_model.Reply) -> None:
        self.send_head(http.HTTPStatus.OK, "text/event-stream")
        for number, event in enumerate(_build_events(reply)):
            is_word = event["type"].endswith(".delta")
            if is_word and self._owner.closing.wait(self._owner.word_pause_s):
                return
            frame = sse.encode_data({**event, "sequence_number": number})
            self.wfile.write(f"event: {event['type']}\n".encode() + frame)


def _build_error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _build_events(reply: demo_model.Reply) -> Iterator[dict[str, Any]]:
    """The whole response, in the order codex reads it."""
    response = {"id": _new_id("resp"), "object": "response", "created_at": int(time.time()), "model": "demo"}
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    output: list[dict[str, Any]] = []
    for events in _build_items(reply):
        for event in events:
            yield {**event, "output_index": len(output)}
        output.append(event["item"])
    done = {**response, "status": "completed", "output": output, "usage": _build_usage(reply)}
    yield {"type": "response.completed", "response": done}


def _build_items(reply: demo_model.Reply) -> Iterator[Iterator[dict[str, Any]]]:
    """One run of events an item; each ends with the finished item."""
    if reply.thought:
        yield _build_thought(reply.thought if reply.is_thought_told else "")
    yield from map(_build_call, reply.calls)
    if not reply.calls:
        yield _build_message(reply.text)


def _build_thought(summary: str) -> Iterator[dict[str, Any]]:
    item: dict[str, Any] = {
        "id": _new_id("rs"),
        "type": "reasoning",
        "summary": [],
        "encrypted_content": None,
    }
    place = {"item_id": item["id"], "summary_index": 0}
    yield {"type": "response.output_item.added", "item": item}
    if summary:
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": empty}
    for piece in _PIECE.findall(summary):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    finished = {**item, "summary": parts, "encrypted_content": secrets.token_urlsafe(48)}
    yield {"type": "response.output_item.done", "item": finished}


def _build_call(call: demo_model.Call) -> Iterator[dict[str, Any]]:
    item = {"id": _new_id("fc"), "type": "function_call", "call_id": _new_id("call"), "name": call.name}
    yield {"type": "response.output_item.added", "item": {**item, "arguments": "", "status": "in_progress"}}
    place = {"item_id": item["id"]}
    yield {"type": "response.function_call_arguments.delta", **place, "delta": call.arguments}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": call.arguments}
    finished = {**item, "arguments": call.arguments, "status": "completed"}
    yield {"type": "response.output_item.done", "item": finished}


def _build_message(text: str) -> Iterator[dict[str, Any]]:
    item = {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    place = {"item_id": item["id"], "content_index": 0}
    yield {"type": "response.output_item.added", "item": item}
    for piece in _PIECE.findall(text):
        yield {"type": "response.output_text.delta", **place, "delta": piece}
    part = {"type": "output_text", "text": text, "annotations": []}
    yield {"type": "response.output_item.done", "item": {**item, "status": "completed", "content": [part]}}


def _build_usage(reply: demo_model.Reply) -> dict[str, Any]:
    thought = demo_model.estimate_tokens(reply.thought)
    spoken = reply.text + "".join(call.name + call.arguments for call in reply.calls)
    output = thought + demo_model.estimate_tokens(spoken)
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": reply.input_tokens + output,
    }


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(8)}"
