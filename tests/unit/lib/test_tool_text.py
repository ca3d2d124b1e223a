"""Text that spells calls, through the core: what is shown, recorded, cut, noted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.answer_rules import AnswerRules, ChatReading
from app.lib.block_rows import RowSet, TextPattern, build_tool_call_row, build_use_tool_row
from app.lib.deadlines import Deadlines
from app.lib.errors import BackendUnavailable, ClientGone, InvalidToolCall
from app.lib.events import (
    BackendEvent,
    Began,
    Completed,
    FinishReason,
    MessageDone,
    Text,
    TextDelta,
    Tick,
    ToolBlock,
    TurnEnded,
    TurnFailed,
)
from app.lib.output_mode import OutputMode
from app.lib.prompt import build_prompt, mentions
from app.lib.request import Message, Role, TextPart, TurnRequest
from app.lib.stop_policy import StopMode, StopPolicy
from app.lib.tool_registry import ToolRegistry, ToolSpec
from app.lib.turn import TurnCore
from tests.support.at_tool import AT_TOOL, UNHELD_AT_TOOL
from tests.support.cuts import every_cut
from tests.support.events import show

ALL = StopPolicy(mode=StopMode.ALL)
RUN_ON = StopPolicy().run_on()
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
USE = "<use_tool><name>f</name><args>{}</args></use_tool>"
AT = '@tool("x", {"a": 1})'


def read_chat(policy: StopPolicy, patterns: Sequence[TextPattern] = ()) -> AnswerRules:
    """The rules of a chat request that declares no tools."""
    return ChatReading(policy, patterns).suit(TurnRequest("m", ()), OutputMode.OBSIDIAN_XML, True)


def run(tools: AnswerRules, events: Iterable[BackendEvent], **options: Any) -> list[str]:
    core = TurnCore(rules=tools, **options)
    out = [turn_event for event in events for turn_event in core.feed(event)]
    return show([*out, *core.finish()])


def stream(*parts: str, item_id: str = "m") -> list[BackendEvent]:
    return [TextDelta(0, item_id, part) for part in parts]


def at_once(*parts: str) -> list[BackendEvent]:
    """The same, as one read of the pipe brings it."""
    return [TextDelta(0, "m", "".join(parts), parts)]


STARTED, FLUSHED = "{tool_buffer_started use_tool }", "{tool_buffer_flushed use_tool complete}"
AT_STARTED, AT_FLUSHED = "{tool_buffer_started at_tool }", "{tool_buffer_flushed at_tool complete}"
CALL, BLOCK = "0:tool_0_0_r f({})", f"0:m[{USE}]"
ENDED = ["finish tool_calls", "Completed"]


@pytest.mark.parametrize(
    ("policy", "text", "expected"),
    [
        pytest.param(
            StopPolicy(),
            f"Look {USE} tail",
            ["Began", "Look ", STARTED, FLUSHED, CALL, BLOCK, *ENDED],
            id="cut-behind-the-first",
        ),
        pytest.param(
            ALL,
            f"{USE}\n{AT} tail",
            [
                *("Began", STARTED, FLUSHED, CALL, BLOCK),
                *(AT_STARTED, AT_FLUSHED, '0:tool_0_1_r x({"a": 1})', f"0:m[{AT}]"),
                *ENDED,
            ],
            id="all-of-both-spellings",
        ),
        pytest.param(
            StopPolicy(stop=False),
            f"{USE} dropped {AT} dropped",
            [
                *("Began", STARTED, FLUSHED, CALL, BLOCK),
                *(AT_STARTED, AT_FLUSHED, '0:tool_0_1_r x({"a": 1})'),
                *ENDED,
            ],
            id="no-stop-tail-suppressed",
        ),
        pytest.param(
            RUN_ON,
            f"a {USE} b {USE}",
            [
                *("Began", "a ", STARTED, FLUSHED, CALL, BLOCK),
                *(" b ", STARTED, FLUSHED, "0:tool_0_1_r f({})", BLOCK),
                *ENDED,
            ],
            id="everything-flows-on",
        ),
        pytest.param(
            StopPolicy(stop=False, suppress_tail=False, max_blocks=1),
            f"{USE}{USE}",
            ["Began", STARTED, FLUSHED, CALL, BLOCK, STARTED, FLUSHED, USE, *ENDED],
            id="past-the-most-blocks-is-text",
        ),
        pytest.param(
            StopPolicy(mode=StopMode.ALL, dedup=True),
            f"{USE}{USE}",
            ["Began", STARTED, FLUSHED, CALL, BLOCK, STARTED, FLUSHED, *ENDED],
            id="a-repeat-is-dropped",
        ),
        pytest.param(
            StopPolicy(),
            "a <use_tool><open",
            [
                *("Began", "a ", STARTED, "{tool_buffer_aborted use_tool stream_ended}", "<use_tool><open"),
                *("finish stop", "Completed"),
            ],
            id="a-block-that-stays-open-is-text",
        ),
        pytest.param(StopPolicy(), "plain <b", ["Began", "plain <b", "finish stop", "Completed"], id="plain"),
    ],
)
def test_text_for_every_cut(policy: StopPolicy, text: str, expected: list[str]) -> None:
    """Story 2.12 AC 1, 2; story 2.9 AC 3, 4, 21."""
    tools = read_chat(policy, [AT_TOOL])
    ends = [MessageDone(0, "m", text), TurnEnded(0, STOP)]
    told = [tell(*cut) for cut in every_cut(text) for tell in (stream, at_once)]
    got = [run(tools, [*events, *ends], id_suffix="r") for events in told]
    assert got == [expected] * len(got)
    assert run(tools, ends, id_suffix="r") == expected


def test_a_call_outranks_the_turns_own_reason() -> None:
    out = run(read_chat(RUN_ON), [*stream(USE), TurnEnded(0, LENGTH)])
    assert out[-2:] == ["finish tool_calls", "Completed"]


def test_text_that_came_at_once_goes_out_as_it_came() -> None:
    """A frame a delta, however many of them one read of the pipe brings."""
    core = TurnCore(rules=read_chat(StopPolicy()))
    told = [Began(0), Text(0, "m", "Hello", ("Hel", "lo"))]
    assert core.feed_all(at_once("Hel", "lo")) == told


def test_no_block_spans_two_items() -> None:
    events = [*stream("a <use_", item_id="m1"), *stream(f"tool>{USE}", item_id="m2"), TurnEnded(0, STOP)]
    out = run(read_chat(StopPolicy()), events)
    assert out == ["Began", "a <use_tool>", STARTED, FLUSHED, "0:tool_0_0 f({})", f"0:m2[{USE}]", *ENDED]


def test_held_text_keeps_its_item() -> None:
    core = TurnCore(rules=read_chat(StopPolicy()))
    events = [*stream("a <", item_id="m1"), *stream("b", item_id="m2")]
    assert core.feed_all(events) == [Began(0), Text(0, "m1", "a "), Text(0, "m1", "<"), Text(0, "m2", "b")]


def test_the_end_of_an_item_lets_go() -> None:
    """Nothing that is ready waits: behind a whole message no more can come."""
    core = TurnCore(rules=read_chat(StopPolicy()))
    out = core.feed_all([*stream("1 <"), MessageDone(0, "other", ""), MessageDone(0, "m", "1 <")])
    assert out == [Began(0), Text(0, "m", "1 "), Text(0, "m", "<")]


def test_choices_hold_and_end_on_their_own() -> None:
    """Only choice 1 calls a tool; story 2.9's review."""
    core = TurnCore(2, rules=read_chat(StopPolicy()))
    events: list[BackendEvent] = [
        TextDelta(1, "m", USE[:9]),
        TextDelta(0, "m", "plain"),
        TextDelta(1, "m", f"{USE[9:]} tail"),
        TextDelta(1, "m", "late"),
        TurnEnded(0, STOP),
        TextDelta(0, "m", "late"),
    ]
    assert show(core.feed_all(events)) == [
        *(
            "Began",
            "Began",
            "plain",
            STARTED,
            FLUSHED,
            "1:tool_1_0 f({})",
            f"1:m[{USE}]",
            "finish tool_calls",
        ),
        *("finish stop", "Completed"),
    ]


@pytest.mark.parametrize(
    ("last", "reason", "error"),
    [
        pytest.param(
            [TurnFailed(BackendUnavailable("Gone."))],
            "stream_failed",
            "BackendUnavailable: Gone.",
            id="the-backend-breaks",
        ),
        pytest.param(
            [],
            "stream_failed",
            "BackendUnavailable: Codex ended the turn without an answer.",
            id="the-events-just-stop",
        ),
        pytest.param(
            [TurnFailed(ClientGone("Bye."))], "client_left", "ClientGone: Bye.", id="the-client-leaves"
        ),
        pytest.param(
            [Tick(0), Tick(20)],
            "deadline",
            "BackendTimeout: Codex was silent for 20 s.",
            id="it-takes-too-long",
        ),
    ],
)
def test_what_is_held_goes_out_before_the_error(last: list[BackendEvent], reason: str, error: str) -> None:
    """Story 2.12 AC 2: a stream that breaks inside a block loses nothing."""
    tools, deadlines = read_chat(StopPolicy()), Deadlines(10, 20, 100)
    out = run(tools, [*stream("<use_tool><x"), *last], deadlines=deadlines)
    assert out == ["Began", STARTED, f"{{tool_buffer_aborted use_tool {reason}}}", "<use_tool><x", error]


def test_the_grace_of_mode_all() -> None:
    """The wait for another block ends by the clock; a block under way stops it."""
    events: list[BackendEvent] = [
        *stream(USE),
        *(Tick(0), Tick(0.2)),
        *stream(USE[:20]),
        *(Tick(0.4), Tick(5)),
        *stream(USE[20:]),
        *(Tick(6), Tick(6.3)),
        *stream("late"),
    ]
    called = ["0:tool_0_0 f({})", BLOCK, STARTED, FLUSHED, "0:tool_0_1 f({})", BLOCK]
    assert run(read_chat(ALL), events) == ["Began", STARTED, FLUSHED, *called, *ENDED]


STRICT = ToolSpec("strict", "", {"type": "object", "required": ["q"]}, True)
SOFT = ToolSpec("soft", "", {"type": "object", "required": ["q"]}, None)


def sentinel(name: str, arguments: str) -> str:
    return f'<tool_call>{{"name":"{name}","arguments":"{arguments}"}}</tool_call>'


def build_sentinel_tools(*specs: ToolSpec) -> AnswerRules:
    return AnswerRules(RowSet([build_tool_call_row(ToolRegistry(specs), lambda: 0.0)]), RUN_ON)


REPAIRABLE = sentinel("soft", '{\\"q\\":1,}')
TC = ["{tool_buffer_started tool_call }", "{tool_buffer_flushed tool_call complete}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"a {sentinel('strict', '{}')} b",
            [
                *("a ", TC[0], "{tool_buffer_aborted tool_call refused}"),
                "InvalidToolCall: Call of `strict`: arguments: 'q' is a required property.",
            ],
            id="a-strict-tool-called-wrongly-fails-the-turn",
        ),
        pytest.param(
            sentinel("soft", "{}"),
            [
                *(*TC, "{tool_call_faulty tool_call mismatch}", "0:tool_0_0 soft({})"),
                *(f"0:m[{sentinel('soft', '{}')}]", *ENDED),
            ],
            id="another-only-gets-a-note",
        ),
        pytest.param(
            REPAIRABLE,
            [
                *TC,
                "{tool_arguments_repaired tool_call }",
                '0:tool_0_0 soft({"q":1})',
                f"0:m[{REPAIRABLE}]",
                *ENDED,
            ],
            id="repaired",
        ),
    ],
)
def test_sentinel_blocks(text: str, expected: list[str]) -> None:
    """D5, D5a."""
    tools = build_sentinel_tools(STRICT, SOFT)
    told = [tell(*cut) for cut in every_cut(text) for tell in (stream, at_once)]
    got = [run(tools, [*events, TurnEnded(0, STOP)]) for events in told]
    assert got == [["Began", *expected]] * len(got)


def test_a_soft_block_that_cannot_be_read_stays_text() -> None:
    text = "<tool_call>{oops</tool_call>"
    out = run(build_sentinel_tools(SOFT), [*stream(text), TurnEnded(0, STOP)])
    aborted = ["{tool_buffer_aborted tool_call malformed}", "{tool_call_faulty tool_call unreadable}"]
    assert out == ["Began", TC[0], *aborted, text, "finish stop", "Completed"]


def test_a_refusal_found_only_at_the_end_fails_the_turn_too() -> None:
    """A row may be asked once more when its item ends."""
    row = dataclasses.replace(
        build_tool_call_row(ToolRegistry([STRICT]), lambda: 0.0), is_decided_at_once=False
    )
    rules = AnswerRules(RowSet([row]), RUN_ON)
    for behind in (TurnEnded(0, STOP), TextDelta(0, "another item", "So.")):
        out = run(rules, [*stream("<tool_call>{"), behind])
        assert out[-1].startswith(InvalidToolCall.__name__)
        assert "So." not in out


def test_a_pattern_without_opener_is_matched_on_the_whole_text() -> None:
    """Its text is out by then; its calls are still calls."""
    tools = read_chat(StopPolicy(), [UNHELD_AT_TOOL])
    text = f"Look {AT} and more"
    expected = ["Began", text, '0:tool_0_0 x({"a": 1})', *ENDED]
    got = [
        run(
            tools,
            [*stream(*cut), MessageDone(0, "m", text), *stream("late", item_id="n"), TurnEnded(0, STOP)],
        )
        for cut in every_cut(text)
    ]
    assert got == [expected] * len(got)


def test_a_pattern_without_opener_finds_nothing_inside_a_held_block() -> None:
    block = f"<use_tool><name>f</name><args>{AT}</args></use_tool>"
    out = run(read_chat(RUN_ON, [UNHELD_AT_TOOL]), [*stream(block), TurnEnded(0, STOP)])
    assert [line for line in out if "tool_0_" in line] == [f"0:tool_0_0 f({AT})"]


@pytest.mark.parametrize(
    ("messages", "patterns", "is_cut"),
    [
        pytest.param(
            [(Role.DEVELOPER, "Use <use_tool> blocks.")], (), True, id="instructions-speak-of-blocks"
        ),
        pytest.param([(Role.USER, "What is <use_tool>?")], (), False, id="a-question-about-them"),
        pytest.param([(Role.DEVELOPER, "Be brief.")], (), False, id="instructions-about-else"),
        pytest.param([(Role.DEVELOPER, "Write @tool(…).")], (), False, id="a-pattern-nobody-registered"),
        pytest.param([(Role.DEVELOPER, "Write @tool(…).")], (AT_TOOL,), True, id="a-registered-pattern"),
    ],
)
def test_only_instructions_make_a_cut(
    messages: list[tuple[Role, str]], patterns: tuple[TextPattern, ...], is_cut: bool
) -> None:
    said = [Message(role, (TextPart(text),)) for role, text in [*messages, (Role.USER, "Go.")]]
    request, reading = TurnRequest("m", tuple(said)), ChatReading(StopPolicy(), patterns)
    expects_blocks = mentions(build_prompt(request), reading.openers)
    tools = reading.suit(request, OutputMode.OBSIDIAN_XML, expects_blocks)
    out = run(tools, [*stream(f"{USE} tail"), TurnEnded(0, STOP)])
    assert (" tail" not in out) == is_cut


@given(
    st.lists(
        st.sampled_from([USE, AT, "<use_tool>", "</use_tool>", "text", " ", "<", "@", "🙂"]), max_size=10
    )
)
def test_law_nothing_is_lost_where_everything_flows_on(parts: list[str]) -> None:
    core = TurnCore(rules=read_chat(RUN_ON, [AT_TOOL]))
    out = core.feed_all([*stream(*parts), TurnEnded(0, STOP)])
    assert "".join(event.text for event in out if isinstance(event, Text | ToolBlock)) == "".join(parts)
    assert isinstance(out[-1], Completed)


def test_blocks_of_declared_tools_only() -> None:
    tools = AnswerRules(RowSet([build_use_tool_row(["g"])]), RUN_ON)
    out = run(tools, [*stream(USE), TurnEnded(0, STOP)])
    assert out == [
        "Began",
        STARTED,
        "{tool_buffer_aborted use_tool no_call}",
        "{tool_call_faulty use_tool unknown_tool}",
        USE,
        "finish stop",
        "Completed",
    ]


def test_nothing_behind_a_cut_can_fail_the_turn() -> None:
    """A strict call behind it is no longer anybody's, however the stream is cut."""
    rows = RowSet([build_use_tool_row(), build_tool_call_row(ToolRegistry([STRICT]), lambda: 0.0)])
    text = USE + sentinel("strict", "{}")
    expected = ["Began", STARTED, FLUSHED, "0:tool_0_0 f({})", BLOCK, *ENDED]
    got = [
        run(AnswerRules(rows, StopPolicy()), [*stream(*cut), TurnEnded(0, STOP)]) for cut in every_cut(text)
    ]
    assert got == [expected] * len(got)


def test_nothing_goes_out_behind_a_refusal() -> None:
    rows = build_tool_call_row(ToolRegistry([STRICT]), lambda: 0.0)
    tools = AnswerRules(RowSet([rows]), RUN_ON, (UNHELD_AT_TOOL,))
    out = run(tools, [*stream(AT + sentinel("strict", "{}") + AT), TurnEnded(0, STOP)])
    assert [line for line in out if "tool_0_" in line] == []
    assert out[-1].startswith(InvalidToolCall.__name__)


def test_a_lone_bracket_does_not_stop_the_grace() -> None:
    events = [*stream(USE, "<"), Tick(0), Tick(0.3)]
    assert run(read_chat(ALL), events)[-2:] == ENDED
