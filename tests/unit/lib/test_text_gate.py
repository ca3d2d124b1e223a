"""The gate: streamed text in, visible text and whole blocks out, the same for every cut."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.block_rows import Reading, RowSet, TextPattern, build_tool_call_row, build_use_tool_row
from app.lib.events import NoteKind
from app.lib.sentinel import ProblemKind
from app.lib.text_gate import Buffered, Found, GateEvent, Passed, Reason, Refused, TextGate
from app.lib.tool_registry import ToolRegistry, ToolSpec
from tests.support.at_tool import AT_TOOL
from tests.support.cuts import every_cut
from tests.support.growth import grows_linearly

STRICT = ToolSpec("strict", "", {"type": "object", "required": ["q"]}, True)
SOFT = ToolSpec("soft", "", None, None)


def build_rows(*specs: ToolSpec) -> RowSet:
    """All rows, with the gate's limit for each of them."""
    sentinel = build_tool_call_row(ToolRegistry(specs or (SOFT,)), lambda: 0.0)
    at_tool = AT_TOOL.to_row()
    assert at_tool
    return RowSet([build_use_tool_row(), replace(sentinel, max_chars=None), at_tool])


ROWS = build_rows()


def run(parts: Iterable[str], rows: RowSet = ROWS, max_chars: int = 1000) -> list[GateEvent]:
    gate = TextGate(rows, max_chars)
    events = [event for part in parts for event in gate.feed(part)]
    return join_passed([*events, *gate.finish()])


def join_passed(events: Iterable[GateEvent]) -> list[GateEvent]:
    """Where passed text is cut is the stream's business."""
    joined: list[GateEvent] = []
    for is_text, several in itertools.groupby(events, lambda event: isinstance(event, Passed)):
        if is_text:
            joined.append(Passed("".join(map(attrgetter("text"), several))))
        else:
            joined.extend(several)
    return joined


def show(events: Iterable[GateEvent]) -> list[str]:
    """Events as short texts: `text`, `[block]`, `!refused`, and notes in `{}`."""
    shown = []
    for event in events:
        match event:
            case Passed(text):
                shown.append(text)
            case Found(_, text, _, call):
                shown.append(f"[{text}] {call.name}({call.arguments})")
            case Refused(_, problem):
                shown.append(f"!{problem.kind.value}")
            case Buffered(row, kind, reason):
                shown.append(f"{{{row} {reason or kind.removeprefix('tool_buffer_')}}}")
    return shown


def use(name: str = "f", args: str = "{}") -> str:
    return f"<use_tool><name>{name}</name><args>{args}</args></use_tool>"


def sentinel(name: str = "soft", args: str = "{}") -> str:
    return f'<tool_call>{{"name":"{name}","arguments":"{args}"}}</tool_call>'


#: Arguments that mention the tags, as they stand in a string.
TAGS = r"{\"q\":\"</tool_call> \\\" <tool_call>{ \\\\\"}"
ARGUMENTS = json.loads(f'"{TAGS}"')
STARTED, COMPLETE = "{use_tool started}", "{use_tool complete}"
TC_STARTED, TC_COMPLETE = "{tool_call started}", "{tool_call complete}"
AT_STARTED, AT_COMPLETE = "{at_tool started}", "{at_tool complete}"

CASES = [
    pytest.param("", [], id="nothing"),
    pytest.param("Hello 日本 🙂 <b>bold</b> 1 < 2", ["Hello 日本 🙂 <b>bold</b> 1 < 2"], id="no-tag"),
    pytest.param(
        f"a {use()} b",
        ["a ", STARTED, COMPLETE, f"[{use()}] f({{}})", " b"],
        id="one-block",
    ),
    pytest.param(
        f"{use('a')}{use('b')}\n{sentinel()}",
        [
            *(STARTED, COMPLETE, f"[{use('a')}] a({{}})"),
            *(STARTED, COMPLETE, f"[{use('b')}] b({{}})"),
            "\n",
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
        ],
        id="several-blocks-of-both-tags",
    ),
    pytest.param("<use_tool", ["<use_tool"], id="an-opener-that-never-becomes-one"),
    pytest.param("<use_tools> <use_toolbox", ["<use_tools> <use_toolbox"], id="longer-names-are-text"),
    pytest.param("<use_<use_tool<use_", ["<use_<use_tool<use_"], id="beginnings-in-a-row"),
    pytest.param(
        "<use_tool >\n<name>f</name>\t</use_tool>",
        [STARTED, COMPLETE, "[<use_tool >\n<name>f</name>\t</use_tool>] f()"],
        id="white-space-in-the-opener",
    ),
    pytest.param(
        "a <use_tool> <never closed",
        ["a ", STARTED, "{use_tool stream_ended}", "<use_tool> <never closed"],
        id="never-closed",
    ),
    pytest.param(
        "<use_tool><name>f</name></use_tool",
        [STARTED, "{use_tool stream_ended}", "<use_tool><name>f</name></use_tool"],
        id="closed-but-for-a-character",
    ),
    pytest.param(
        "<use_tool><a>no name</a></use_tool> tail",
        [STARTED, "{use_tool malformed}", "<use_tool><a>no name</a></use_tool> tail"],
        id="malformed",
    ),
    pytest.param(
        f"<use_tool> <one <use_tool\n><two{use()}",
        [
            *(STARTED, "{use_tool nested}", "<use_tool> <one "),
            *(STARTED, "{use_tool nested}", "<use_tool\n><two"),
            *(STARTED, COMPLETE, f"[{use()}] f({{}})"),
        ],
        id="nested-openers-release-what-precedes-them",
    ),
    pytest.param(
        use("f", "<tool_call> @tool("),
        [STARTED, COMPLETE, f"[{use('f', '<tool_call> @tool(')}] f(<tool_call> @tool()"],
        id="other-openers-inside-a-block-are-its-content",
    ),
    pytest.param(
        f"The <use_tool><tag: {sentinel()}, @tool( and {use()}",
        [
            *("The ", STARTED, "{use_tool nested}", "<use_tool><tag: "),
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
            *(", ", AT_STARTED, "{at_tool stream_ended}", "@tool( and "),
            *(STARTED, COMPLETE, f"[{use()}] f({{}})"),
        ],
        id="an-opener-left-open-hides-no-block-of-another-row",
    ),
    pytest.param(
        '<tool_call>{"name":"nope","arguments":"{}"}</tool_call>!',
        [
            *(TC_STARTED, "{tool_call no_call}"),
            '<tool_call>{"name":"nope","arguments":"{}"}</tool_call>!',
        ],
        id="an-unknown-tool-stays-text",
    ),
    pytest.param(
        f"The <tool_call> tag, then `<use_tool>` and {sentinel()}",
        [
            *("The ", TC_STARTED, "{tool_call prose}", "<tool_call> tag, then `"),
            *(STARTED, "{use_tool prose}", "<use_tool>` and "),
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
        ],
        id="prose-about-tags-is-let-go-at-once",
    ),
    pytest.param(
        "<use_tool <use_tool <use_tool>x",
        [
            *(STARTED, "{use_tool nested}", "<use_tool "),
            *(STARTED, "{use_tool nested}", "<use_tool "),
            *(STARTED, "{use_tool prose}", "<use_tool>x"),
        ],
        id="openers-inside-a-tag",
    ),
    pytest.param(
        f"{sentinel(args=TAGS)}{sentinel()}",
        [
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel(args=TAGS)}] soft({ARGUMENTS})"),
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
        ],
        id="tags-inside-a-string-are-text",
    ),
    pytest.param(
        f'<tool_call>```json\n{{"name":"soft","arguments":"{TAGS}"}}\n```</tool_call>',
        [
            *(TC_STARTED, TC_COMPLETE),
            f'[<tool_call>```json\n{{"name":"soft","arguments":"{TAGS}"}}\n```</tool_call>] '
            f"soft({ARGUMENTS})",
        ],
        id="also-in-a-fence",
    ),
    pytest.param(
        '<tool_call>{"name":"soft","arguments":{"a":"<tool_call>"}}</tool_call>',
        [
            *(TC_STARTED, TC_COMPLETE),
            '[<tool_call>{"name":"soft","arguments":{"a":"<tool_call>"}}</tool_call>] '
            'soft({"a":"<tool_call>"})',
        ],
        id="an-opener-before-a-quote",
    ),
    pytest.param(
        '<tool_call>\u3000\x1c```\u3000\n{"name":"soft"}```</tool_call>',
        [
            *(TC_STARTED, TC_COMPLETE),
            '[<tool_call>\u3000\x1c```\u3000\n{"name":"soft"}```</tool_call>] soft({})',
        ],
        id="any-white-space-before-an-object",
    ),
    pytest.param(
        "<use_tool>\u3000\x1c<name>f</name></use_tool>",
        [STARTED, COMPLETE, "[<use_tool>\u3000\x1c<name>f</name></use_tool>] f()"],
        id="any-white-space-before-an-element",
    ),
    pytest.param(
        f'<tool_call>{{"{sentinel()}',
        [
            *(TC_STARTED, "{tool_call stream_ended}", '<tool_call>{"'),
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
        ],
        id="a-string-without-end-hides-no-block",
    ),
    pytest.param(
        f'<tool_call>{{"a\\\\"{sentinel()}',
        [
            *(TC_STARTED, "{tool_call nested}", '<tool_call>{"a\\\\"'),
            *(TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"),
        ],
        id="an-escaped-backslash-escapes-no-quote",
    ),
    pytest.param(
        '@tool("x", {"a": "f(1), g(2)"}) tail)',
        [AT_STARTED, AT_COMPLETE, '[@tool("x", {"a": "f(1), g(2)"})] x({"a": "f(1), g(2)"})', " tail)"],
        id="a-pattern-goes-on-to-the-closer-that-ends-it",
    ),
    pytest.param(
        '@tool(no) @tool("x") rest',
        [
            *(AT_STARTED, "{at_tool nested}", "@tool(no) "),
            *(AT_STARTED, AT_COMPLETE, '[@tool("x")] x()', " rest"),
        ],
        id="a-pattern-that-is-none-is-let-go-at-the-next",
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_events_for_every_cut(text: str, expected: list[str]) -> None:
    """Story 2.9 AC 3, 21; story 2.12 AC 1, 2."""
    got = [show(run(cut)) for cut in every_cut(text)]
    assert got == [expected] * len(got)


def test_a_block_says_where_it_stands() -> None:
    text = f"日本 {use('a')} x {use('b')}"
    found = [event for event in run(text) if isinstance(event, Found)]
    assert [(text[event.index_start :].startswith(event.text), event.call.name) for event in found] == [
        (True, "a"),
        (True, "b"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"a {sentinel('strict', '{}')} b",
            ["a ", TC_STARTED, "{tool_call refused}", f"!{ProblemKind.MISMATCH.value}", " b"],
            id="arguments-that-do-not-fit",
        ),
        pytest.param(
            "<tool_call>{broken</tool_call>",
            [TC_STARTED, "{tool_call refused}", f"!{ProblemKind.UNREADABLE.value}"],
            id="unreadable",
        ),
        pytest.param(
            "<tool_call>prose</tool_call>",
            [TC_STARTED, "{tool_call refused}", f"!{ProblemKind.UNREADABLE.value}"],
            id="no-object-at-all",
        ),
        pytest.param(
            '<tool_call>"</tool_call>',
            [TC_STARTED, "{tool_call refused}", f"!{ProblemKind.UNREADABLE.value}"],
            id="only-an-object-has-strings",
        ),
        pytest.param(
            '<tool_call>{"</tool_call> tail',
            [TC_STARTED, "{tool_call refused}", f"!{ProblemKind.UNREADABLE.value}"],
            id="closed-inside-a-string-that-never-ends",
        ),
        pytest.param(
            '<tool_call>{"name":"strict","arguments":"{}"}',
            [TC_STARTED, "{tool_call stream_ended}", '<tool_call>{"name":"strict","arguments":"{}"}'],
            id="never-closed",
        ),
    ],
)
def test_strict_failures_are_neither_calls_nor_text(text: str, expected: list[str]) -> None:
    rows = build_rows(STRICT, SOFT)
    got = [show(run(cut, rows)) for cut in every_cut(text)]
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("<tool_call> prose", "prose", id="prose"),
        pytest.param("<tool_call>{broken</tool_call>", "malformed", id="unreadable"),
    ],
)
def test_what_is_not_asked_for_may_be_prose_beside_a_strict_tool(text: str, reason: str) -> None:
    rows = RowSet([build_tool_call_row(ToolRegistry([STRICT]), lambda: 0.0, is_asked_for=False)])
    got = [show(run(cut, rows)) for cut in every_cut(text)]
    assert got == [[TC_STARTED, f"{{tool_call {reason}}}", text]] * len(got)


BLOCK = use()


@pytest.mark.parametrize(
    ("text", "max_chars", "expected"),
    [
        pytest.param(BLOCK, len(BLOCK), [STARTED, COMPLETE, f"[{BLOCK}] f({{}})"], id="just-fits"),
        pytest.param(BLOCK, len(BLOCK) - 1, [STARTED, "{use_tool too_large}", BLOCK], id="one-too-long"),
        pytest.param(
            f"<use_tool><{'x' * 30}{use()}",
            20,
            [
                *(STARTED, "{use_tool too_large}", f"<use_tool><{'x' * 30}"),
                *(STARTED, "{use_tool too_large}", use()),
            ],
            id="what-follows-is-looked-at-anew",
        ),
        pytest.param(BLOCK, 3, [STARTED, "{use_tool too_large}", BLOCK], id="less-than-an-opener"),
        pytest.param(
            '@tool("x") and more',
            15,
            [AT_STARTED, AT_COMPLETE, '[@tool("x")] x()', " and more"],
            id="a-pattern",
        ),
    ],
)
def test_a_block_is_held_up_to_its_limit(text: str, max_chars: int, expected: list[str]) -> None:
    got = [show(run(cut, max_chars=max_chars)) for cut in every_cut(text)]
    assert got == [expected] * len(got)


@pytest.mark.parametrize(
    ("max_chars", "is_call"),
    [
        pytest.param(len(sentinel()), True, id="fits"),
        pytest.param(len(sentinel()) - 1, False, id="too-long"),
    ],
)
def test_a_row_may_have_a_limit_of_its_own(max_chars: int, is_call: bool) -> None:
    row = replace(ROWS.rows["row1"], max_chars=max_chars)
    got = [show(run(cut, RowSet([row]), max_chars=20)) for cut in every_cut(sentinel())]
    call = [TC_STARTED, TC_COMPLETE, f"[{sentinel()}] soft({{}})"]
    text = [TC_STARTED, "{tool_call too_large}", sentinel()]
    assert got == [call if is_call else text] * len(got)


@pytest.mark.parametrize(
    ("text", "max_chars"),
    [
        pytest.param("<use_tool>  x", len("<use_tool>  "), id="at-the-limit"),
        pytest.param("<tool_call>``x", len("<tool_call>``"), id="in-a-fence"),
    ],
)
def test_the_limit_comes_before_what_is_read_behind_it(text: str, max_chars: int) -> None:
    got = [show(run(cut, max_chars=limit)) for limit in (max_chars, max_chars + 1) for cut in every_cut(text)]
    row = text[1:].partition(">")[0]
    ends = [[f"{{{row} started}}", f"{{{row} {reason}}}", text] for reason in ("too_large", "prose")]
    assert got == [end for end in ends for _ in range(len(got) // 2)]


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        pytest.param("a", "", id="text"),
        pytest.param("a<", "<", id="a-beginning"),
        pytest.param("a<use_tool", "<use_tool", id="an-opener-without-its-end"),
        pytest.param("a<use_toolx", "", id="no-opener-after-all"),
        pytest.param("a<use_tool>\n <b", "<use_tool>\n <b", id="inside-a-block"),
        pytest.param("a<use_tool>\n <", "<use_tool>\n <", id="before-an-element"),
        pytest.param("a<use_tool>\n b", "", id="no-element"),
        pytest.param("a<use_tool> <1", "", id="an-element-without-a-name"),
        pytest.param("a<use_tool x", "<use_tool x", id="inside-a-tag"),
        pytest.param("a<use_tool x>b", "", id="no-element-behind-a-longer-tag"),
        pytest.param("a<tool_call>\n ", "<tool_call>\n ", id="before-an-object"),
        pytest.param("a<tool_call> {b", "<tool_call> {b", id="inside-an-object"),
        pytest.param("a<tool_call> b", "", id="no-object"),
        pytest.param("a<tool_call>```json\n{b", "<tool_call>```json\n{b", id="inside-a-fence"),
        pytest.param("a<tool_call>```jsox", "", id="no-object-in-a-fence"),
        pytest.param(f"{use()} b", "", id="behind-a-block"),
        pytest.param("mail@us", "", id="an-at-sign-inside"),
        pytest.param("mail@", "@", id="an-at-sign-at-the-end"),
    ],
)
def test_exactly_what_could_become_a_tag_is_held(text: str, is_held: str) -> None:
    gate = TextGate(ROWS)
    out = [event for character in text for event in gate.feed(character)]
    said = "".join(event.text for event in out if isinstance(event, Passed | Found))
    left = "".join(event.text for event in gate.finish() if isinstance(event, Passed))
    assert (said, left) == (text.removesuffix(is_held), is_held)


@pytest.mark.parametrize("reason", [Reason.DEADLINE, Reason.STREAM_FAILED])
def test_the_reason_for_letting_go_is_noted(reason: Reason) -> None:
    gate = TextGate(ROWS)
    gate.feed("<use_tool><x")
    aborted = Buffered("use_tool", NoteKind.BUFFER_ABORTED, reason)
    assert join_passed(gate.finish(reason)) == [aborted, Passed("<use_tool><x")]
    assert (gate.finish(), gate.is_in_block) == ([], False)


def test_a_repaired_or_faulty_call_says_so() -> None:
    spec = ToolSpec("soft", "", {"type": "object", "required": ["q"]}, None)
    events = run(
        [sentinel("soft", "{,}".replace(",", "")), sentinel("soft", '{\\"q\\":1,}')], build_rows(spec)
    )
    found = [event for event in events if isinstance(event, Found)]
    assert [(event.problem.kind if event.problem else None, event.repaired) for event in found] == [
        (ProblemKind.MISMATCH, False),
        (None, True),
    ]


def test_a_late_reading_leaves_the_rest_to_be_read() -> None:
    """Past its free tries a pattern is asked seldom, and a block may be seen only at the end."""
    many = '@tool("x", "' + ")" * 200 + '")'
    text = f'{many} and {use()} @tool("y")'
    got = [show(run(cut)) for cut in (list(text), [text])]
    names = [[line.rsplit(" ", 1)[1] for line in each if line.startswith("[")] for each in got]
    assert (names[0], got[0]) == ([f'x("{")" * 200}")', "f({})", "y()"], got[1])


@pytest.mark.parametrize(
    ("opener", "closer", "text", "expected"),
    [
        pytest.param("call:", None, "a call: x}b", ["x}"], id="any-bracket-ends-it"),
        pytest.param("call:", None, "a call: x\nb", ["x\n"], id="or-the-line"),
        pytest.param("[call](", None, "a [call](x] y) b", [], id="but-none-that-is-in-the-opener"),
        pytest.param("#", ";", "a #x; b #y; c", ["x;", "y;"], id="an-opener-of-one-character"),
        pytest.param("#", ";", "a # #y; c", ["y;"], id="that-one-nested"),
    ],
)
def test_patterns_of_other_shapes(opener: str, closer: str | None, text: str, expected: list[str]) -> None:
    def match(buffer: str) -> list[dict[str, object]]:
        body = buffer.removeprefix(opener).strip(" ")
        is_call = len(body) == 2
        return [{"indexStart": 0, "indexEnd": len(buffer), "name": body, "argsText": ""}] if is_call else []

    row = TextPattern("p", match, opener, closer).to_row()
    assert row
    got = [
        [event.call.name for event in run(cut, RowSet([row])) if isinstance(event, Found)]
        for cut in every_cut(text)
    ]
    assert got == [expected] * len(got)


FRAGMENTS = st.sampled_from(
    [
        *("<use_tool>", "<use_tool", "</use_tool>", "<name>f</name>", "<args>{}</args>", "<tool_call>"),
        *(
            "</tool_call>",
            '{"name":"soft","arguments":"{}"}',
            '{"name":"soft","arguments":"',
            '"',
            "\\",
            "{",
            "```",
            "json",
            "@tool(",
            '"x")',
            ")",
            "@",
            "<",
            "</",
            " ",
            "\n",
        ),
        *("e\u0301", "日本", "🙂", "text"),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)


@st.composite
def cut_texts(draw: st.DrawFn) -> list[str]:
    text = draw(TEXTS)
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]


@given(cut_texts(), st.integers(1, 60))
def test_law_text_out_plus_blocks_is_text_in(parts: list[str], max_chars: int) -> None:
    events = run(parts, max_chars=max_chars)
    assert "".join(event.text for event in events if isinstance(event, Passed | Found)) == "".join(parts)


@given(cut_texts(), st.integers(1, 60))
def test_law_every_cut_gives_the_same(parts: list[str], max_chars: int) -> None:
    assert run(parts, max_chars=max_chars) == run(["".join(parts)], max_chars=max_chars)


@given(cut_texts(), st.integers(1, 60))
def test_law_every_start_has_one_end_and_nothing_stays_held(parts: list[str], max_chars: int) -> None:
    gate = TextGate(ROWS, max_chars)
    events = [event for part in parts for event in gate.feed(part)] + gate.finish()
    notes = [event.kind for event in events if isinstance(event, Buffered)]
    started = notes.count(NoteKind.BUFFER_STARTED)
    assert (len(notes), gate.is_in_block, gate.finish()) == (2 * started, False, [])


@given(TEXTS)
def test_law_what_is_held_is_bounded(text: str) -> None:
    gate = TextGate(ROWS, max_chars=25)
    through = 0
    for place, character in enumerate(text, 1):
        through += sum(len(event.text) for event in gate.feed(character) if isinstance(event, Passed | Found))
        assert place - through <= 25


#: What stands around a call inside its block, here and there where none may.
LAYOUT = st.lists(
    st.sampled_from(["\n", " ", "\x1c", "\u3000", "```", "json", "JSON", ",", '"', "<b>", "x"]), max_size=4
).map("".join)


@given(LAYOUT, st.sampled_from([r"\"</tool_call>\"", r"\"<tool_call>\"", "{}", r"\\"]), LAYOUT)
def test_law_an_object_that_can_be_read_is_found(before: str, arguments: str, after: str) -> None:
    """Nothing is let go early, or held on, that its row reads; nor is anything else found."""
    text = f'<tool_call>{before}{{"name":"soft","arguments":"{arguments}"}}{after}</tool_call>'
    assert find_texts(text) == ([text] if isinstance(ROWS.rows["row1"].read(text), Reading) else [])


@given(st.sampled_from([">", " >", "\n a='1'>", " <b>", "x>"]), LAYOUT, LAYOUT)
def test_law_elements_that_can_be_read_are_found(tag: str, before: str, after: str) -> None:
    text = f"<use_tool{tag}{before}<name>f</name>{after}</use_tool>"
    assert find_texts(text) == ([text] if isinstance(ROWS.rows["row0"].read(text), Reading) else [])


def find_texts(text: str) -> list[str]:
    return [event.text for event in run([text]) if isinstance(event, Found)]


@pytest.mark.parametrize(
    ("before", "fragment"),
    [
        pytest.param("", "<use_tool", id="unclosed-flood"),
        pytest.param("", "<use_tool>", id="nested-flood"),
        pytest.param("<use_tool><a>", "x", id="one-long-block"),
        pytest.param("", "<", id="brackets"),
        pytest.param('@tool("x", "', ")", id="closers"),
        pytest.param("", "@tool(", id="pattern-openers"),
        pytest.param("", "@tool(<use_tool><tool_call>", id="openers-of-all-rows"),
        pytest.param("<use_tool><a>", "@tool(<tool_call>", id="openers-of-other-rows-in-a-block"),
        pytest.param("", '@tool("x")', id="pattern-blocks"),
        pytest.param("", use(), id="blocks"),
        pytest.param("<use_tool ", "x", id="one-long-tag"),
        pytest.param("<tool_call>", " ", id="space-before-an-object"),
        pytest.param("", '<tool_call>{"', id="strings-and-openers"),
        pytest.param("", '<tool_call>{\\"', id="escaped-quotes-and-openers"),
        pytest.param("", "<tool_call>{\\", id="escaped-openers"),
        pytest.param("", '<tool_call>{""', id="pairs-of-quotes-and-openers"),
        pytest.param("", '<tool_call>{"</tool_call>', id="strings-and-closers"),
        pytest.param('<tool_call>{"', '\\"', id="escaped-quotes"),
        pytest.param("<tool_call>{", '"', id="quotes"),
    ],
)
def test_floods_cost_time_in_proportion(before: str, fragment: str) -> None:
    """An unclosed tag flood, nested openers, a matcher asked at every bracket: linear all the same."""
    assert grows_linearly(lambda text: run([before, text], max_chars=1 << 30), fragment)


@pytest.mark.parametrize(
    "before",
    ["", "<use_tool><a>", "<use_tool ", '<tool_call>{"', "<tool_call>{"],
    ids=["text", "in-a-block", "in-a-tag", "in-a-string", "in-an-object"],
)
def test_single_characters_cost_time_in_proportion(before: str) -> None:
    assert grows_linearly(lambda text: run([before, *text], max_chars=1 << 30), "x", 100_000)


def test_blocks_that_end_before_their_closer_cost_time_in_proportion() -> None:
    """Each leaves the rest of its line to be looked at again."""

    def match(text: str) -> list[dict[str, object]]:
        found = re.match(r"@x\w+", text)
        return [{"indexStart": 0, "indexEnd": found.end(), "name": "x", "argsText": ""}] if found else []

    row = TextPattern("x", match, "@x").to_row()
    assert row
    rows = RowSet([row])
    # Wide characters, and enough of them that copying the rest for each block would be what takes the time.
    assert grows_linearly(lambda text: run([text], rows, 1 << 30), "@xaaaaaa🙂\n", 500_000)


def test_openers_that_cannot_be_told_apart_are_refused() -> None:
    """Otherwise how a stream is cut would decide which of them it is."""
    rows = [pattern.to_row() for pattern in (AT_TOOL, TextPattern("short", lambda _: [], "@to", ")"))]
    with pytest.raises(ValueError, match=r"'@to' and '@tool\(' cannot be told apart"):
        RowSet([row for row in rows if row])
