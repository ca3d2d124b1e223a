"""Recorded codex pipes, replayed."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

from app.backend.jsonrpc import Notification, parse_message

FOLDER = pathlib.Path(__file__).parent.parent / "fixtures" / "transcripts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


class Transcript:
    def __init__(self, name: str) -> None:
        lines = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()]
        self._sent = [line["msg"] for line in lines if line["from"] == "proxy"]
        self._received: list[dict[str, Any]] = [line["msg"] for line in lines if line["from"] == "codex"]

    def thread_ids(self) -> list[str]:
        """In the order they were asked for: the choices."""
        asked = [message["id"] for message in self._sent if message.get("method") == "thread/start"]
        started = {
            message["id"]: message["result"]["thread"]["id"]
            for message in self._received
            if message.get("id") in asked and "result" in message
        }
        return [started[id_] for id_ in asked]

    def received(self) -> list[dict[str, Any]]:
        """Everything codex sent, as it was on the wire."""
        return self._received

    def notifications(self) -> Iterator[Notification]:
        for message in self._received:
            parsed = parse_message(json.dumps(message).encode())
            if isinstance(parsed, Notification):
                yield parsed
