"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import Any

import flask

from app.handlers.http import json_response
from app.lib.models import Model, find_model
from app.pipeline import Backend


def build_blueprint(backend: Backend) -> flask.Blueprint:
    blueprint = flask.Blueprint("models", __name__)

    def list_models() -> tuple[Model, ...]:
        return backend.models(flask.g.access.client)

    @blueprint.get("/v1/models")
    def get_all() -> flask.Response:
        return json_response({"object": "list", "data": [build_model(model) for model in list_models()]})

    @blueprint.get("/v1/models/<path:model_id>")
    def get_one(model_id: str) -> flask.Response:
        return json_response(build_model(find_model(list_models(), model_id)))

    return blueprint


def build_model(model: Model) -> dict[str, Any]:
    # Codex does not date its models; clients want the key.
    return {"id": model.id, "object": "model", "created": 0, "owned_by": model.owned_by}
