"""Health for supervisors and load balancers, which have no key."""

from __future__ import annotations

import flask

from app.handlers.http import json_response
from app.pipeline import Backend


def build_blueprint(backend: Backend) -> flask.Blueprint:
    blueprint = flask.Blueprint("health", __name__)

    @blueprint.get("/livez")
    def live() -> flask.Response:
        return json_response({"status": "ok"})

    @blueprint.get("/readyz")
    def ready() -> flask.Response:
        is_ready = backend.is_ready()
        return json_response({"status": "ok" if is_ready else "starting"}, 200 if is_ready else 503)

    @blueprint.get("/healthz")
    def health() -> flask.Response:
        return json_response({"status": "ok", "ready": backend.is_ready()})

    return blueprint
