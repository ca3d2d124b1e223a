"""Lines cut from bytes, messages read from lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.backend.jsonrpc import (
    ErrorResponse,
    LineReader,
    LineTooLong,
    Message,
    Notification,
    Response,
    ServerRequest,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse_message,
)
from tests.support.cuts import every_cut


def read_lines(parts: list[bytes], max_bytes: int = 1000) -> list[bytes]:
    reader = LineReader(max_bytes)
    return [line for part in parts for line in reader.feed(part)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"one\n", [b"one"], id="one-line"),
        pytest.param(b"one\ntwo\nthree\n", [b"one", b"two", b"three"], id="three-lines"),
        pytest.param(b"one\ntwo", [b"one"], id="the-unfinished-waits"),
        pytest.param(b"\n\none\n \r\n\ntwo\n", [b"one", b"two"], id="blank-lines"),
        pytest.param("é\n字🙂\n".encode(), ["é".encode(), "字🙂".encode()], id="cut-inside-a-character"),
        pytest.param(b"one\r\n", [b"one\r"], id="a-carriage-return-is-white-space-to-json"),
    ],
)
def test_lines_for_every_cut(data: bytes, expected: list[bytes]) -> None:
    got = [read_lines(cut) for cut in every_cut(data)]
    assert got == [expected] * len(got)


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_lines_do_not_depend_on_the_cuts(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert read_lines(parts) == [line for line in whole.split(b"\n")[:-1] if line.strip()]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"12345678\n", id="exactly-the-bound"),
        pytest.param(b"12345678\n12345678\n1234", id="the-bound-is-a-line's-not-a-read's"),
        pytest.param(b"1234\n" * 100, id="many-lines"),
    ],
)
def test_lines_within_the_bound(data: bytes) -> None:
    assert [read_lines(cut, 8) for cut in every_cut(data)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"123456789", id="unfinished"),
        pytest.param(b"123456789\n", id="finished"),
        pytest.param(b"ok\n123456789\nok\n", id="in-the-middle"),
        pytest.param(b"         ", id="blank"),
    ],
)
def test_lines_past_the_bound(data: bytes) -> None:
    for cut in every_cut(data):
        with pytest.raises(LineTooLong):
            read_lines(cut, 8)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param('{"id":0,"result":{"a":1}}', Response(0, {"a": 1}), id="response-zero"),
        pytest.param('{"id":7,"result":null}', Response(7, {}), id="null-result"),
        pytest.param('{"id":7,"result":[1]}', Response(7, {}), id="a-result-that-is-no-object"),
        pytest.param(
            '{"id":1,"error":{"code":-32600,"message":"no","data":{}}}',
            ErrorResponse(1, -32600, "no"),
            id="error",
        ),
        pytest.param(
            '{"id":0,"method":"item/tool/call","params":{"tool":"t"}}',
            ServerRequest(0, "item/tool/call", {"tool": "t"}),
            id="codex-asks-from-zero",
        ),
        pytest.param(
            '{"id":3,"method":"m","params":{"arguments":{"x":1e999}}}',
            ServerRequest(3, "m", {"arguments": {"x": float("inf")}}),
            id="a-number-past-any-float",
        ),
        pytest.param(
            '{"id":3,"method":"m","params":{"x":%s}}' % ("1" * 5000),
            ServerRequest(3, "m", {"x": float("inf")}),
            id="a-number-of-many-digits",
        ),
        pytest.param('{"id":"x","method":"m"}', ServerRequest("x", "m", {}), id="request-with-a-text-id"),
        pytest.param(
            '{"id":1,"method":"m","params":{},"result":{}}', ServerRequest(1, "m", {}), id="method-decides"
        ),
        pytest.param('{"method":"m","params":{"a":1}}', Notification("m", {"a": 1}), id="notification"),
        pytest.param('{"method":"m"}', Notification("m", {}), id="no-params"),
        pytest.param('{"method":"m","params":null}', Notification("m", {}), id="null-params"),
        pytest.param(
            '{"method":"m","params":{},"emittedAtMs":1}', Notification("m", {}), id="extra-keys-are-left"
        ),
        pytest.param('{"method":"m","params":[1]}', None, id="params-that-are-no-object"),
        pytest.param('{"method":1,"params":{}}', None, id="a-method-that-is-no-text"),
        pytest.param('{"id":"1","result":{}}', None, id="we-never-send-text-ids"),
        pytest.param('{"id":1,"error":{"message":"no"}}', None, id="an-error-without-code"),
        pytest.param('{"id":1,"error":"no"}', None, id="an-error-that-is-no-object"),
        pytest.param('{"id":1}', None, id="an-id-alone"),
        pytest.param("{}", None, id="empty-object"),
        pytest.param("[]", None, id="a-list"),
        pytest.param("null", None, id="null"),
        pytest.param('"text"', None, id="text"),
        pytest.param("thread 'main' panicked", None, id="not-json"),
        pytest.param('{"id":1,"result":', None, id="half-a-line"),
        pytest.param('{"method":"m","params":{"t":"\\ud83d"}}', None, id="a-lone-surrogate"),
    ],
)
def test_parse_message(line: str, expected: Message | None) -> None:
    assert parse_message(line.encode()) == expected


def test_parse_invalid_utf8() -> None:
    assert parse_message(b'{"method":"\xff"}') is None


@given(st.binary(max_size=40) | st.text(alphabet='{}[]":,idmethorsul0 ').map(str.encode))
def test_garbage_never_raises(line: bytes) -> None:
    assert isinstance(parse_message(line), Message | None)


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        pytest.param(
            encode_request(1, "turn/start", {"text": "a\nb"}),
            {"id": 1, "method": "turn/start", "params": {"text": "a\nb"}},
            id="request",
        ),
        pytest.param(encode_notification("initialized"), {"method": "initialized"}, id="notification"),
        pytest.param(encode_result(0, {"a": 1}), {"id": 0, "result": {"a": 1}}, id="result"),
        pytest.param(
            encode_error("x", "no"), {"id": "x", "error": {"code": -32601, "message": "no"}}, id="error"
        ),
    ],
)
def test_encoded_messages_are_one_line(encoded: bytes, expected: dict[str, Any]) -> None:
    assert (json.loads(encoded), encoded.index(b"\n")) == (expected, len(encoded) - 1)
