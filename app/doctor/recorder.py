"""A model on loopback that answers `ok` and remembers what it was asked."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, cast

import orjson

from app.backend.local_server import LocalHandler, LocalServer
from app.lib import sse

MAX_BODY_BYTES = 16 * 1024 * 1024
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
ANSWER = {
    "id": "msg_doctor",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ok", "annotations": []}],
}
RESPONSE = {"id": "resp_doctor", "object": "response", "model": "doctor"}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "response.created", "response": RESPONSE | {"status": "in_progress", "output": []}},
    {"type": "response.output_item.done", "output_index": 0, "item": ANSWER},
    {
        "type": "response.completed",
        "response": RESPONSE | {"status": "completed", "output": [ANSWER], "usage": USAGE},
    },
)


class Recorder:
    """As a context manager; serves in a thread of its own."""

    def __enter__(self) -> Recorder:
        self._server = _Server()
        # The interval bounds how long the end waits.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return self._server.base_url

    def take(self) -> list[dict[str, Any]]:
        """The bodies that came since the last time."""
        taken, self._server.bodies = self._server.bodies, []
        return taken


class _Server(LocalServer):
    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        super().__init__(_Handler)


class _Handler(LocalHandler):
    def do_POST(self) -> None:  # noqa: N802 - the name it is called by
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.send_error(411)
            return
        cast(_Server, self.server).bodies.append(parse_body(self.rfile.read(int(length))))
        data = b"".join(f"event: {event['type']}\n".encode() + sse.encode_data(event) for event in EVENTS)
        self.send_head(200, "text/event-stream", len(data))
        self.wfile.write(data)


def parse_body(data: bytes) -> dict[str, Any]:
    """What is no JSON object is still a request that nobody ordered."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
