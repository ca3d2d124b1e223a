"""Codex's raw items, as values."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.raw_items import (
    Answered,
    Called,
    Item,
    ItemDone,
    Said,
    SearchedWeb,
    Thought,
    read_raw_item,
)
from app.lib.errors import BackendRefused
from app.lib.events import SearchAction, SearchKind

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "18"}
SEARCH = {"type": "web_search_call", "id": "w", "action": {"type": "search", "queries": ["a", "b"]}}
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"text": "Hm."}, {}]}


def say(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": "m", "content": list(parts), **more}


def read(item: Any, **more: Any) -> ItemDone | None:
    return read_raw_item({"threadId": "t", "turnId": "turn", "item": item, **more})


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(say({"text": "a"}, {}, {"text": "b"}), Said("m", "ab"), id="words"),
        pytest.param(say({"text": "a"}, id=None), Said(None, "a"), id="words-of-a-message-without-id"),
        pytest.param(THOUGHT, Thought("r", ("Hm.", ""), None), id="thoughts"),
        pytest.param(THOUGHT | {"encrypted_content": "g"}, Thought("r", ("Hm.", ""), "g"), id="encrypted"),
        pytest.param(CALL, Called("c", "f", "{}"), id="a-call"),
        pytest.param(CALL | {"namespace": None}, Called("c", "f", "{}"), id="a-call-of-no-namespace"),
        pytest.param(CALL | {"namespace": "n"}, Called("c", None, "{}"), id="a-call-of-a-namespace"),
        pytest.param(OUTPUT, Answered("c"), id="a-result"),
        pytest.param(OUTPUT | {"call_id": ["c"]}, Answered(None), id="a-result-of-no-known-call"),
        pytest.param(
            SEARCH,
            SearchedWeb("w", SearchAction(SearchKind.SEARCH, queries=("a", "b"))),
            id="a-search",
        ),
        pytest.param({"type": "web_search_call"}, SearchedWeb(None, None), id="a-search-of-nothing"),
    ],
)
def test_items(item: dict[str, Any], expected: Item) -> None:
    assert read(item) == ItemDone("t", expected)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(say({"text": "a"}, role="user"), id="the-user-s-words"),
        pytest.param(say({"text": "a"}) | {"content": "a"}, id="words-in-no-parts"),
        pytest.param(THOUGHT | {"id": None}, id="thoughts-without-id"),
        pytest.param({"type": "some_future_item"}, id="a-kind-that-nobody-knows"),
        pytest.param({"type": ["message"]}, id="a-kind-that-is-no-text"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_tells_nothing(item: Any) -> None:
    assert read(item) is None


@pytest.mark.parametrize("item", [say({"text": "old"}), THOUGHT, CALL, OUTPUT, SEARCH])
def test_history_that_comes_back_is_nothing_new(item: dict[str, Any]) -> None:
    assert read(item, turnId="auto-compact-0") is None


@pytest.mark.parametrize("thread_id", [None, ["t"]])
def test_what_is_no_thread_s_is_nobody_s(thread_id: Any) -> None:
    assert read(CALL, threadId=thread_id) is None


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(say({"text": ["b"]}), id="words"),
        pytest.param(say(None), id="a-part-of-a-message"),
        pytest.param(THOUGHT | {"summary": [{"text": 1}]}, id="thoughts"),
        pytest.param(THOUGHT | {"encrypted_content": {}}, id="encrypted-thoughts"),
        pytest.param({key: CALL[key] for key in ("type", "call_id", "name")}, id="a-call-without-arguments"),
        pytest.param(CALL | {"call_id": 1}, id="the-id-of-a-call"),
        pytest.param(CALL | {"name": None}, id="a-tool-s-name"),
    ],
)
def test_an_unknown_shape_is_no_answer_with_holes(item: dict[str, Any]) -> None:
    with pytest.raises(BackendRefused, match=r"^Codex sent rawResponseItem/completed in an unknown shape\.$"):
        read(item)
