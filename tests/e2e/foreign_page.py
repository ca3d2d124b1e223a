"""An empty page on an origin that is not the gateway's: what an app of somebody else's starts from."""

from __future__ import annotations

from tests.support.loopback_server import Answer, LoopbackServer

# The icon is told to be none, so that the browser asks for none.
PAGE = b'<!doctype html><title>An app</title><link rel="icon" href="data:,">'


class ForeignPage(LoopbackServer):
    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"

    def answer(self, path: str, body: bytes) -> Answer:
        return Answer(200, "text/html", PAGE)
