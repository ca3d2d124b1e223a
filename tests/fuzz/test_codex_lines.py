"""Codex's recorded lines, altered: whatever comes, the request gets one answer, and no fault of our own."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.backend.jsonrpc import LineReader, LineTooLong, Notification, parse_message
from app.backend.notifications import NotificationReader
from app.backend.raw_items import read_raw_item
from app.backend.tool_names import ToolNames
from app.backend.transcript import Transcript as Heard
from app.backend.turn_ends import read_turn_over
from app.lib.errors import ProcessFailed
from app.lib.events import BackendEvent
from app.lib.prompt import Prompt
from app.pipeline import Client
from tests.fuzz.effort import seeds
from tests.fuzz.judge import judge_reply
from tests.fuzz.mutations import cut, mangle_lines
from tests.support.replay import Recording
from tests.support.scripted_backend import ScriptedBackend, ScriptedTurn
from tests.support.transcripts import FOLDER

NAMES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.jsonl"))
TRIES = 12
MAX_LINE_BYTES = 1 << 20


def read_pipe(data: bytes, rng: random.Random) -> Iterator[Notification]:
    """What the pipe, and who owns it, make of these bytes."""
    reader = LineReader(MAX_LINE_BYTES)
    for piece in cut(data, rng):
        try:
            lines = reader.feed(piece)
        except LineTooLong as error:
            raise ProcessFailed("Codex sent a line that is too long.") from error
        for line in lines:
            message = parse_message(line)
            if message is None:
                raise ProcessFailed("Codex sent a line that is not JSON-RPC.")
            if isinstance(message, Notification):
                yield message


class MangledTurn(ScriptedTurn):
    """A recorded turn whose bytes suffered; all that reads notifications reads these."""

    def __init__(self, recording: Recording, names: ToolNames, rng: random.Random) -> None:
        lines = [json.dumps(message).encode() for message in recording.received()]
        self.data = mangle_lines(lines, rng)
        self._reader = NotificationReader(names)
        self._heard = Heard()
        for choice, thread_id in enumerate(recording.thread_ids()):
            self._reader.add_thread(thread_id, choice)
        self._thread_ids = recording.thread_ids()
        super().__init__(self._read(rng))

    def _read(self, rng: random.Random) -> Iterator[list[BackendEvent]]:
        for notification in read_pipe(self.data, rng):
            self._hear(notification)
            yield self._reader.read(notification)

    def _hear(self, notification: Notification) -> None:
        params = notification.params
        if notification.method == "turn/completed" and (over := read_turn_over(params)):
            self._heard.note_end(over.is_complete)
        if notification.method == "rawResponseItem/completed" and (done := read_raw_item(params)):
            self._heard.note_item(done, ())

    def close(self) -> None:
        """As a thread is remembered for a follow-up."""
        super().close()
        for thread_id in self._thread_ids:
            assert self._heard.text is not None
            used = self._reader.get_usage(thread_id)
            assert used + used


class MangledBackend(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__()
        self.recording = Recording(FOLDER / f"{NAMES[0]}.jsonl")
        self.rng = random.Random()

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> ScriptedTurn:
        self.turns.append(MangledTurn(self.recording, ToolNames(prompt.tools), self.rng))
        return self.turns[-1]


@pytest.fixture
def backend() -> MangledBackend:
    return MangledBackend()


@pytest.mark.parametrize("name", NAMES)
def test_altered_lines(
    client: FlaskClient, backend: MangledBackend, logged: list[logging.LogRecord], name: str
) -> None:
    backend.recording = Recording(FOLDER / f"{name}.jsonl")
    chat = backend.recording.build_request() | {"model": "gpt-5.5"}
    chat["messages"] = chat["messages"] or [{"role": "user", "content": "Hi"}]
    for seed in seeds(TRIES):
        backend.rng = random.Random(f"{seed} {name}")
        path, body = to_request(chat, backend.rng)
        response = client.post(path, json=body, buffered=True)
        about = f"seed {seed}, {path}, {json.dumps(body)}\n{backend.turns[-1].data.decode(errors='replace')}"
        assert [record.getMessage() for record in logged if record.exc_info] == [], about
        code = judge_reply(response.status_code, response.data, body, about)
        assert code != "internal_error", about
        assert backend.turns[-1].closes == 1, about
        backend.turns.clear()
        logged.clear()


def to_request(chat: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """The recorded request, in either dialect."""
    stream = rng.random() < 0.5
    if rng.random() < 0.6 or chat["n"] > 1:
        return "/v1/chat/completions", chat | {"stream": stream}
    tools = [{"type": "function", **tool["function"]} for tool in chat.get("tools", ())]
    body = {"model": chat["model"], "input": chat["messages"], "tools": tools, "store": False}
    return "/v1/responses", body | {"stream": stream}
