"""GET /metrics: what Prometheus asks for, over all workers."""

from __future__ import annotations

import flask
from prometheus_client import CONTENT_TYPE_LATEST

from app.handlers.auth import identify, require_admin
from app.handlers.guard import is_local
from app.handlers.keyring import Keyring
from app.handlers.telemetry import Telemetry


def build_blueprint(telemetry: Telemetry, keyring: Keyring) -> flask.Blueprint:
    blueprint = flask.Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def show() -> flask.Response:
        if not is_local(flask.request):  # Prometheus on this machine needs no key
            flask.g.access.welcome(identify(flask.request, keyring))
            require_admin(flask.g.access)
        telemetry.sample()
        return flask.Response(telemetry.meters.render(), content_type=CONTENT_TYPE_LATEST)

    return blueprint
