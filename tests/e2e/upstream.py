"""A server in the gateway's place that keeps what nginx sends it, and answers badly or not at all."""

from __future__ import annotations

import http.client
import io
import socket
import threading
from types import TracebackType


class Upstream:
    """With `hangs` it holds every request; without, it closes the connection without a word."""

    def __init__(self, hangs: bool = False) -> None:
        #: The head and the body of each request, whole.
        self.requests: list[tuple[http.client.HTTPMessage, bytes]] = []
        self._hangs = hangs
        self._held: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._thread = threading.Thread(target=self._serve)

    @property
    def port(self) -> int:
        port: int = self._server.getsockname()[1]
        return port

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # it was closed
                return
            self._take(client)

    def _take(self, client: socket.socket) -> None:
        with client.makefile("rb") as file:
            file.readline()
            head = http.client.parse_headers(file)
            self.requests.append((head, read_exactly(file, int(head.get("content-length", 0)))))
        if self._hangs:
            self._held.append(client)
        else:
            client.close()

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for each in self._held:
            each.close()


def read_exactly(file: io.BufferedReader, count: int) -> bytes:
    data = file.read(count)
    assert len(data) == count
    return data
