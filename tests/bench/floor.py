"""The floor: a bare Flask app that yields the same bytes on the same gunicorn, one write a frame."""

import time
import zlib
from collections.abc import Iterator
from typing import Any

import flask

from app.handlers.stream import SSE_HEADERS

FRAME_END = b"\n\n"


class NoLifecycle:
    """What config/gunicorn.conf.py starts and stops."""

    def start(self) -> None: ...
    def drain(self, deadline_s: float) -> None: ...
    def close(self) -> None: ...


class NoTelemetry:
    """What it has of requests that are none."""

    def account(self, fields: dict[str, Any]) -> None: ...


def cut_frames(stream: bytes) -> list[bytes]:
    return [frame + FRAME_END for frame in stream.split(FRAME_END) if frame]


def create_app() -> flask.Flask:
    app = flask.Flask(__name__, static_folder=None)
    app.extensions |= {"lifecycle": NoLifecycle(), "telemetry": NoTelemetry()}
    #: What to answer, by its name.
    bodies: dict[str, bytes] = {}
    streams: dict[str, list[bytes]] = {}

    def generate(frames: list[bytes], pause_s: float) -> Iterator[bytes]:
        for frame in frames:
            if pause_s:
                time.sleep(pause_s)
            yield frame

    @app.post("/learn")
    def learn() -> str:
        """Keep an answer of the gateway's; its name."""
        answer = flask.request.get_data()
        name = str(zlib.crc32(answer))
        bodies[name], streams[name] = answer, cut_frames(answer)
        return name

    @app.post("/stream/<name>/<float:pause_s>")
    def stream(name: str, pause_s: float) -> flask.Response:
        return flask.Response(generate(streams[name], pause_s), headers=SSE_HEADERS)

    @app.post("/body/<name>")
    def whole(name: str) -> flask.Response:
        return flask.Response(bodies[name], mimetype="application/json")

    return app


app = create_app()
