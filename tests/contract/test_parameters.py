"""What else a request may ask for: where its answer ends, its form, its reasoning; and what is not served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from app.lib.events import ResponseDone
from app.lib.orders import StopChoice
from app.lib.request import ToolTransport
from app.settings import Settings
from tests.contract.conftest import MODES, OBSIDIAN, Answer, Answers, Post
from tests.support.cuts import every_cut
from tests.support.scripted_backend import USAGE, Anew, ScriptedBackend, Step, call, end, say, think
from tests.support.sse import read_deltas

IGNORED = "x-proxy-ignored-params"
TOOLS = [{"type": "function", "function": {"name": "f"}}]
USE = "<use_tool>\n<name>f</name>\n</use_tool>"
F_CALLED = (("f", "{}"),)


@pytest.mark.parametrize("headers", MODES)
@pytest.mark.parametrize(
    ("stop", "text", "content"),
    [
        pytest.param("STOP", "one STOP two", "one ", id="in-the-middle"),
        pytest.param("STOP", "STOP", None, id="at-once"),
        pytest.param("STOP", "one STO", "one STO", id="only-begun"),
        pytest.param(["b", "a"], "xxabxx", "xx", id="the-first-to-begin"),
        pytest.param(["\n\n", "END"], "one\ntwo\n\nthree", "one\ntwo", id="several"),
        pytest.param("字🙂", "é字🙂é", "é", id="of-several-bytes"),
        pytest.param("aab", "aaab", "a", id="begun-twice"),
        pytest.param([], "one", "one", id="none"),
    ],
)
def test_stop(
    answers: Answers,
    backend: ScriptedBackend,
    stop: Any,
    text: str,
    content: str | None,
    headers: dict[str, str],
) -> None:
    """The answer ends before the text, wherever its pieces are cut."""
    for pieces in every_cut(text):
        backend.script = [say(*pieces), end()]
        assert answers(stop=stop, headers=headers) == [Answer(content, "stop")]


def test_a_stop_ends_the_turn(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [say("one ST"), say("OP two"), say("never read")]
    assert answers(stop="STOP") == [Answer("one ", "stop")]
    assert [(turn.reads, turn.closes) for turn in backend.turns] == [(2, 1)] * 2


def test_a_stop_ends_one_choice(answers: Answers, backend: ScriptedBackend) -> None:
    def play() -> Iterator[Step]:
        yield say("a", choice=1) + say("one STOP")
        assert backend.turns[-1].orders == [StopChoice(0)]
        yield say("late") + say("b", choice=1)
        yield end(choice=1)

    backend.script = Anew(play)
    assert answers(stop="STOP", n=2) == [Answer("one ", "stop"), Answer("ab", "stop")]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(f"a {USE} STOP", Answer(f"a {USE}", "tool_calls", F_CALLED), id="behind-a-block"),
        pytest.param(f"a STOP {USE}", Answer("a ", "stop"), id="before-a-block"),
        pytest.param(f"a ST{USE}", Answer(f"a ST{USE}", "tool_calls", F_CALLED), id="begun-before-a-block"),
    ],
)
def test_stop_and_blocks(answers: Answers, backend: ScriptedBackend, said: str, expected: Answer) -> None:
    for pieces in every_cut(said):
        backend.script = [say(*pieces), end()]
        assert answers(stop="STOP", headers=OBSIDIAN) == [expected]


def test_a_stop_does_not_look_into_arguments(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [call("f", '{"a":"STOP"}'), end()]
    assert answers(stop="STOP", tools=TOOLS) == [Answer(None, "tool_calls", (("f", '{"a":"STOP"}'),))]


UNENFORCED = Settings(enforces_max_tokens=False)


@pytest.mark.parametrize(
    ("gateway_settings", "limits", "expected", "named"),
    [
        pytest.param(
            Settings(), {"max_tokens": 2}, Answer("12345678", "length"), "max_tokens=estimated", id="cut"
        ),
        pytest.param(
            Settings(),
            {"max_tokens": 3},
            Answer("123456789", "stop"),
            "max_tokens=estimated",
            id="long-enough",
        ),
        pytest.param(
            Settings(),
            {"max_completion_tokens": 1, "max_tokens": 2},
            Answer("1234", "length"),
            "max_completion_tokens=estimated, max_tokens",
            id="both",
        ),
        pytest.param(
            UNENFORCED, {"max_tokens": 2}, Answer("123456789", "stop"), "max_tokens", id="not-enforced"
        ),
        pytest.param(Settings(), {"max_tokens": None}, Answer("123456789", "stop"), None, id="null"),
    ],
)
def test_max_tokens(
    answers: Answers,
    post: Post,
    backend: ScriptedBackend,
    limits: dict[str, int],
    expected: Answer,
    named: str | None,
) -> None:
    for pieces in every_cut("123456789"):
        backend.script = [say(*pieces), end()]
        assert answers(**limits) == [expected]
    assert post(**limits).headers.get(IGNORED) == named


def test_max_tokens_breaks_no_character(answers: Answers, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 15."""
    for pieces in every_cut("a字🙂字"):
        backend.script = [say(*pieces), end()]
        assert answers(max_tokens=1) == [Answer("a字", "length")]


def test_max_tokens_leaves_calls_whole(answers: Answers, backend: ScriptedBackend) -> None:
    """Story 2.9 AC 4: half a call is none, and a call is the reason whatever else there was."""
    arguments = '{"a":"%s"}' % ("x" * 100)
    backend.script = [call("f", arguments), end()]
    assert answers(max_tokens=1, tools=TOOLS) == [Answer(None, "tool_calls", (("f", arguments),))]
    backend.script = [say(USE), end()]
    assert answers(max_tokens=1, headers=OBSIDIAN) == [Answer(USE, "tool_calls", F_CALLED)]


def test_max_tokens_is_each_choices_own(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [say("123456") + say("12", choice=1), say("34", choice=1) + end(choice=1)]
    assert answers(max_tokens=1, n=2) == [Answer("1234", "length"), Answer("1234", "stop")]
    assert backend.turns[0].orders == [StopChoice(0)]


OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED_SCHEMA = OPEN_SCHEMA | {"required": ["a"], "additionalProperties": False}
ANY_OBJECT = {"type": "json_object"}
TEXT_FORMAT = {"type": "text"}


def build_format(schema: dict[str, Any], strict: bool | None) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": strict}}


@pytest.mark.parametrize(
    ("gateway_settings", "request_", "schema", "told", "named"),
    [
        pytest.param(Settings(), {"response_format": None}, None, False, None, id="none"),
        pytest.param(Settings(), {"response_format": TEXT_FORMAT}, None, False, None, id="text"),
        pytest.param(
            Settings(),
            {"response_format": ANY_OBJECT},
            None,
            True,
            "response_format=instructed",
            id="any-object",
        ),
        pytest.param(
            Settings(),
            {"response_format": build_format(CLOSED_SCHEMA, True)},
            CLOSED_SCHEMA,
            False,
            None,
            id="strict",
        ),
        pytest.param(
            Settings(),
            {"response_format": build_format(CLOSED_SCHEMA, False)},
            CLOSED_SCHEMA,
            False,
            None,
            id="lenient-but-as-good",
        ),
        pytest.param(
            Settings(),
            {"response_format": build_format(OPEN_SCHEMA, None)},
            None,
            True,
            "response_format=instructed",
            id="lenient",
        ),
        pytest.param(
            Settings(),
            {"response_format": build_format(CLOSED_SCHEMA, True), "tools": TOOLS},
            CLOSED_SCHEMA,
            False,
            None,
            id="beside-tools",
        ),
        pytest.param(
            Settings(tool_transport=ToolTransport.SENTINEL),
            {"response_format": build_format(CLOSED_SCHEMA, True), "tools": TOOLS},
            None,
            True,
            "response_format=instructed",
            id="beside-tools-by-text",
        ),
    ],
)
def test_response_format(
    post: Post,
    backend: ScriptedBackend,
    request_: dict[str, Any],
    schema: dict[str, Any] | None,
    told: bool,
    named: str | None,
) -> None:
    """Held to a schema where that is possible, told of it otherwise, and the reply says so."""
    backend.script = [say('{"a":"b"}'), end()]
    response = post(**request_)
    prompt = backend.prompts[0]
    assert (response.status_code, response.headers.get(IGNORED), prompt.output_schema) == (200, named, schema)
    assert (prompt.items[-1]["role"] == "developer") == told


def test_a_format_gives_way_to_a_demanded_call(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("{}"), end()]
    response = post(response_format=ANY_OBJECT, tools=TOOLS, tool_choice="required")
    assert (response.headers[IGNORED], response.get_json()["choices"][0]["finish_reason"]) == (
        "response_format",
        "tool_calls",
    )


@pytest.mark.parametrize("headers", MODES)
def test_an_answer_in_json_passes_through(
    answers: Answers, backend: ScriptedBackend, headers: dict[str, str]
) -> None:
    """Story 2.12 AC 3."""
    backend.script = [say(*'{"tool_calls": [], "metadata": {"a": 1}}'), end()]
    expected = [Answer('{"tool_calls": [], "metadata": {"a": 1}}', "stop")]
    assert answers(response_format=ANY_OBJECT, headers=headers) == expected


@pytest.mark.parametrize(
    ("request_", "effort", "summary"),
    [
        pytest.param({}, None, "auto", id="unsaid"),
        pytest.param({"reasoning_effort": "low"}, "low", "auto", id="effort"),
        pytest.param({"reasoning": {"effort": "high", "summary": "detailed"}}, "high", "detailed", id="both"),
        pytest.param({"reasoning": {"summary": "none"}}, None, "none", id="no-summary"),
        pytest.param({"reasoning": None}, None, "auto", id="null"),
    ],
)
def test_reasoning(
    post: Post, backend: ScriptedBackend, request_: dict[str, Any], effort: str | None, summary: str
) -> None:
    backend.script = [say("Hi"), end()]
    assert post(**request_).status_code == 200
    turn = backend.prompts[0].request
    assert (turn.effort, turn.summary) == (effort, summary)


@pytest.mark.parametrize("headers", MODES)
def test_reasoning_before_a_call(post: Post, backend: ScriptedBackend, headers: dict[str, str]) -> None:
    backend.script = [think("Hm", "m."), think("So.", part=1), call("f", "{}"), end()]
    [choice] = post(tools=TOOLS, headers=headers).get_json()["choices"]
    brought = read_deltas(post(tools=TOOLS, headers=headers, stream=True).data)
    streamed = [delta["reasoning_content"] for _, delta, _ in brought[:-1] if "reasoning_content" in delta]
    assert (choice["message"]["reasoning_content"], streamed) == ("Hmm.\n\nSo.", ["Hm", "m.", "\n\nSo."])


def test_what_has_no_effect_is_named(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    ask: Any = sdk.chat.completions.with_raw_response.create
    raw = ask(
        model="gpt-5.5",
        messages=[{"role": "user", "content": "Hi"}],
        temperature=0.5,
        top_p=1,
        seed=7,
        user="me",
        store=True,
        metadata={"a": "b"},
        max_tokens=100,
        logprobs=False,
        logit_bias=None,
        extra_body={"never_heard_of": 1},
    )
    assert raw.headers[IGNORED] == "max_tokens=estimated, metadata, seed, store, temperature, top_p, user"
    assert raw.parse().choices[0].message.content == "Hi"


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        pytest.param({"logprobs": True}, "logprobs", id="logprobs"),
        pytest.param({"audio": {"voice": "alloy"}}, "audio", id="audio"),
        pytest.param({"modalities": ["text", "audio"]}, "modalities", id="modalities"),
        pytest.param({"n": 6}, "n", id="too-many-choices"),
        pytest.param({"n": 0}, "n", id="no-choice"),
        pytest.param({"max_tokens": 0}, "max_tokens", id="no-tokens"),
        pytest.param({"stop": ["a"] * 5}, "stop", id="too-many-stops"),
        pytest.param({"stop": ["a", ""]}, "stop[1]", id="an-empty-stop"),
        pytest.param({"reasoning_effort": "huge"}, "reasoning_effort", id="effort"),
        pytest.param({"response_format": {"type": "xml"}}, "response_format.type", id="format"),
        pytest.param({"tool_choice": "required"}, "tool_choice", id="a-call-of-nothing"),
        pytest.param(
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice",
            id="a-call-of-an-unknown-tool",
        ),
        pytest.param({"tools": [{"type": "web_search"}]}, "tools[0].type", id="another-kind-of-tool"),
        pytest.param(
            {"tools": [*TOOLS, {"type": "function", "function": {"name": ""}}]},
            "tools[1].function.name",
            id="a-tool-without-a-name",
        ),
    ],
)
def test_what_is_not_served(
    post: Post, backend: ScriptedBackend, request_: dict[str, Any], param: str
) -> None:
    responses = [post(**request_, stream=stream) for stream in (False, True)]
    errors = [(each.status_code, each.get_json()["error"]["param"]) for each in responses]
    assert (errors, backend.turns) == ([(400, param)] * 2, [])


def test_the_most_choices(answers: Answers, backend: ScriptedBackend) -> None:
    backend.script = [say(str(index), choice=index) + end(choice=index) for index in range(5)]
    assert answers(n=5) == [Answer(str(index), "stop") for index in range(5)]


def test_a_turn_of_several_responses_has_one_usage(post: Post, backend: ScriptedBackend) -> None:
    backend.script = [say("a"), [ResponseDone(0, USAGE)], say("b"), end()]
    assert post().get_json()["usage"]["completion_tokens"] == 2 * USAGE.output_tokens
