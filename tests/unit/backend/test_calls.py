"""What the gateway asks of codex."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.backend import calls

TOOL = {"type": "function", "name": "f", "description": "D.", "inputSchema": {}}


@pytest.mark.parametrize(
    ("tools", "expected"),
    [pytest.param([], {}, id="none"), pytest.param([TOOL], {"dynamicTools": [TOOL]}, id="one")],
)
def test_the_tools_of_a_thread(tools: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    bare = calls.start_thread("m", "/w")
    assert calls.start_thread("m", "/w", tools) == ("thread/start", bare[1] | expected)
    assert "dynamicTools" not in bare[1]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(calls.start_turn("t", None), {"summary": "auto"}, id="plain"),
        pytest.param(calls.start_turn("t", "low"), {"summary": "auto", "effort": "low"}, id="effort"),
        pytest.param(
            calls.start_turn("t", None, "none", {}), {"summary": "none", "outputSchema": {}}, id="a-schema"
        ),
    ],
)
def test_start_turn(call: calls.Call, expected: dict[str, Any]) -> None:
    assert call == ("turn/start", {"threadId": "t", "input": [], "environments": []} | expected)


RAW = "rawResponseItem/completed"


def encode(method: str, **params: Any) -> bytes:
    return orjson.dumps({"method": method, "params": {"threadId": "0" * 36, **params}})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            encode(RAW, turnId="auto-compact-0", item={"type": "message"}),
            True,
            id="echo",
        ),
        pytest.param(encode(RAW, turnId="t", item={}), False, id="an-item"),
        pytest.param(
            encode("item/tool/call", turnId="t", callId="c", arguments={"turnId": "auto-compact-0"}),
            False,
            id="a-question-that-looks-like-one",
        ),
        pytest.param(
            encode(RAW, turnId="t", item={"text": "x" * 200, "turnId": "auto-compact"}),
            False,
            id="further-on",
        ),
    ],
)
def test_is_echo(line: bytes, expected: bool) -> None:
    assert calls.is_echo(line) is expected
