"""JSON-RPC as codex speaks it: one JSON object a line, without the `jsonrpc` field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Response:
    id: int
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    id: int
    code: int
    message: str


# Not frozen: one is made for each word of the model, and that would be two thirds of what it costs.
@dataclass(slots=True)
class Notification:
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request from codex; one left unanswered hangs the turn."""

    id: int | str
    method: str
    params: dict[str, Any]


Message = Response | ErrorResponse | Notification | ServerRequest


class LineTooLong(Exception):
    """More bytes without a line end than the reader may hold."""


class LineReader:
    """Cuts a byte stream into lines; holds at most one unfinished line of `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Pieces, joined once: a 50 MB line comes in 800 reads.
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self._held_bytes = [], 0
        self._pieces.append(rest)
        self._held_bytes += len(rest)
        if max([self._held_bytes, *map(len, lines)]) > self._max_bytes:
            raise LineTooLong
        return [*filter(bytes.strip, lines)]


def parse_message(line: bytes) -> Message | None:
    """Read one line; `None` when it is no message of the protocol."""
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError:
        raw = _load_slowly(line)
    if not isinstance(raw, dict):
        return None
    # Codex counts its own request ids from 0 like anyone: only `method` tells the two apart.
    method = raw.get("method")
    return _parse_call(raw, method) if isinstance(method, str) else _parse_response(raw)


def _load_slowly(line: bytes) -> Any:
    """A call's arguments may hold 1e999: codex passes it on, and the quick parser stops there."""
    try:
        raw = json.loads(line, parse_int=_read_integer)
        orjson.dumps(raw)  # half a character, which codex never sends, is still no message
    except (ValueError, TypeError, RecursionError):
        return None
    return raw


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _parse_call(raw: dict[str, Any], method: str) -> Message | None:
    params = raw.get("params") or {}
    if not isinstance(params, dict):
        return None
    return ServerRequest(raw["id"], method, params) if "id" in raw else Notification(method, params)


def _parse_response(raw: dict[str, Any]) -> Message | None:
    id_, result = raw.get("id"), raw.get("result")
    if type(id_) is not int:  # `true` is one, too
        return None
    if isinstance(result, dict):
        return Response(id_, result)
    match raw:
        case {"error": {"code": int(code), "message": str(message)}}:
            return ErrorResponse(id_, code, message)
        case {"result": _}:
            return Response(id_, {})
        case _:
            return None


def encode_request(id_: int, method: str, params: dict[str, Any]) -> bytes:
    return _encode({"id": id_, "method": method, "params": params})


def encode_notification(method: str) -> bytes:
    return _encode({"method": method})


def encode_result(id_: int | str, result: dict[str, Any]) -> bytes:
    return _encode({"id": id_, "result": result})


def encode_error(id_: int | str, message: str) -> bytes:
    return _encode({"id": id_, "error": {"code": -32601, "message": message}})


def _encode(payload: dict[str, Any]) -> bytes:
    return orjson.dumps(payload) + b"\n"
