"""Calls that a turn makes as calls, not in its text: how they reach a client in either output mode."""

from __future__ import annotations

from typing import Any

import pytest

from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.contract.conftest import MODES, OBSIDIAN, OPENAI, Answer, Answers, Post
from tests.support.cuts import every_cut
from tests.support.scripted_backend import (
    ScriptedBackend,
    call,
    end,
    say,
    signal,
    tell_in_chat,
    tell_in_responses,
)
from tests.support.sse import DONE, read_deltas

SEARCH = '{"query":"piano","salientTerms":["piano"]}'
SEARCH_BLOCK = (
    "<use_tool>\n<name>localSearch</name>\n<query>piano</query>\n"
    '<salientTerms>["piano"]</salientTerms>\n</use_tool>'
)
READ = '{"path":"a.md"}'
READ_BLOCK = "<use_tool>\n<name>readNote</name>\n<path>a.md</path>\n</use_tool>"
TOOLS = [
    {"type": "function", "function": {"name": name}} for name in ("localSearch", "readNote", "save", "f", "g")
]
ROLE = (0, {"role": "assistant", "content": ""}, None)
FINISH: tuple[int, dict[str, Any], str] = (0, {}, "tool_calls")
ALL = [pytest.param(Settings(stop_mode=StopMode.ALL), id="all")]


def read_parts(data: bytes) -> list[Any]:
    """What each frame brings, call ids without their random end."""
    brought = read_deltas(data)
    for _, delta, _ in brought[:-1]:
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                part["id"] = part["id"].rpartition("_")[0]
    return brought


def begin(index: int, name: str, **more: str) -> tuple[int, dict[str, Any], None]:
    function = {"name": name, "arguments": ""}
    part = {"index": index, "id": f"tool_0_{index}", "type": "function", "function": function, **more}
    return 0, {"tool_calls": [part]}, None


def go_on(index: int, text: str, **more: str) -> tuple[int, dict[str, Any], None]:
    return 0, {"tool_calls": [{"index": index, "function": {"arguments": text}, **more}]}, None


def show(text: str) -> tuple[int, dict[str, Any], None]:
    return 0, {"content": text}, None


def test_a_call_becomes_one_block_in_a_stream(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 1, 9, 12: role, text, metadata, the block, one finish, and nothing more."""
    backend.script = [say("Let me ", "look."), call("localSearch", SEARCH), end()]
    assert read_parts(post(tools=TOOLS, headers=OBSIDIAN, stream=True).data) == [
        ROLE,
        show("Let me "),
        show("look."),
        begin(0, "localSearch", arguments=""),
        go_on(0, SEARCH, arguments=SEARCH),
        show(SEARCH_BLOCK),
        FINISH,
        DONE,
    ]


def test_a_call_in_json_has_no_block(post: Post, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 11."""
    backend.script = [say("Let me look."), call("localSearch", SEARCH), end()]
    assert read_parts(post(tools=TOOLS, headers=OPENAI, stream=True).data) == [
        ROLE,
        show("Let me look."),
        begin(0, "localSearch"),
        go_on(0, SEARCH),
        FINISH,
        DONE,
    ]


@pytest.mark.parametrize(
    ("headers", "said", "content"),
    [
        pytest.param(OBSIDIAN, [], SEARCH_BLOCK, id="obsidian-xml"),
        pytest.param(OBSIDIAN, ["Let me look. "], f"Let me look. {SEARCH_BLOCK}", id="obsidian-xml-and-text"),
        pytest.param(OPENAI, [], None, id="openai-json"),
        pytest.param(OPENAI, ["Let me look. "], "Let me look. ", id="openai-json-and-text"),
    ],
)
def test_a_body(
    post: Post, backend: ScriptedBackend, headers: dict[str, str], said: list[str], content: str | None
) -> None:
    """Story 2.9 AC 2, 11: the metadata is the same in both modes, null stands where nothing was said."""
    backend.script = [say(*said), call("localSearch", SEARCH), end()]
    [choice] = post(tools=TOOLS, headers=headers).get_json()["choices"]
    [told] = choice["message"].pop("tool_calls")
    assert told.pop("id").startswith("tool_0_0_")
    assert (told, choice) == (
        {"type": "function", "function": {"name": "localSearch", "arguments": SEARCH}},
        {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": None,
            "finish_reason": "tool_calls",
        },
    )


BATCH = [call("localSearch", SEARCH), call("readNote", READ, "call_1"), end()]
BOTH_CALLS = (("localSearch", SEARCH), ("readNote", READ))


@pytest.mark.parametrize(
    ("headers", "content"),
    [pytest.param(OBSIDIAN, SEARCH_BLOCK, id="obsidian-xml"), pytest.param(OPENAI, None, id="openai-json")],
)
def test_of_several_calls_one_block_is_shown(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str], content: str | None
) -> None:
    """Story 2.9 AC 18: the first call's, while `tool_calls` has all of them in order."""
    backend.script = BATCH
    assert answers(tools=TOOLS, headers=headers) == [Answer(content, "tool_calls", BOTH_CALLS)]


@pytest.mark.parametrize("gateway_settings", ALL)
def test_in_mode_all_every_call_has_a_frame_of_its_own(
    post: Post, answers: Answers, backend: ScriptedBackend
) -> None:
    """Story 2.9 AC 1, 18."""
    backend.script = BATCH
    blocks = SEARCH_BLOCK + READ_BLOCK
    assert answers(tools=TOOLS, headers=OBSIDIAN) == [Answer(blocks, "tool_calls", BOTH_CALLS)]
    brought = read_parts(post(tools=TOOLS, headers=OBSIDIAN, stream=True).data)
    assert brought[-4:] == [show(SEARCH_BLOCK), show(READ_BLOCK), FINISH, DONE]


@pytest.mark.parametrize(
    ("gateway_settings", "headers", "shows_all"),
    [
        pytest.param(Settings(), OBSIDIAN, True, id="obsidian-xml"),
        pytest.param(Settings(), OPENAI, False, id="openai-json"),
        pytest.param(Settings(cumulative_arguments=True), OPENAI, True, id="openai-json-cumulative"),
    ],
)
@pytest.mark.parametrize(
    "tell",
    [pytest.param(tell_in_chat, id="chat-deltas"), pytest.param(tell_in_responses, id="responses-events")],
)
def test_cumulative_arguments(
    post: Post, backend: ScriptedBackend, tell: Any, headers: dict[str, str], shows_all: bool
) -> None:
    """Story 2.9 AC 8: all the text so far beside `function`, only what is new inside it."""
    fragments = ["[", "1,", "1,", "1]"]
    backend.script = [signal(*tell("f", fragments)), end()]
    brought = read_parts(post(tools=TOOLS, headers=headers, stream=True).data)
    parts = [part for _, delta, _ in brought[:-1] for part in delta.get("tool_calls", ())]
    assert [part["function"]["arguments"] for part in parts] == ["", *fragments]
    so_far = ["", "[", "[1,", "[1,1,", "[1,1,1]"]
    assert [part.get("arguments") for part in parts] == (so_far if shows_all else [None] * 5)


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "tell",
    [pytest.param(tell_in_chat, id="chat-deltas"), pytest.param(tell_in_responses, id="responses-events")],
)
def test_no_cut_harms_a_character(
    answers: Answers, backend: ScriptedBackend, tell: Any, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 8, 15: emoji of several code points, CJK, combining marks."""
    arguments = '{"q":"é字🙂👩‍👩‍👧e\u0301"}'
    for fragments in every_cut(arguments):
        backend.script = [signal(*tell("f", fragments)), end()]
        [answer] = answers(tools=TOOLS, headers=headers)
        assert answer.calls == (("f", arguments),)


@pytest.mark.parametrize("headers", MODES)
def test_five_megabytes_of_arguments(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 15."""
    text = "字🙂é\\n" * (5_000_000 // 11)
    arguments = f'{{"text":"{text}"}}'
    pieces = [arguments[start : start + 300_000] for start in range(0, len(arguments), 300_000)]
    assert len(arguments.encode()) > 4_900_000
    for script in (call("save", arguments), signal(*tell_in_chat("save", pieces))):
        backend.script = [script, end()]
        [answer] = answers(tools=TOOLS, headers=headers)
        assert answer.calls == (("save", arguments),)


@pytest.mark.parametrize("headers", MODES)
def test_two_hundred_calls_at_once(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 15, 18; their fragments come in turns."""
    told = [tell_in_chat("f", (f'{{"n":{n}', "}"), f"call_{n}", n) for n in range(200)]
    backend.script = [signal(*payloads) for payloads in zip(*told, strict=True)] + [end()]
    [answer] = answers(tools=TOOLS, headers=headers)
    assert answer.calls == tuple(("f", f'{{"n":{n}}}') for n in range(200))


F_ITEM = {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "f", "arguments": READ}
FRAGMENTS = tell_in_responses("f", (READ[:5], READ[5:]))
CHAT_FRAGMENTS = tell_in_chat("f", (READ[:5], READ[5:]))


def double(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for payload in payloads for each in (payload, payload)]


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    ("once", "again"),
    [
        pytest.param([F_ITEM], [F_ITEM, dict(F_ITEM), dict(F_ITEM)], id="an-item"),
        pytest.param([F_ITEM], [F_ITEM, *tell_in_responses("f", (READ,))], id="in-another-shape"),
        pytest.param(FRAGMENTS, [dict(each) for each in double(FRAGMENTS)], id="events-told-by-their-number"),
        pytest.param(CHAT_FRAGMENTS, double(CHAT_FRAGMENTS), id="the-very-same-payload"),
    ],
)
def test_what_comes_twice_is_told_once(
    post: Post, backend: ScriptedBackend, once: list[Any], again: list[Any], headers: dict[str, str]
) -> None:
    """Story 2.9 AC 7: a payload that comes again, or in another shape, changes nothing."""
    told = []
    for payloads in (once, again):
        backend.script = [signal(*payloads), end()]
        told.append(read_parts(post(tools=TOOLS, headers=headers, stream=True).data))
    assert told[1] == told[0]


F_CHAT = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": READ}}
G_LEGACY = {"name": "g", "arguments": "{}"}
G_REQUEST = {"threadId": "t", "callId": "call_1", "tool": "g", "arguments": {"a": 1}}
WORDS = {"role": "assistant", "content": "Hm."}


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"tool_calls": [F_CHAT], "function_call": G_LEGACY}, id="delta"),
        pytest.param({"function_call": G_LEGACY, "tool_calls": [F_CHAT]}, id="the-other-way-round"),
        pytest.param(
            {"choices": [{"message": {"tool_calls": [F_CHAT], "function_call": G_LEGACY}}]}, id="message"
        ),
    ],
)
def test_tool_calls_go_before_a_function_call(
    answers: Answers, backend: ScriptedBackend, payload: dict[str, Any], headers: dict[str, str]
) -> None:
    """Story 2.9 AC 19."""
    backend.script = [signal(payload), end()]
    block = "<use_tool>\n<name>f</name>\n<path>a.md</path>\n</use_tool>"
    content = block if headers is OBSIDIAN else None
    assert answers(tools=TOOLS, headers=headers) == [Answer(content, "tool_calls", (("f", READ),))]


@pytest.mark.parametrize(
    ("payloads", "content", "calls"),
    [
        pytest.param([F_ITEM], None, [("f", READ)], id="codex-item"),
        pytest.param([{"item": F_ITEM, "threadId": "t"}], None, [("f", READ)], id="codex-notification"),
        pytest.param([G_REQUEST], None, [("g", '{"a":1}')], id="codex-request"),
        pytest.param([{"tool_calls": [F_CHAT]}], None, [("f", READ)], id="bare-delta"),
        pytest.param([{"delta": {"tool_calls": [F_CHAT]}}], None, [("f", READ)], id="delta"),
        pytest.param(
            [{"choices": [{"delta": {"tool_calls": [F_CHAT]}}]}], None, [("f", READ)], id="no-choice-index"
        ),
        pytest.param(
            [{"choices": [{"message": WORDS | {"tool_calls": [F_CHAT]}, "finish_reason": "tool_calls"}]}],
            "Hm.",
            [("f", READ)],
            id="message-with-words",
        ),
        pytest.param(
            [{"choices": [{"delta": WORDS | {"tool_calls": [F_CHAT]}}]}],
            "Hm.",
            [("f", READ)],
            id="delta-with-words",
        ),
        pytest.param([{"function_call": G_LEGACY}], None, [("g", "{}")], id="legacy"),
        pytest.param(
            [*tell_in_chat("f", (READ[:4], READ[4:])), F_ITEM], None, [("f", READ)], id="deltas-then-the-item"
        ),
        pytest.param(
            [F_ITEM, {"choices": [{"message": {"tool_calls": [F_CHAT]}}]}],
            None,
            [("f", READ)],
            id="the-item-then-a-message",
        ),
        pytest.param(
            [F_ITEM, G_REQUEST, *tell_in_responses("save", ("{", "}"), 7)],
            None,
            [("f", READ), ("g", '{"a":1}'), ("save", "{}")],
            id="three-calls-three-shapes",
        ),
        pytest.param([{"anything": "else"}, {}, {"tool_calls": None}], None, [], id="nothing-of-it"),
    ],
)
def test_payloads_of_every_shape(
    answers: Answers,
    backend: ScriptedBackend,
    payloads: list[dict[str, Any]],
    content: str | None,
    calls: list[tuple[str, str]],
) -> None:
    """Story 2.9 AC 20, and AC 16: without an index of a choice it is the first one's."""
    backend.script = [signal(*payloads), end()]
    finish = "tool_calls" if calls else "stop"
    assert answers(tools=TOOLS) == [Answer(content, finish, tuple(calls))]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param('{ "a" : 1,\n\t"a":2 , "b":[ ] }', id="spacing-and-a-key-twice"),
        pytest.param('{"n":1.0e+2,"big":12345678901234567890,"s":"\\u00e9\\/"}', id="spellings"),
        pytest.param('{"half', id="no-json"),
        pytest.param("[1,2]", id="no-object"),
        pytest.param('"</use_tool>"', id="a-closer"),
    ],
)
@pytest.mark.parametrize("headers", MODES)
def test_arguments_are_not_touched(
    answers: Answers, backend: ScriptedBackend, arguments: str, headers: dict[str, str]
) -> None:
    """Story 2.9 AC 15: opaque text."""
    backend.script = [call("f", arguments), end()]
    [answer] = answers(tools=TOOLS, headers=headers)
    assert answer.calls == (("f", arguments),)


@pytest.mark.parametrize("headers", MODES)
def test_a_call_without_arguments_has_an_empty_object(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    backend.script = [call("f", ""), end()]
    [answer] = answers(tools=TOOLS, headers=headers)
    assert answer.calls == (("f", "{}"),)
