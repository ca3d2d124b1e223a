"""Tool calls in a model's text, from a request to its answer and its log line."""

from __future__ import annotations

import json
import logging
from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from app import create_app
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.conftest import Post
from tests.support.at_tool import AT_TOOL
from tests.support.scripted_backend import ScriptedBackend, end, say
from tests.support.sse import read_frames

ASKED = [
    {"role": "system", "content": "Call tools as <use_tool> blocks, or as @tool(…)."},
    {"role": "user", "content": "Find it."},
]
USE = (
    "<use_tool>\n<name>localSearch</name>\n<query>piano</query>\n"
    '<salientTerms>["piano"]</salientTerms>\n</use_tool>'
)
AT = '@tool("search", {"q": "f(x)"})'


@pytest.fixture
def app(gateway_settings: Settings, backend: ScriptedBackend) -> flask.Flask:
    """With one spelling more than every gateway knows."""
    return create_app(gateway_settings, backend, text_patterns=[AT_TOOL])


def message(response: TestResponse) -> tuple[str, str, list[dict[str, Any]]]:
    """Content, finish reason and calls of a body."""
    [choice] = response.get_json()["choices"]
    calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
    return choice["message"]["content"], choice["finish_reason"], calls


SEARCH = {"name": "localSearch", "arguments": '{"query":"piano","salientTerms":["piano"]}'}


def test_a_block_is_passed_on_and_its_tail_is_not(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 2, 3, 21."""
    backend.script = [say("Let me look. ", *USE), say(" I found nothing."), end()]
    assert message(post(messages=ASKED)) == (f"Let me look. {USE}", "tool_calls", [SEARCH])
    assert backend.turns[0].closes == 1


def test_a_streamed_block_is_one_frame(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.12 AC 1; story 2.9 AC 1, 9, 12."""
    backend.script = [say("Let me look. ", *USE), say(" I found nothing."), end()]
    frames = read_frames(post(messages=ASKED, stream=True).data)
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    contents = [delta["content"] for delta in deltas if "content" in delta]
    assert contents == ["", "Let me look. ", USE]
    assert not any("content" in delta and "tool_calls" in delta for delta in deltas)
    assert [frame["choices"][0]["finish_reason"] for frame in frames[:-1]].count("tool_calls") == 1


def test_an_answer_about_the_tag_is_not_cut(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say(f"Copilot writes {USE} and waits."), end()]
    content, finish, calls = message(post(messages=ASKED[1:]))
    assert (content, finish, calls) == (f"Copilot writes {USE} and waits.", "tool_calls", [SEARCH])


@pytest.mark.parametrize(
    ("gateway_settings", "expected"),
    [
        pytest.param(Settings(), [USE], id="first"),
        pytest.param(Settings(stop_mode=StopMode.ALL), [USE, USE], id="all"),
        pytest.param(Settings(stop_mode=StopMode.ALL, tool_block_dedup=True), [USE], id="without-repeats"),
        pytest.param(Settings(stop_mode=StopMode.ALL, tool_block_max=1), [USE], id="at-most-one"),
        pytest.param(Settings(stop_after_tools=False), [USE], id="running-on"),
        pytest.param(
            Settings(stop_after_tools=False, suppress_tail=False), [USE, "\n", USE, "tail"], id="flowing-on"
        ),
        pytest.param(
            Settings(tool_buffer_max_chars=20), [USE, "\n", USE, "tail"], id="blocks-too-long-to-hold"
        ),
    ],
)
def test_the_knobs(post: Post, backend: ScriptedBackend, expected: list[str]) -> None:
    backend.script = [say(f"{USE}\n{USE}tail"), end()]
    assert message(post(messages=ASKED))[0] == "".join(expected)


def test_a_registered_pattern_is_known_everywhere(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.8, follow-up: handlers, logs and tail suppression see what `create_app` registered."""
    backend.script = [say("Look: ", *AT), say(" tail"), end()]
    body = message(post(messages=ASKED))
    frames = read_frames(post(messages=ASKED, stream=True).data)
    contents = [frame["choices"][0]["delta"].get("content") for frame in frames[:-1]]
    assert body == (f"Look: {AT}", "tool_calls", [{"name": "search", "arguments": '{"q": "f(x)"}'}])
    assert [content for content in contents if content] == ["Look: ", AT]
    lines = [dict(record.fields) for record in logged if record.name == "access"]
    assert [(line["tool_calls"], line["finish"]) for line in lines] == [(1, "tool_calls")] * 2
    assert [line["tool_buffer_flushed.at_tool.complete"] for line in lines] == [1, 1]


def test_the_log_counts_what_was_held(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.12 AC 4: counts, and none of the words."""
    backend.script = [say("<use_tool><secret <use_tool><secret"), end()]
    post(messages=ASKED[1:])
    [line] = [dict(record.fields) for record in logged if record.name == "access"]
    counted = {key: value for key, value in line.items() if key.startswith("tool_")}
    assert counted == {
        "tool_buffer_started.use_tool": 2,
        "tool_buffer_aborted.use_tool.nested": 1,
        "tool_buffer_aborted.use_tool.stream_ended": 1,
    }
    assert "secret" not in json.dumps(line, default=str)


def test_what_a_client_that_left_was_owed_is_counted(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.12 AC 2: every start has its end in the log."""
    backend.script = [say("a <use_tool><open"), say("never read"), end()]
    response = post(messages=ASKED, stream=True, buffered=False)
    next(response.iter_encoded())
    response.close()
    [line] = [dict(record.fields) for record in logged if record.name == "access"]
    assert (line["tool_buffer_started.use_tool"], line["tool_buffer_aborted.use_tool.client_left"]) == (1, 1)


def test_a_block_that_names_no_declared_tool_is_text(post: Post, backend: ScriptedBackend) -> None:
    """In `openai-json`, which a client with tools of its own reads; contract §1."""
    backend.script = [say(f"{USE} tail"), end()]
    declared = [{"type": "function", "function": {"name": "g"}}]
    assert message(post(messages=ASKED, tools=declared)) == (f"{USE} tail", "stop", [])


@pytest.mark.parametrize(
    ("gateway_settings", "count"),
    [
        pytest.param(Settings(), 2, id="default"),
        pytest.param(Settings(tool_block_dedup=True), 1, id="without-repeats"),
        pytest.param(Settings(tool_block_max=1), 1, id="at-most-one"),
    ],
)
def test_the_other_knobs_hold_where_nothing_is_cut(post: Post, backend: ScriptedBackend, count: int) -> None:
    backend.script = [say(f"{USE} and {USE}"), end()]
    assert len(message(post(messages=ASKED[1:]))[2]) == count


def test_call_ids_differ_from_turn_to_turn(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say(USE), end()]
    bodies = [post(messages=ASKED).get_json() for _ in range(2)]
    ids = {body["choices"][0]["message"]["tool_calls"][0]["id"] for body in bodies}
    assert (len(ids), all(id_.startswith("tool_0_0_") for id_ in ids)) == (2, True)
