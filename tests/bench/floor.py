"""The floor: a bare Flask app that yields the same bytes on the same gunicorn, one write a frame."""

import functools
import time
from collections.abc import Iterator
from typing import Any

import flask
import orjson

from app.handlers.stream import SSE_HEADERS
from app.lib.dialects.chat import ChatIdentity, ChatStream, build_completion
from app.lib.events import Completed, Finished, FinishReason, Text
from app.lib.result import ChoiceResult, TurnResult
from app.lib.usage import Usage
from tests.bench.load import DELTA

IDENTITY = ChatIdentity("chatcmpl-0123456789abcdef01234567", 1_700_000_000, "gpt-5.5")
USAGE = Usage(120, 100, 20, 5)


class NoLifecycle:
    """What config/gunicorn.conf.py starts and stops."""

    def start(self) -> None: ...
    def drain(self, deadline_s: float) -> None: ...
    def close(self) -> None: ...


class NoTelemetry:
    """What it has of requests that are none."""

    def account(self, fields: dict[str, Any]) -> None: ...


@functools.cache
def build_frames(deltas: int) -> list[bytes]:
    stream = ChatStream(IDENTITY)
    said = [stream.feed([Text(0, "", DELTA)])] * deltas
    finished = stream.feed([Finished(0, FinishReason.STOP)])
    return [stream.open(), *said, finished, stream.feed([Completed(USAGE)])]


def build_body() -> bytes:
    result = TurnResult((ChoiceResult(DELTA, (), FinishReason.STOP),), USAGE)
    return orjson.dumps(build_completion(IDENTITY, result))


def create_app() -> flask.Flask:
    app = flask.Flask(__name__, static_folder=None)
    app.extensions |= {"lifecycle": NoLifecycle(), "telemetry": NoTelemetry()}
    body = build_body()

    def generate(deltas: int, pause_s: float) -> Iterator[bytes]:
        for frame in build_frames(deltas):
            if pause_s:
                time.sleep(pause_s)
            yield frame

    @app.post("/stream/<int:deltas>/<float:pause_s>")
    def stream(deltas: int, pause_s: float) -> flask.Response:
        return flask.Response(generate(deltas, pause_s), headers=SSE_HEADERS)

    @app.post("/body")
    def whole() -> flask.Response:
        return flask.Response(body, mimetype="application/json")

    return app


app = create_app()
