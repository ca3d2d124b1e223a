"""What codex said that its owner has not read yet."""

from __future__ import annotations

from app.backend import jsonrpc
from app.backend.pipe import Pile

#: What its owner reads.
Incoming = jsonrpc.Notification | jsonrpc.ServerRequest


class Inbox:
    def __init__(self) -> None:
        self._messages: list[Incoming] = []
        self._pile = Pile()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, message: Incoming, line: bytes) -> None:
        self._messages.append(message)
        self._pile.add(line)

    def take(self) -> list[Incoming]:
        messages, self._messages = self._messages, []
        self._pile.clear()
        return messages
