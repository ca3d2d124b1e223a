"""What only tests ask for, and only where the operator lets them: a worker's own counts, and their reset."""

from __future__ import annotations

import dataclasses

import flask

from app.handlers.http import json_response
from app.handlers.tool_buffers import ToolBufferCounters


def build_blueprint(buffers: ToolBufferCounters) -> flask.Blueprint:
    blueprint = flask.Blueprint("testing", __name__)

    @blueprint.get("/__test/tool-buffer-metrics")
    def show() -> flask.Response:
        events = [{**dataclasses.asdict(event), "count": count} for event, count in buffers.read().items()]
        return json_response({**buffers.totals(), "events": events})

    @blueprint.post("/__test/tool-buffer-metrics/reset")
    def reset() -> flask.Response:
        buffers.reset()
        return json_response(buffers.totals())

    return blueprint
