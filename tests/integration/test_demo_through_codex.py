"""The demo model as a person meets it: through the real codex binary."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import codex_cli_bin
import pytest

from app.backend.demo_server import DemoServer

pytestmark = pytest.mark.real

DEADLINE_S = 60
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather for a place",
    "inputSchema": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
    },
}
TIME = {
    "type": "function",
    "name": "get_time",
    "description": "The clock of a place",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
BARE = {
    "web_search": "disabled",
    "include_permissions_instructions": False,
    "include_environment_context": False,
    "include_collaboration_mode_instructions": False,
    "skills": {"include_instructions": False},
    "features": {"shell_tool": False, "multi_agent": False, "goals": False},
}


class Codex:
    """A codex app-server at the other end of a pipe of JSON lines."""

    def __init__(self, process: subprocess.Popen[bytes], base_url: str, folder: pathlib.Path) -> None:
        self._process = process
        self._base_url = base_url
        self._folder = folder
        self._last_id = 0
        self.tool_calls: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "codex ended, or was killed at the deadline"
        message: dict[str, Any] = json.loads(line)
        return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last_id += 1
        self.send(id=self._last_id, method=method, params=params)
        while (message := self.read()).get("id") != self._last_id or "method" in message:
            pass
        result: dict[str, Any] = message["result"]
        return result

    def start_thread(self, tools: list[dict[str, Any]]) -> str:
        capabilities = {"experimentalApi": True}
        client = {"name": "codex_gateway", "title": "test", "version": "0"}
        self.call("initialize", clientInfo=client, capabilities=capabilities)
        self.send(method="initialized")
        provider = {
            "name": "demo",
            "base_url": self._base_url,
            "wire_api": "responses",
            "request_max_retries": 0,
            "stream_max_retries": 0,
        }
        started = self.call(
            "thread/start",
            ephemeral=True,
            baseInstructions="",
            sandbox="read-only",
            approvalPolicy="never",
            cwd=str(self._folder),
            environments=[],
            experimentalRawEvents=True,
            model="demo",
            modelProvider="demo",
            config={**BARE, "model_providers": {"demo": provider}},
            dynamicTools=tools,
        )
        thread_id: str = started["thread"]["id"]
        return thread_id

    def run_turn(self, thread_id: str, text: str, **options: Any) -> list[dict[str, Any]]:
        """The turn's notifications; every tool call is answered with the same weather."""
        words = [{"type": "text", "text": text}]
        self.call("turn/start", threadId=thread_id, input=words, environments=[], **options)
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1]["method"] != "turn/completed":
            message = self.read()
            if message.get("method") == "item/tool/call":
                self.tool_calls.append(message["params"])
                answer = {
                    "contentItems": [{"type": "inputText", "text": "21 degrees, clear"}],
                    "success": True,
                }
                self.send(id=message["id"], result=answer)
            elif "method" in message:
                seen.append(message)
        assert seen[-1]["params"]["turn"]["status"] == "completed", seen[-1]
        return seen


@pytest.fixture
def codex(tmp_path: pathlib.Path) -> Iterator[Codex]:
    folders = {name: tmp_path / name.lower() for name in ("HOME", "CODEX_HOME", "CODEX_SQLITE_HOME", "WORK")}
    for folder in folders.values():
        folder.mkdir()
    quiet = "check_for_update_on_startup = false\n[analytics]\nenabled = false\n"
    (folders["CODEX_HOME"] / "config.toml").write_text(quiet)
    environ = {"PATH": os.environ["PATH"], **{name: str(folder) for name, folder in folders.items()}}
    server = DemoServer(word_pause_s=0)
    server.start()
    try:
        with run_app_server(environ, tmp_path / "stderr") as process:
            yield Codex(process, server.base_url, folders["WORK"])
    finally:
        server.close()


@contextlib.contextmanager
def run_app_server(environ: dict[str, str], stderr: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(codex_cli_bin.bundled_codex_path()), "app-server"]
    with (
        stderr.open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environ,
            cwd=environ["WORK"],
        ) as process,
    ):
        # Reads block: past the deadline the pipe ends instead of the test hanging.
        watchdog = threading.Timer(DEADLINE_S, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            watchdog.join()
            process.kill()


def deltas_of(seen: list[dict[str, Any]], method: str) -> list[str]:
    return [message["params"]["delta"] for message in seen if message["method"] == method]


def text_of(seen: list[dict[str, Any]]) -> str:
    return "".join(deltas_of(seen, "item/agentMessage/delta"))


def test_text_streams_and_history_arrives(codex: Codex) -> None:
    thread_id = codex.start_thread([])
    first = codex.run_turn(thread_id, "good morning")
    assert len(deltas_of(first, "item/agentMessage/delta")) > 5
    assert "“good morning”" in text_of(first)
    second = codex.run_turn(thread_id, "and again")
    assert text_of(second).endswith("I remember 1 earlier turn, which was “good morning”.")


def test_usage_reaches_the_gateway(codex: Codex) -> None:
    seen = codex.run_turn(codex.start_thread([]), "say exactly: 12345678")
    usage = next(m["params"]["usage"] for m in seen if m["method"] == "rawResponse/completed")
    assert (text_of(seen), usage["outputTokens"], usage["cachedInputTokens"]) == ("12345678", 2, 0)


def test_named_tool_is_called_and_its_result_quoted(codex: Codex) -> None:
    thread_id = codex.start_thread([WEATHER, TIME])
    seen = codex.run_turn(thread_id, "Please use get_weather for Paris in fahrenheit")
    calls = [(call["tool"], call["arguments"]) for call in codex.tool_calls]
    assert calls == [("get_weather", {"city": "Paris", "unit": "fahrenheit"})]
    assert "get_weather answered: “21 degrees, clear”." in text_of(seen)


def test_two_named_tools_are_called_in_one_response(codex: Codex) -> None:
    seen = codex.run_turn(codex.start_thread([WEATHER, TIME]), "get_weather and get_time for Paris")
    assert sorted(call["tool"] for call in codex.tool_calls) == ["get_time", "get_weather"]
    assert text_of(seen).count("“21 degrees, clear”") == 2


def test_reasoning_summary_comes_with_effort(codex: Codex) -> None:
    seen = codex.run_turn(codex.start_thread([]), "good morning", effort="high", summary="auto")
    assert len(deltas_of(seen, "item/reasoning/summaryTextDelta")) > 5
    assert "".join(deltas_of(seen, "item/reasoning/summaryTextDelta")).startswith("The question is")


def test_output_schema_is_answered_with_json(codex: Codex) -> None:
    schema = {**WEATHER["inputSchema"], "additionalProperties": False}  # type: ignore[dict-item]
    seen = codex.run_turn(codex.start_thread([]), "the weather in Oslo", outputSchema=schema)
    assert json.loads(text_of(seen)) == {"city": "Oslo", "unit": "celsius"}
