"""A web server of a few lines on loopback, as a context manager."""

import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Answer(NamedTuple):
    status: int
    kind: str
    data: bytes


class LoopbackServer(ABC):
    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), build_handler(self))
        # A short poll interval: a shutdown waits for it.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @abstractmethod
    def answer(self, path: str, body: bytes) -> Answer:
        """Whatever the method; called in a thread of its own."""

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def build_handler(server: LoopbackServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = server.answer(self.path, body)
            try:
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("content-length", str(len(answer.data)))
                self.end_headers()
                self.wfile.write(answer.data)
            except OSError:  # who asked is gone
                self.close_connection = True

        do_POST = do_GET  # noqa: N815 (the base class's name)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            """Quiet: whoever wants to know asks the server."""

    return Handler


def answer_json(payload: Any, status: int = 200) -> Answer:
    return Answer(status, "application/json", json.dumps(payload).encode())
