"""Reading blocks that models write."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.lib.tool_calls import TextCall
from app.lib.use_tool import parse_use_tool
from tests.support.growth import grows_linearly


def use(name: str, parameters: str) -> str:
    return f"<use_tool>\n<name>{name}</name>\n{parameters}\n</use_tool>"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param(
            '<use_tool>\n  <name>webSearch</name>\n  <args>{"q":"obsidian","k":8}</args>\n</use_tool>',
            TextCall("webSearch", '{"q":"obsidian","k":8}'),
            id="json",
        ),
        pytest.param(
            '<use_tool><name>localSearch</name><query>a</query><salientTerms>["a"]</salientTerms></use_tool>',
            TextCall("localSearch", '{"query":"a","salientTerms":["a"]}'),
            id="one-element-per-parameter",
        ),
        pytest.param(
            "<use_tool>\n<query>a</query>\n<name> webSearch\n</name>\n</use_tool>",
            TextCall("webSearch", '{"query":"a"}'),
            id="name-trimmed-and-anywhere",
        ),
        pytest.param(
            '<use_tool id="1"\n><name>a</name></use_tool>', TextCall("a", ""), id="attributes-in-the-opener"
        ),
        pytest.param("<use_tool ><name>a</name></use_tool>", TextCall("a", ""), id="space-in-the-opener"),
        pytest.param(
            "<use_tool><name>a&amp;b</name></use_tool>", TextCall("a&b", ""), id="entity-in-the-name"
        ),
        pytest.param(
            "<use_tool><name>a</name><name>b</name></use_tool>",
            TextCall("a", '{"name":"b"}'),
            id="a-second-name-is-a-parameter",
        ),
        pytest.param("<use_tool></use_tool>", None, id="empty"),
        pytest.param("<use_tool><query>a</query></use_tool>", None, id="no-name"),
        pytest.param("<use_tool><name> \n</name></use_tool>", None, id="blank-name"),
        pytest.param("<use_tool>localSearch</use_tool>", None, id="only-text"),
        pytest.param("<use_tool><name>a</name>and</use_tool>", None, id="text-beside-elements"),
        pytest.param("<use_tool><name>a</name><b>1</use_tool>", None, id="parameter-never-closed"),
        pytest.param("<use_tool><name>a</name>", None, id="block-never-closed"),
        pytest.param("<use_tools><name>a</name></use_tools>", None, id="another-tag"),
        pytest.param("<use_tool/>", None, id="self-closing"),
        pytest.param("", None, id="no-text"),
    ],
)
def test_blocks(block: str, expected: TextCall | None) -> None:
    """AC 6"""
    assert parse_use_tool(block) == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param('<args>\n{\n "a": 1\n}\n</args>', '{\n "a": 1\n}', id="trimmed-and-else-verbatim"),
        pytest.param('<args>{"a": "</use_tool> & <b>"}</args>', '{"a": "</use_tool> & <b>"}', id="markup"),
        pytest.param('<args>{"a":"&lt;"}</args>', '{"a":"&lt;"}', id="json-with-entities-stays"),
        pytest.param('<args>{&quot;a&quot;:"&lt;"}</args>', '{"a":"<"}', id="json-only-when-unescaped"),
        pytest.param("<args>a &lt; b</args>", "a &lt; b", id="never-json"),
        pytest.param('<args>{"a": 1</args>', '{"a": 1', id="cut-json"),
        pytest.param("<args>  </args>", "", id="blank"),
        pytest.param(
            "<args>[1]</args><b>2</b>", '{"args":[1],"b":"2"}', id="args-beside-others-is-a-parameter"
        ),
    ],
)
def test_args(inside: str, expected: str) -> None:
    assert parse_use_tool(use("mine", inside)) == TextCall("mine", expected)


@pytest.mark.parametrize(
    ("tool", "inside", "expected"),
    [
        pytest.param("webSearch", "<query>7</query>", {"query": "7"}, id="string-never-parsed"),
        pytest.param("webSearch", '<query>{"a":1}</query>', {"query": '{"a":1}'}, id="string-like-json"),
        pytest.param("webSearch", "<query> a &lt; b </query>", {"query": " a < b "}, id="string-not-trimmed"),
        pytest.param(
            "webSearch", "<query>a <b>c</b> d</query>", {"query": "a <b>c</b> d"}, id="markup-in-a-string"
        ),
        pytest.param(
            "replaceInFile",
            "<diff>\n--- a\n b\n</diff>",
            {"diff": "--- a\n b"},
            id="string-on-lines-of-its-own",
        ),
        pytest.param("replaceInFile", "<diff>a\n</diff>", {"diff": "a\n"}, id="line-break-on-one-side"),
        pytest.param(
            "readNote",
            "<notePath>a.md</notePath><chunkIndex>\n 1 </chunkIndex>",
            {"notePath": "a.md", "chunkIndex": 1},
            id="number",
        ),
        pytest.param(
            "readNote", "<chunkIndex>first</chunkIndex>", {"chunkIndex": "first"}, id="number-that-is-none"
        ),
        pytest.param("readNote", "<chunkIndex></chunkIndex>", {"chunkIndex": ""}, id="number-left-empty"),
        pytest.param(
            "getTagList", "<includeInline>false</includeInline>", {"includeInline": False}, id="boolean"
        ),
        pytest.param(
            "webSearch", "<chatHistory>\n</chatHistory>", {"chatHistory": []}, id="array-left-empty"
        ),
        pytest.param(
            "webSearch",
            "<chatHistory>[&quot;a&quot;]</chatHistory>",
            {"chatHistory": ["a"]},
            id="array-with-entities",
        ),
        pytest.param(
            "webSearch",
            "<chatHistory><item>a</item></chatHistory>",
            {"chatHistory": "<item>a</item>"},
            id="array-that-is-none",
        ),
        pytest.param(
            "localSearch",
            '<timeRange>{"startTime": 1.50}</timeRange>',
            {"timeRange": {"startTime": 1.5}},
            id="object",
        ),
        pytest.param(
            "localSearch", "<timeRange>{NaN}</timeRange>", {"timeRange": "{NaN}"}, id="object-that-is-none"
        ),
        pytest.param(
            "writeFile", '<content>{"nodes":[]}</content>', {"content": {"nodes": []}}, id="content-object"
        ),
        pytest.param(
            "writeFile",
            '<content>\n{"nodes":[]}\n</content>',
            {"content": '{"nodes":[]}'},
            id="content-on-lines-is-text",
        ),
        pytest.param("writeFile", "<content>{{date}}</content>", {"content": "{{date}}"}, id="content-text"),
        pytest.param("writeFile", "<content>[1]</content>", {"content": "[1]"}, id="content-is-never-a-list"),
        pytest.param(
            "webSearch", "<limit>[7]</limit>", {"limit": [7]}, id="unknown-parameter-of-a-canon-tool"
        ),
        pytest.param(
            "mine", '<a>\n[1]\n</a><b> {"c":2}</b>', {"a": [1], "b": {"c": 2}}, id="outside-the-canon-json"
        ),
        pytest.param(
            "mine",
            "<a>7</a><b>true</b><c>null</c>",
            {"a": "7", "b": "true", "c": "null"},
            id="outside-the-canon-scalars",
        ),
        pytest.param("mine", "<a>[[Note]]</a>", {"a": "[[Note]]"}, id="outside-the-canon-text"),
        pytest.param("mine", "<b>1</b><a>2</a><b>3</b>", {"b": "3", "a": "2"}, id="last-of-repeated-ones"),
    ],
)
def test_parameters(tool: str, inside: str, expected: dict[str, object]) -> None:
    """AC 6"""
    args_text = json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    assert parse_use_tool(use(tool, inside)) == TextCall(tool, args_text)


def test_half_a_character_can_be_sent() -> None:
    assert parse_use_tool(use("mine", "<a>\ud83d</a>")) == TextCall("mine", r'{"a":"\ud83d"}')


def test_nesting_at_the_edge_of_the_stack() -> None:
    """What cannot be read stays text."""
    for depth in range(700, 1100):
        nested = "[" * depth + "]" * depth
        readings = (f'{{"a":{nested}}}', f'{{"a":"{nested}"}}')
        call = parse_use_tool(use("mine", f"<a>{nested}</a>"))
        assert call is None or call.arguments in readings


FRAGMENTS = [
    "<use_tool>",
    "<use_tool ",
    "</use_tool>",
    "<name>",
    "</name>",
    "<args>",
    "</args>",
    "<query>",
    "</query>",
    "localSearch",
    "<",
    ">",
    "&lt;",
    "&",
    '{"a":',
    "}",
    "[",
    "]",
    '"',
    "1e999",
    "\n",
    " ",
    "😀",
    "\ud83d",
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3)).map("".join)


# Neither a loaded machine nor hypothesis's first character table is a finding.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS | TEXTS.map(lambda text: use("localSearch", text)))
def test_no_text_raises(text: str) -> None:
    call = parse_use_tool(text)
    assert call is None or call.name


@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param("<a>", id="openers"),
        pytest.param("<a>1</a>", id="one-repeated"),
        pytest.param("<use_tool>", id="blocks-opened"),
        pytest.param("</use_tool>", id="blocks-closed"),
        pytest.param("<a>[</a>", id="broken-json"),
        pytest.param("&lt;", id="entities"),
        pytest.param("[", id="brackets"),
    ],
)
def test_time_grows_with_the_text_and_no_faster(fragment: str) -> None:
    def read(text: str) -> None:
        for inside in (text, f"<args>{text}</args>", f"<x>{text}</x>"):
            parse_use_tool(use("mine", inside))

    assert grows_linearly(read, fragment)
