"""Plays a recorded codex pipe through the gateway, and prints what a client gets.

    python -m tests.support.replay FILE [--stream | --body] [--mode obsidian-xml | openai-json]

Without `--mode` the request gets the mode that its like would get from a gateway as it comes.
The gateway's own log lines go to stderr.
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from werkzeug.test import TestResponse

from app import create_app
from app.backend.notifications import NotificationReader
from app.backend.tool_names import ToolNames
from app.lib.events import BackendEvent
from app.lib.output_mode import OutputMode
from app.lib.prompt import Prompt
from app.pipeline import Client
from app.settings import Settings
from tests.support.scripted_backend import ScriptedBackend, ScriptedTurn
from tests.support.transcripts import Transcript

Params = dict[str, Any]


class Recording(Transcript):
    """A recorded pipe, wherever it lies, and the request it was made for."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(str(path.resolve().with_suffix("")))

    def build_request(self) -> Params:
        """The chat request again: what was said, the tools, the choices; not the rest of its history."""
        injected = [item for params in self._find("thread/inject_items")[:1] for item in params["items"]]
        said = [item for item in injected if item["type"] == "message"]
        asked = [{"role": "user", "content": params["input"]} for params in self._find("turn/start")[:1]]
        threads = self._find("thread/start")
        tools = [build_tool(tool) for tool in threads[0].get("dynamicTools", ())]
        return {
            "model": threads[0].get("model", "recorded"),
            "messages": [build_message(each) for each in [*said, *asked] if each["content"]],
            "n": len(threads),
            **({"tools": tools} if tools else {}),
        }

    def break_behind(self, delta: str) -> Recording:
        """The same, broken off behind the first delta of this text."""
        deltas = [message.get("params", {}).get("delta") for message in self._received]
        broken = copy.copy(self)
        broken._received = self._received[: deltas.index(delta) + 1]
        return broken

    def deltas(self) -> list[str]:
        """What the model said, cut as it was."""
        said = [each for each in self.notifications() if each.method == "item/agentMessage/delta"]
        return [each.params["delta"] for each in said]

    def read(self, names: ToolNames, per_read: int) -> Iterator[list[BackendEvent]]:
        """The events of the turn, of so many notifications at a time."""
        reader = NotificationReader(names)
        for choice, thread_id in enumerate(self.thread_ids()):
            reader.add_thread(thread_id, choice)
        told = list(self.notifications())
        for start in range(0, len(told), per_read):
            yield [event for each in told[start : start + per_read] for event in reader.read(each)]

    def _find(self, method: str) -> list[Params]:
        return [message["params"] for message in self._sent if message.get("method") == method]


def build_message(item: Params) -> Params:
    texts = [part["text"] for part in item["content"] if "text" in part]
    return {"role": item["role"], "content": "".join(texts)}


def build_tool(tool: Params) -> Params:
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
    return {"type": "function", "function": function}


class ReplayBackend(ScriptedBackend):
    """Every turn plays the recording anew; where that breaks off, so does the turn."""

    def __init__(self, recording: Recording, per_read: int = 1) -> None:
        super().__init__()
        self._recording = recording
        self._per_read = per_read

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> ScriptedTurn:
        self.script = self._recording.read(ToolNames(prompt.tools), self._per_read)
        return super().open_turn(prompt, client, owner)


def replay(recording: Recording, stream: bool, mode: str | None = None) -> TestResponse:
    """What a client of a gateway as it comes gets."""
    app = create_app(Settings(), ReplayBackend(recording))
    headers = {"x-proxy-output-mode": mode} if mode else {}
    body = recording.build_request() | {"stream": stream}
    return app.test_client().post("/v1/chat/completions", json=body, headers=headers, buffered=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.replay", description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--stream", action="store_true", default=True, help="as a stream; unless told otherwise")
    way.add_argument("--body", dest="stream", action="store_false", help="as one body")
    parser.add_argument("--mode", choices=[mode.value for mode in OutputMode])
    asked = parser.parse_args(arguments)
    response = replay(Recording(asked.file), asked.stream, asked.mode)
    sys.stdout.write(response.get_data(as_text=True).rstrip("\n") + "\n")
    return 0 if response.status_code == 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
