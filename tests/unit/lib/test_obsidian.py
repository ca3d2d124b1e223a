"""Tool calls as blocks for Obsidian Copilot."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.lib.obsidian import EscapePolicy, shape_arguments, to_obsidian_xml
from app.lib.obsidian_canon import CANON, Kind, Parameter, find_kind
from app.lib.tool_calls import ToolCallFunction, ToolCallRecord
from app.lib.use_tool import parse_use_tool

COPILOT = EscapePolicy.COPILOT


def record(name: str, arguments: str) -> ToolCallRecord:
    return ToolCallRecord("tool_0_0", ToolCallFunction(name), arguments)


def block(name: str, *elements: str) -> str:
    return "\n".join(["<use_tool>", f"<name>{name}</name>", *elements, "</use_tool>"])


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param("localSearch", ["query", "salientTerms", "timeRange?"], id="localSearch"),
        pytest.param("webSearch", ["query", "chatHistory"], id="webSearch"),
        pytest.param("getCurrentTime", ["timezoneOffset?"], id="getCurrentTime"),
        pytest.param("convertTimeBetweenTimezones", ["time", "fromOffset", "toOffset"], id="convertTime"),
        pytest.param("getTimeInfoByEpoch", ["epoch"], id="getTimeInfoByEpoch"),
        pytest.param("getTimeRangeMs", ["timeExpression"], id="getTimeRangeMs"),
        pytest.param("readNote", ["path|notePath", "chunkIndex?"], id="readNote"),
        pytest.param("writeToFile", ["path", "content", "confirmation?"], id="writeToFile"),
        pytest.param("replaceInFile", ["path", "diff"], id="replaceInFile"),
        pytest.param("youtubeTranscription", [], id="youtubeTranscription"),
        pytest.param("getFileTree", [], id="getFileTree"),
        pytest.param("getTagList", ["includeInline?", "maxEntries?"], id="getTagList"),
        pytest.param("updateMemory", ["statement"], id="updateMemory"),
        pytest.param("writeFile", ["path", "content", "confirmation?"], id="writeFile"),
        pytest.param("editFile", ["path", "oldText", "newText"], id="editFile"),
    ],
)
def test_canon(tool: str, expected: list[str]) -> None:
    """AC 22"""
    assert ["|".join(each.spellings) + ("" if each.required else "?") for each in CANON[tool]] == expected


@pytest.mark.parametrize(
    ("tool", "spelling", "expected"),
    [
        pytest.param("localSearch", "salientTerms", Kind.ARRAY, id="known"),
        pytest.param("readNote", "notePath", Kind.STRING, id="second-spelling"),
        pytest.param("readNote", "query", None, id="of-another-tool"),
        pytest.param("mine", "query", None, id="tool-outside-the-canon"),
    ],
)
def test_find_kind(tool: str, spelling: str, expected: Kind | None) -> None:
    assert find_kind(tool, spelling) is expected


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        pytest.param(
            "localSearch",
            '{"timeRange":{"a":1},"limit":3,"query":"q","salientTerms":[]}',
            (("query", "q"), ("salientTerms", []), ("timeRange", {"a": 1})),
            id="canon-order-without-unknown-keys",
        ),
        pytest.param(
            "localSearch", '{"salientTerms":[]}', (("salientTerms", []),), id="missing-ones-left-out"
        ),
        pytest.param(
            "localSearch", '{"query":null}', (("query", None),), id="a-required-null-is-not-missing"
        ),
        pytest.param(
            "localSearch", '{"query":"q","timeRange":null}', (("query", "q"),), id="an-optional-null-is"
        ),
        pytest.param(
            "readNote", '{"chunkIndex":1,"path":"a"}', (("path", "a"), ("chunkIndex", 1)), id="path"
        ),
        pytest.param(
            "readNote",
            '{"chunkIndex":1,"notePath":"a"}',
            (("notePath", "a"), ("chunkIndex", 1)),
            id="notePath",
        ),
        pytest.param(
            "readNote", '{"notePath":"b","path":"a"}', (("path", "a"), ("notePath", "b")), id="both-spellings"
        ),
        pytest.param("getFileTree", '{"depth":3}', (), id="tool-without-parameters"),
        pytest.param("mine", '{"b":1,"a":{"c":2}}', (("b", 1), ("a", {"c": 2})), id="outside-the-canon"),
        pytest.param("mine", '{"a":1,"a":2}', (("a", 2),), id="repeated-key"),
        pytest.param("mine", "{}", (), id="empty-object"),
        pytest.param("mine", "", (), id="no-text"),
        pytest.param("mine", " \n", (), id="only-white-space"),
        pytest.param("mine", "[1]", None, id="not-an-object"),
        pytest.param("mine", '{"a":', None, id="not-json"),
    ],
)
def test_shape_arguments(name: str, arguments: str, expected: tuple[tuple[str, Any], ...] | None) -> None:
    """AC 22, AC 23"""
    assert shape_arguments(name, arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "elements"),
    [
        pytest.param(
            "localSearch",
            '{"salientTerms": ["piano", "é"], "query": "piano", "timeRange": {"startTime": 1}}',
            [
                "<query>piano</query>",
                '<salientTerms>["piano","é"]</salientTerms>',
                '<timeRange>{"startTime":1}</timeRange>',
            ],
            id="one-element-a-line",
        ),
        pytest.param("getFileTree", "", [], id="no-arguments"),
        pytest.param("getFileTree", "{}", [], id="empty-arguments"),
        pytest.param(
            "updateMemory",
            '{"statement":"a < b && c > \\"d\\""}',
            ['<statement>a &lt; b &amp;&amp; c &gt; "d"</statement>'],
            id="escaped",
        ),
        pytest.param("updateMemory", '{"statement":""}', ["<statement></statement>"], id="empty-text"),
        pytest.param(
            "localSearch",
            '{"salientTerms":["</use_tool>","&amp;"]}',
            [r'<salientTerms>["\u003c/use_tool\u003e","\u0026amp;"]</salientTerms>'],
            id="markup-in-an-array",
        ),
        pytest.param(
            "localSearch",
            r'{"salientTerms":["\ud83d"]}',
            [r'<salientTerms>["\ud83d"]</salientTerms>'],
            id="half-a-character-in-an-array",
        ),
        pytest.param(
            "updateMemory",
            r'{"statement":"\ud83d","x":1}',
            [r'<args>{"statement":"\ud83d","x":1}</args>'],
            id="half-a-character-in-a-text",
        ),
        pytest.param(
            "mine",
            '{"i":123456789012345678901234567890,"f":1.10,"t":true,"n":null,"s":"7"}',
            ["<i>123456789012345678901234567890</i>", "<f>1.1</f>", "<t>true</t>", "<n>null</n>", "<s>7</s>"],
            id="scalars",
        ),
        pytest.param(
            "updateMemory", r'{"statement":" a\n"}', ["<statement> a\n</statement>"], id="white-space-kept"
        ),
        pytest.param(
            "updateMemory",
            r'{"statement":"\na\n"}',
            ["<statement>\n\na\n\n</statement>"],
            id="line-break-on-both-sides",
        ),
        pytest.param(
            "writeFile", '{"content":{"a":"{"}}', ['<content>{"a":"{"}</content>'], id="content-object"
        ),
        pytest.param(
            "writeFile",
            r'{"content":"{\"a\":1}"}',
            ['<content>\n{"a":1}\n</content>'],
            id="content-that-looks-like-one",
        ),
        pytest.param("mine", "[1, 2]", ["<args>[1, 2]</args>"], id="not-an-object"),
        pytest.param("mine", '{"a": 1', ['<args>{"a": 1</args>'], id="not-json"),
        pytest.param("mine", '{"a":NaN}', ['<args>{"a":NaN}</args>'], id="nan"),
        pytest.param("mine", '{"a b": 1}', ['<args>{"a b": 1}</args>'], id="key-that-is-no-element-name"),
        pytest.param("mine", '{"name": 1}', ['<args>{"name": 1}</args>'], id="key-name"),
        pytest.param("mine", '{"args": 1}', ['<args>{"args": 1}</args>'], id="key-args"),
        pytest.param("mine", '{"use_tool": 1}', ['<args>{"use_tool": 1}</args>'], id="key-use-tool"),
        pytest.param(
            "mine", '["a<b", "&"]', ['<args>["a<b", "&"]</args>'], id="verbatim-with-harmless-markup"
        ),
        pytest.param(
            "mine",
            '["</use_tool>"]',
            [r'<args>["\u003c/use_tool>"]</args>'],
            id="verbatim-json-with-block-closer",
        ),
        pytest.param(
            "mine", '["</args>"]', [r'<args>["\u003c/args>"]</args>'], id="verbatim-json-with-own-closer"
        ),
        pytest.param(
            "mine", '["<use_tool >"]', [r'<args>["\u003cuse_tool >"]</args>'], id="verbatim-json-with-opener"
        ),
        pytest.param(
            "mine",
            '{"a":"</args>&',
            ['<args>{"a":"&lt;/args&gt;&amp;</args>'],
            id="verbatim-text-with-closer",
        ),
        pytest.param("mine", "\ud83d", [r"<args>\ud83d</args>"], id="verbatim-half-a-character"),
    ],
)
def test_block(name: str, arguments: str, elements: list[str]) -> None:
    """AC 21, AC 24"""
    assert to_obsidian_xml(record(name, arguments)) == block(name, *elements)


def test_the_name_is_escaped() -> None:
    assert to_obsidian_xml(record("a</name>&\ud83d", "")) == block(r"a&lt;/name&gt;&amp;\ud83d")


@pytest.mark.parametrize(
    ("name", "arguments", "elements"),
    [
        pytest.param(
            "updateMemory",
            '{"statement":"a < b && <br> &lt;"}',
            ["<statement>a < b && <br> &lt;</statement>"],
            id="text-as-it-is",
        ),
        pytest.param(
            "updateMemory",
            '{"statement":"</statement></use_tool>"}',
            ["<statement>&lt;/statement>&lt;/use_tool></statement>"],
            id="text-that-would-be-cut",
        ),
        pytest.param(
            "updateMemory",
            '{"statement":"a <b>c</b>"}',
            ["<statement>a <b>c</b></statement>"],
            id="other-closing-tags-as-they-are",
        ),
        pytest.param(
            "webSearch",
            '{"chatHistory":["<b>"]}',
            [r'<chatHistory>["\u003cb\u003e"]</chatHistory>'],
            id="array-as-ever",
        ),
        pytest.param(
            "mine", "x </args> <use_tool>", ["<args>x &lt;/args> <use_tool></args>"], id="verbatim-text"
        ),
        pytest.param("mine", '["</args>"]', [r'<args>["\u003c/args>"]</args>'], id="verbatim-json"),
    ],
)
def test_block_for_readers_without_entities(name: str, arguments: str, elements: list[str]) -> None:
    assert to_obsidian_xml(record(name, arguments), COPILOT) == block(name, *elements)


def test_nesting_at_the_edge_of_the_stack() -> None:
    """What can just be read may be too deep to write again: it then goes verbatim."""
    for depth in range(700, 1100):
        nested = "[" * depth + "]" * depth
        rendered = to_obsidian_xml(record("mine", f'{{"a": {nested}}}'))
        assert rendered in (
            block("mine", f"<a>{nested}</a>"),
            block("mine", f'<args>{{"a": {nested}}}</args>'),
        )


FRAGMENTS = [
    "</use_tool>",
    "<use_tool>",
    "</content>",
    "</args>",
    "<name>",
    "<b>x</b>",
    "<",
    ">",
    "&",
    "&lt;",
    "&amp;lt;",
    "\n",
    "\r\n",
    " ",
    "\t",
    "{",
    "}",
    '{"a":1}',
    "[1]",
    '"',
    "\\u003c",
    "null",
    "7",
    "é",
    "😀",
    "中",
    "\u2028",
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=6).map("".join)
#: With half characters, which JSON can spell.
BROKEN_TEXTS = st.tuples(TEXTS, st.sampled_from(["\ud83d", "\udc00", ""]), TEXTS).map("".join)
NUMBERS = st.integers() | st.integers(10**29, 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | BROKEN_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(BROKEN_TEXTS, inner, max_size=3),
    max_leaves=5,
)
ARRAYS = st.lists(VALUES, max_size=3)
OBJECTS = st.dictionaries(BROKEN_TEXTS, VALUES, max_size=3)
OF_KIND: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.STRING: BROKEN_TEXTS,
    Kind.NUMBER: NUMBERS,
    Kind.BOOLEAN: st.booleans(),
    Kind.ARRAY: ARRAYS,
    Kind.OBJECT: OBJECTS,
    Kind.STRING_OR_OBJECT: BROKEN_TEXTS | OBJECTS,
}


@st.composite
def canon_calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A canon tool with some of its parameters, in its order."""
    name = draw(st.sampled_from(sorted(CANON)))

    def draw_one(parameter: Parameter) -> tuple[str, Any]:
        return draw(st.sampled_from(parameter.spellings)), draw(OF_KIND[parameter.kind])

    given_ones = [parameter for parameter in CANON[name] if draw(st.integers(0, 3))]
    return name, dict(draw_one(parameter) for parameter in given_ones)


# Neither a loaded machine nor hypothesis's first character table is a finding.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@patient
@given(canon_calls())
def test_what_is_rendered_can_be_read_back(call: tuple[str, dict[str, Any]]) -> None:
    name, values = call
    rendered = to_obsidian_xml(record(name, json.dumps(values)))
    read = parse_use_tool(rendered)
    assert read is not None
    assert (read.name, list(json.loads(read.arguments or "{}").items())) == (name, list(values.items()))


@patient
@given(
    st.sampled_from([*CANON, "mine"]), st.dictionaries(BROKEN_TEXTS, VALUES).map(json.dumps) | BROKEN_TEXTS
)
def test_a_block_ends_once_and_can_be_sent(name: str, arguments: str) -> None:
    rendered = to_obsidian_xml(record(name, arguments))
    assert rendered.count("</use_tool>") == 1
    assert rendered.endswith("</use_tool>")
    assert rendered.encode().decode() == rendered
    read = parse_use_tool(rendered)
    assert read is not None
    assert read.name == name


@patient
@given(TEXTS)
def test_copilots_text_ends_at_its_own_closer(text: str) -> None:
    rendered = to_obsidian_xml(record("updateMemory", json.dumps({"statement": text})), COPILOT)
    assert rendered.count("</statement>") == rendered.count("</use_tool>") == 1
    assert rendered.endswith("</statement>\n</use_tool>")
