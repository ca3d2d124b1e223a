"""The two output modes: which of them a request gets, blocks of text in either, and what both leave alone."""

from __future__ import annotations

import json
import logging
from typing import Any

import flask
import openai
import pytest

from app.handlers.tool_buffers import BufferEvent
from app.lib.errors import BackendUnavailable
from app.lib.events import NoteKind, Tick
from app.lib.output_mode import OutputMode
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.called import TOOLS
from tests.contract.conftest import MODES, OBSIDIAN, OPENAI, Answer, Answers, Post
from tests.support.cuts import every_cut
from tests.support.scripted_backend import ScriptedBackend, Step, call, end, say
from tests.support.sse import DONE, read_deltas

USE = "<use_tool>\n<name>f</name>\n<q>é字🙂</q>\n</use_tool>"
USE_G = "<use_tool><name>g</name></use_tool>"
F_CALL = ("f", '{"q":"é字🙂"}')
G_CALL = ("g", "{}")
FUNCTIONS = [{"name": name} for name in "fg"]
MODE_NAMES = [mode.value for mode in OutputMode]
MODE = "x-proxy-output-mode"
XML, JSON = MODE_NAMES
LITERAL = Settings(output_mode_by_request=False)
JSON_GATEWAY = Settings(output_mode=OutputMode.OPENAI_JSON)


@pytest.mark.parametrize(
    ("gateway_settings", "request_", "mode"),
    [
        pytest.param(Settings(), {}, XML, id="default"),
        pytest.param(Settings(), {"headers": OPENAI}, JSON, id="header"),
        pytest.param(Settings(), {"headers": {MODE: " OpenAI-JSON "}}, JSON, id="header-in-any-case"),
        pytest.param(Settings(), {"headers": {MODE: ""}}, XML, id="empty-header"),
        pytest.param(Settings(), {"tools": TOOLS}, JSON, id="tools"),
        pytest.param(Settings(), {"tools": []}, XML, id="a-list-of-no-tools"),
        pytest.param(Settings(), {"functions": FUNCTIONS}, JSON, id="functions"),
        pytest.param(Settings(), {"tools": TOOLS, "headers": OBSIDIAN}, XML, id="header-over-tools"),
        pytest.param(LITERAL, {"tools": TOOLS}, XML, id="tools-do-not-count"),
        pytest.param(LITERAL, {"functions": FUNCTIONS}, XML, id="functions-do-not-count"),
        pytest.param(LITERAL, {"tools": TOOLS, "headers": OPENAI}, JSON, id="header-counts-all-the-same"),
        pytest.param(JSON_GATEWAY, {}, JSON, id="setting-alone"),
        pytest.param(JSON_GATEWAY, {"headers": OBSIDIAN}, XML, id="header-over-setting"),
        pytest.param(Settings(output_mode=OutputMode.OBSIDIAN_XML), {}, XML, id="setting-alone-obsidian"),
    ],
)
@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
def test_which_mode_a_request_gets(
    post: Post, backend: ScriptedBackend, request_: dict[str, Any], mode: str, stream: bool
) -> None:
    """Story 2.9 AC 5: header, then declared tools, then the setting; the reply names it, and keeps to it."""
    backend.script = [say(USE_G), end()]
    response = post(**request_, stream=stream)
    shown = response.text.count("<use_tool>")
    assert (response.headers[MODE], shown) == (mode, 1 if mode == XML else 0)


def test_an_unknown_mode_is_refused(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 5."""
    response = post(headers={MODE: "xml"})
    error = response.get_json()["error"]
    assert (response.status_code, error["param"], error["type"]) == (400, MODE, "invalid_request_error")
    assert all(name in error["message"] for name in MODE_NAMES)
    assert (backend.turns, MODE in response.headers) == ([], False)


@pytest.mark.parametrize("headers", MODES)
def test_an_error_names_the_mode_too(post: Post, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    """Story 2.9 AC 5."""
    backend.script = [BackendUnavailable("Gone.")]
    responses = [post(headers=headers, stream=stream) for stream in (False, True)]
    assert [(each.status_code, each.headers[MODE]) for each in responses] == [(503, headers[MODE])] * 2


@pytest.mark.parametrize(
    ("gateway_settings", "headers", "expected"),
    [
        pytest.param(Settings(), OBSIDIAN, Answer(f"Look: {USE}", "tool_calls", (F_CALL,)), id="first"),
        pytest.param(Settings(), OPENAI, Answer("Look: ", "tool_calls", (F_CALL,)), id="first-in-json"),
        pytest.param(
            Settings(stop_mode=StopMode.ALL),
            OBSIDIAN,
            Answer(f"Look: {USE}{USE_G}", "tool_calls", (F_CALL, G_CALL)),
            id="all",
        ),
        pytest.param(
            Settings(stop_mode=StopMode.ALL),
            OPENAI,
            Answer("Look: ", "tool_calls", (F_CALL, G_CALL)),
            id="all-in-json",
        ),
        pytest.param(
            Settings(stop_after_tools=False),
            OBSIDIAN,
            Answer(f"Look: {USE}", "tool_calls", (F_CALL, G_CALL)),
            id="running-on",
        ),
        pytest.param(
            Settings(stop_after_tools=False, suppress_tail=False),
            OBSIDIAN,
            Answer(f"Look: {USE}\n{USE_G} tail", "tool_calls", (F_CALL, G_CALL)),
            id="flowing-on",
        ),
        pytest.param(
            Settings(stop_after_tools=False, suppress_tail=False),
            OPENAI,
            Answer("Look: \n tail", "tool_calls", (F_CALL, G_CALL)),
            id="flowing-on-in-json",
        ),
    ],
)
def test_blocks_of_text(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str], expected: Answer
) -> None:
    """Story 2.9 AC 3, 9, 21: unchanged, wherever the text is cut, and without what follows them."""
    text = f"Look: {USE}\n{USE_G} tail"
    for pieces in every_cut(text):
        backend.script = [say(*pieces), end()]
        assert answers(headers=headers) == [expected]


@pytest.mark.parametrize("headers", MODES)
def test_a_streamed_block_of_text(post: Post, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    """Story 2.9 AC 1, 8, 9, 12; 2.12 AC 1: its call, then the block as one frame, and the end of all."""
    backend.script = [say("Look: ", *USE, " tail"), say("more"), end()]
    brought = read_deltas(post(headers=headers, stream=True).data)
    is_xml = headers is OBSIDIAN
    [began, more] = [delta["tool_calls"][0] for _, delta, _ in brought[:-1] if "tool_calls" in delta]
    assert began.pop("id").startswith("tool_0_0_")
    cumulative = [{"arguments": text} if is_xml else {} for text in ("", F_CALL[1])]
    function = {"name": "f", "arguments": ""}
    assert began == {"index": 0, "type": "function", "function": function} | cumulative[0]
    assert more == {"index": 0, "function": {"arguments": F_CALL[1]}} | cumulative[1]
    texts = [
        (number, delta["content"]) for number, (_, delta, _) in enumerate(brought[:-1]) if "content" in delta
    ]
    assert texts == [(0, ""), (1, "Look: "), *([(4, USE)] if is_xml else [])]
    assert brought[-2:] == [(0, {}, "tool_calls"), DONE]


@pytest.mark.parametrize("headers", MODES)
def test_a_block_beside_a_call(answers: Answers, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    """Story 2.9 AC 18: of both, which are listed, the text has shown one block already."""
    backend.script = [call("g", ""), say(USE), end()]
    [answer] = answers(tools=TOOLS, headers=headers)
    shown = USE if headers is OBSIDIAN else None
    assert answer == Answer(shown, "tool_calls", (G_CALL, F_CALL))


@pytest.mark.parametrize(
    ("declared", "headers", "is_call"),
    [
        pytest.param([], OBSIDIAN, True, id="obsidian-xml"),
        pytest.param(["g"], OBSIDIAN, True, id="obsidian-xml-whatever-is-declared"),
        pytest.param([], OPENAI, True, id="openai-json"),
        pytest.param(["f"], OPENAI, True, id="openai-json-declared"),
        pytest.param(["g"], OPENAI, False, id="openai-json-not-declared"),
    ],
)
def test_which_blocks_are_live(
    answers: Answers, backend: ScriptedBackend, declared: list[str], headers: dict[str, str], is_call: bool
) -> None:
    """Contract §1."""
    backend.script = [say(USE), end()]
    tools = [tool for tool in TOOLS if tool["function"]["name"] in declared]
    [answer] = answers(headers=headers, **({"tools": tools} if tools else {}))
    assert (answer.finish, answer.calls) == (("tool_calls", (F_CALL,)) if is_call else ("stop", ()))


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"metadata":{"session_id":"s","turn_id":"t"},"tool_calls":[]}', id="json"),
        pytest.param('[\n  {"type": "function_call", "name": "f"}\n]', id="json-of-a-call"),
        pytest.param('{"type":"session_meta","payload":{"id":"1"}}\n{"type":"token_count"}\n', id="events"),
        pytest.param("metadata: {model: x}\nsession_id: 123\n[thinking] [tokens: 5]\n", id="yaml"),
        pytest.param('```json\n{"metadata": null}\n```', id="a-fence"),
        pytest.param("data: [DONE]\n\ndata: {}\n\n: keepalive\n\n", id="sse"),
        pytest.param("<metadata>x</metadata><use_tools></use_tool> <use_tool/> a < b && c > d", id="xml"),
        pytest.param("<think>no</think> \r\n\t\x00\x7f\u2028\u2029\ufeff", id="control-characters"),
        pytest.param("  leading and trailing  ", id="white-space"),
        pytest.param("<tool_call>{}</tool_call>", id="a-block-of-another-client"),
    ],
)
def test_what_the_model_says_is_passed_on(
    answers: Answers, backend: ScriptedBackend, text: str, headers: dict[str, str]
) -> None:
    """Story 2.12 AC 3: byte for byte, whatever it looks like and however it is cut."""
    for pieces in every_cut(text):
        backend.script = [say(*pieces), end()]
        assert answers(headers=headers) == [Answer(text, "stop")]


@pytest.mark.parametrize("headers", MODES)
def test_an_answer_that_says_nothing(post: Post, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    backend.script = [end()]
    [choice] = post(headers=headers).get_json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "", "refusal": None}


SECRET = "sesame"
COUNTED: dict[str, list[Step]] = {
    "complete": [say(USE), end()],
    "nested": [say("<use_tool><", SECRET, "<use_tool><", SECRET, "</use_tool>"), end()],
    "malformed": [say("<use_tool><", SECRET, "</use_tool>"), end()],
    "stream_ended": [say("<use_tool><", SECRET), end()],
    "stream_failed": [say("<use_tool><", SECRET), BackendUnavailable("Gone.")],
    "too_large": [say("<use_tool><", SECRET * 10), end()],
    "deadline": [say("<use_tool><", SECRET), [Tick(0)], [Tick(10**6)]],
}


@pytest.mark.parametrize("gateway_settings", [pytest.param(Settings(tool_buffer_max_chars=55), id="short")])
@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("complete", {"started": 1, "flushed.complete": 1}, id="complete"),
        pytest.param("nested", {"started": 2, "aborted.nested": 1, "aborted.malformed": 1}, id="nested"),
        pytest.param("malformed", {"started": 1, "aborted.malformed": 1}, id="malformed"),
        pytest.param("stream_ended", {"started": 1, "aborted.stream_ended": 1}, id="stream-ended"),
        pytest.param("stream_failed", {"started": 1, "aborted.stream_failed": 1}, id="stream-failed"),
        pytest.param("too_large", {"started": 1, "aborted.too_large": 1}, id="too-large"),
        pytest.param("deadline", {"started": 1, "aborted.deadline": 1}, id="deadline"),
    ],
)
def test_counters(
    app: flask.Flask,
    post: Post,
    backend: ScriptedBackend,
    logged: list[logging.LogRecord],
    script: str,
    expected: dict[str, int],
    headers: dict[str, str],
    stream: bool,
) -> None:
    """Story 2.12 AC 4: by mode and reason, every start with its end; a warning for what was not delivered."""
    backend.script = COUNTED[script]
    post(headers=headers | {"x-request-id": "mine"}, stream=stream)
    counters, mode = app.extensions["tool_buffers"], headers[MODE]
    assert counters.read() == {build_event(key, mode): count for key, count in expected.items()}
    totals = dict.fromkeys(("started", "flushed", "aborted"), 0)
    for key, count in expected.items():
        totals[key.partition(".")[0]] += count
    assert counters.totals() == {f"tool_buffer_{kind}": count for kind, count in totals.items()}
    aborted = [key.partition(".")[2] for key in expected if key.startswith("aborted")]
    assert read_warnings(logged) == [
        {"request_id": "mine", "choice": 0, "row": "use_tool", "reason": reason, "output_mode": mode}
        for reason in aborted
    ]
    assert SECRET not in json.dumps([vars(record) for record in logged], default=str)


def build_event(key: str, mode: str) -> BufferEvent:
    kind, _, reason = key.partition(".")
    return BufferEvent(NoteKind(f"tool_buffer_{kind}"), mode, "use_tool", reason)


def read_warnings(logged: list[logging.LogRecord]) -> list[dict[str, Any]]:
    return [
        dict(record.fields)
        for record in logged
        if record.name == "app.tool_buffers" and record.levelno == logging.WARNING
    ]


def test_counters_add_up_over_requests_and_choices(
    app: flask.Flask, post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.12 AC 1, 4: held apart by choice, counted together, and each warning names its own."""
    backend.script = [say(*USE) + say(*"<use_tool><o", choice=1), end(), end(choice=1)]
    for headers in (OBSIDIAN, OPENAI):
        post(headers=headers, n=2)
    counters = app.extensions["tool_buffers"]
    assert counters.totals() == {
        "tool_buffer_started": 4,
        "tool_buffer_flushed": 2,
        "tool_buffer_aborted": 2,
    }
    assert [(each["choice"], each["output_mode"]) for each in read_warnings(logged)] == [(1, XML), (1, JSON)]


def test_counters_tell_the_spellings_apart(app: flask.Flask, post: Post, backend: ScriptedBackend) -> None:
    """Story 2.12 AC 4: blocks of the gateway's own manifest have a row of their own, whatever the mode."""
    backend.script = [say('<tool_call>{"name":"f"}</tool_call>', "<tool_call>", "{open"), end()]
    post(tools=TOOLS)
    assert app.extensions["tool_buffers"].read() == {
        BufferEvent(NoteKind.BUFFER_STARTED, JSON, "tool_call", ""): 2,
        BufferEvent(NoteKind.BUFFER_FLUSHED, JSON, "tool_call", "complete"): 1,
        BufferEvent(NoteKind.BUFFER_ABORTED, JSON, "tool_call", "stream_ended"): 1,
    }


def test_words_about_a_tag_are_no_cause_for_alarm(
    post: Post, backend: ScriptedBackend, logged: list[logging.LogRecord]
) -> None:
    """Story 2.12 AC 4: counted, but no warning."""
    backend.script = [say("The `<use_tool>` tag, and <use_tool><name>other</name></use_tool>."), end()]
    post(tools=TOOLS)
    [line] = [dict(record.fields) for record in logged if record.name == "access"]
    counted = {key: value for key, value in line.items() if key.startswith("tool_buffer_aborted")}
    assert counted == {
        "tool_buffer_aborted.use_tool.prose": 1,
        "tool_buffer_aborted.use_tool.no_call": 1,
    }
    assert read_warnings(logged) == []


def test_an_answer_without_blocks_counts_nothing(
    app: flask.Flask, post: Post, backend: ScriptedBackend
) -> None:
    scripts: list[list[Step]] = [[say("a < b", "<use", "_tools>"), end()], [call("f", "{}"), end()]]
    for script in scripts:
        backend.script = script
        post(tools=TOOLS)
    assert app.extensions["tool_buffers"].read() == {}


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_the_sdk_asks_for_a_mode(sdk: openai.OpenAI, backend: ScriptedBackend, mode: str) -> None:
    """Story 2.9 AC 5: by a header on the client."""
    backend.script = [say(USE), end()]
    client = sdk.with_options(default_headers={MODE: mode})
    messages: Any = [{"role": "user", "content": "Hi"}]
    completion = client.chat.completions.create(model="gpt-5.5", messages=messages)
    message = completion.choices[0].message
    assert (message.content, len(message.tool_calls or ())) == (USE if mode == XML else None, 1)
