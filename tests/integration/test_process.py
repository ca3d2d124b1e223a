"""One real codex process, driven without a server."""

import json
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.backend import calls
from app.backend.home import CodexHome
from app.backend.jsonrpc import ServerRequest
from app.backend.process import CodexProcess
from app.backend.waiting import run_through
from app.lib.errors import BackendRefused, ProcessFailed
from app.settings import Settings
from tests.support.gateway import write_provider
from tests.support.processes import is_running
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real


@pytest.fixture
def home(tmp_path: pathlib.Path, model: ScriptedModel) -> CodexHome:
    provider = write_provider(tmp_path, model.base_url)
    made = CodexHome(
        Settings.from_env({"PROXY_STATE_DIR": f"{tmp_path}/s", "PROXY_CODEX_CONFIG_FILE": provider})
    )
    made.prepare()
    return made


@contextmanager
def start_process(home: CodexHome) -> Iterator[CodexProcess]:
    process = CodexProcess(home, Settings())
    try:
        run_through(process.greet())
        yield process
    finally:
        process.kill()


def start_thread(process: CodexProcess, home: CodexHome) -> str:
    params = {"ephemeral": True, "baseInstructions": "", "environments": [], "cwd": str(home.work)}
    return str(run_through(process.rpc.call(("thread/start", params)))["thread"]["id"])


def run_turn(process: CodexProcess, thread_id: str, items: list[dict[str, Any]]) -> None:
    inject = ("thread/inject_items", {"threadId": thread_id, "items": items})
    run_through(process.rpc.call_all([inject, ("turn/start", {"threadId": thread_id, "input": []})]))
    read_to_the_end(process)


def read_to_the_end(process: CodexProcess) -> None:
    deadline_s = time.monotonic() + 10
    while not any(note.method == "turn/completed" for note in process.rpc.receive()):
        assert time.monotonic() < deadline_s


def test_arguments_and_results_are_in_no_file_afterwards(home: CodexHome, model: ScriptedModel) -> None:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "nonce-prompt-1"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": "nonce-argument-2"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "nonce-result-3"},
    ]
    with start_process(home) as process:
        run_turn(process, start_thread(process, home), items)
    assert "nonce-result-3" in str(model.requests[-1]["input"])
    assert not is_running(process.pid)
    files = [path for path in home.path.parent.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"nonce-" in path.read_bytes()] == []


def test_a_process_that_was_left_at_its_hello_is_of_no_use(home: CodexHome) -> None:
    """Another hello would be refused: codex takes one."""
    process = CodexProcess(home, Settings())
    try:
        meanwhile = {process.is_settled for _ in process.greet()}
        assert (meanwhile, process.is_settled) == ({False}, True)
    finally:
        process.kill()


def test_a_bad_line_ends_a_wait_at_once(tmp_path: pathlib.Path) -> None:
    """Also behind something that nobody reads while an answer is waited for."""
    binary = tmp_path / "codex"
    binary.write_text('#!/bin/sh\nread line\nprintf \'{"method":"x"}\\nnot json\\n\'\nexec sleep 60\n')
    binary.chmod(0o755)
    settings = Settings.from_env({"PROXY_STATE_DIR": f"{tmp_path}/s", "CODEX_BIN": str(binary)})
    (tmp_path / "s" / "empty").mkdir(parents=True)
    process = CodexProcess(CodexHome(settings), settings)
    began_s = time.monotonic()
    try:
        with pytest.raises(ProcessFailed, match="not JSON-RPC"):
            run_through(process.greet())
    finally:
        process.kill()
    assert (time.monotonic() - began_s < 4, process.is_settled) == (True, False)


def test_a_thread_opened_ahead_is_taken_once(home: CodexHome) -> None:
    """Also when its answer was read while something else was waited for, as a model list now and then is."""
    thread = calls.start_thread("scripted-model", str(home.work))
    with start_process(home) as process:
        first = run_through(process.open_threads(thread, 1))
        assert process.rest()
        for _ in range(50):  # long enough for the thread's answer to come in between
            run_through(process.rpc.call(calls.LIST_MODELS))
        began_s = time.monotonic()
        second = run_through(process.open_threads(thread, 2))
        assert time.monotonic() - began_s < 10
        other = run_through(process.open_threads(calls.start_thread("gpt-5.5", str(home.work)), 1))
    ids = [answer["thread"]["id"] for answer in first + second + other]
    assert len(set(ids)) == 4
    assert [answer["model"] for answer in other] == ["gpt-5.5"]
    assert process.turns == 4


def build_tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"type": "function", "name": name, "description": "d", "inputSchema": schema}


def test_a_thread_opened_ahead_is_only_for_the_same_tools(home: CodexHome, model: ScriptedModel) -> None:
    def start(*names: str) -> calls.Call:
        return calls.start_thread("scripted-model", str(home.work), [build_tool(name) for name in names])

    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]
    offered = []
    with start_process(home) as process:
        for names in [("f", "g"), ("f", "g"), ("f",), (), ("f", "g")]:
            [answer] = run_through(process.open_threads(start(*names), 1))
            run_turn(process, answer["thread"]["id"], said)
            offered.append(tuple(tool["name"] for tool in model.requests[-1].get("tools", [])))
            assert process.rest()
    assert offered == [("f", "g"), ("f", "g"), ("f",), (), ("f", "g")]
    # A thread was opened ahead five times, and was of use once.
    assert process.turns == 9


def test_a_question_that_comes_between_two_owners_is_declined(home: CodexHome, model: ScriptedModel) -> None:
    """Also one that nobody has read yet: the next owner finds a turn that has gone on."""
    script = json.dumps([{"call": {"name": "f", "arguments": "{}"}}, {"then": [{"say": ["done"]}]}])
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": script}]}]
    thread = calls.start_thread("scripted-model", str(home.work), [build_tool("f")])
    with start_process(home) as process:
        [answer] = run_through(process.open_threads(thread, 1))
        thread_id = answer["thread"]["id"]
        batch = [calls.inject_items(thread_id, said), calls.start_turn(thread_id, None)]
        run_through(process.rpc.call_all(batch))
        deadline_s = time.monotonic() + 10
        while not any(isinstance(each, ServerRequest) for each in process.rpc._inbox._messages):
            run_through(process.rpc.call(calls.LIST_MODELS))
            assert time.monotonic() < deadline_s
        assert process.rest()
        read_to_the_end(process)
    outputs = [
        item["output"] for item in model.requests[-1]["input"] if item["type"] == "function_call_output"
    ]
    assert outputs == ["dynamic tool request failed"]


def test_a_refused_call_is_an_error_that_names_it(home: CodexHome) -> None:
    with start_process(home) as process, pytest.raises(BackendRefused, match="thread/inject_items"):
        run_through(process.rpc.call(("thread/inject_items", {"threadId": "nobody", "items": []})))


def test_nothing_is_wrong_with_the_configuration(home: CodexHome) -> None:
    """A setting codex does not know would come as a warning, and leave a tool or a text switched on."""
    with start_process(home) as process:
        start_thread(process, home)
        warnings = [
            note.params["summary"] for note in process.rpc.receive() if note.method == "configWarning"
        ]
    assert [text for text in warnings if "bubblewrap" not in text] == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param("401 with Bearer abc.def-9", "401 with [redacted]", id="bearer"),
        pytest.param("key sk-proj-0123456789ab is bad", "key [redacted] is bad", id="key"),
        pytest.param("token eyJhbGciOiJIUzI1.eyJzdWIi.c2ln end", "token [redacted] end", id="jwt"),
        pytest.param("a task-list of risk-factors", "a task-list of risk-factors", id="no-secret"),
    ],
)
def test_the_last_words_of_a_process_tell_no_secret(home: CodexHome, said: str, told: str) -> None:
    with start_process(home) as process:
        with open(process.folder / "stderr", "a") as stderr:
            stderr.write(said)
        assert process.describe_end()["stderr"].endswith(told)
