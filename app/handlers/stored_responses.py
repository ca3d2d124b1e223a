"""What became of a response: /v1/responses/{id}, its input, its end."""

from __future__ import annotations

import time
from typing import Any

import flask

from app.handlers.archive import Archive
from app.handlers.http import json_response
from app.handlers.query import read_flag, read_number
from app.handlers.reattach import Follower
from app.handlers.stream import UNKEPT_HEADERS, build_stream
from app.lib.dialects.response_body import Body, hide_encrypted, hide_in_item
from app.lib.errors import InvalidRequest, NotFound
from app.schemas.responses import ENCRYPTED
from app.settings import Settings
from app.store.responses import ResponseStore

# How long a cancelled response may take to end before its client is told that it still runs.
CANCEL_TIMEOUT_S = 5.0
CANCEL_PERIOD_S = 0.05
MAX_LIMIT = 100


def build_blueprint(settings: Settings, store: ResponseStore) -> flask.Blueprint:
    blueprint = flask.Blueprint("stored_responses", __name__)
    endpoint = StoredResponses(settings, store)
    one = "/v1/responses/<response_id>"
    blueprint.add_url_rule(one, view_func=endpoint.get, methods=["GET"])
    blueprint.add_url_rule(one, view_func=endpoint.delete, methods=["DELETE"])
    blueprint.add_url_rule("/v1/responses/<action>", view_func=refuse_action, methods=["POST"])
    blueprint.add_url_rule(f"{one}/input_items", view_func=endpoint.list_input, methods=["GET"])
    blueprint.add_url_rule(f"{one}/cancel", view_func=endpoint.cancel, methods=["POST"])
    return blueprint


class StoredResponses:
    def __init__(self, settings: Settings, store: ResponseStore) -> None:
        self._settings = settings
        self._store = store

    def get(self, response_id: str) -> flask.Response:
        archive = self._open()
        if not read_flag("stream"):
            return json_response(show(archive.get(response_id)))
        if not archive.get_standing(response_id).is_background:
            raise InvalidRequest("Only a background response can be streamed again.", param="stream")
        flask.g.allowance.enter(flask.g.access)
        follower = Follower(archive, response_id, flask.g.access.client, self._settings)
        return build_stream(follower.frames(read_number("starting_after", -1)), UNKEPT_HEADERS)

    def delete(self, response_id: str) -> flask.Response:
        self._open().delete(response_id)
        return json_response({"id": response_id, "object": "response.deleted", "deleted": True})

    def list_input(self, response_id: str) -> flask.Response:
        items = self._open().read_input(response_id)
        shown = items if asks_for_encrypted() else [hide_in_item(item) for item in items]
        return json_response(build_page(shown))

    def cancel(self, response_id: str) -> flask.Response:
        archive = self._open()
        standing = archive.get_standing(response_id)
        if not standing.is_over and not standing.is_background:
            raise InvalidRequest("Only a background response can be cancelled; end the others by leaving.")
        return json_response(show(cancel_response(archive, response_id)))

    def _open(self) -> Archive:
        return Archive(self._store, flask.g.access.owner)


def refuse_action(action: str) -> flask.Response:
    """What OpenAI serves beside the responses (`compact`, `input_tokens`) does not read like an id."""
    raise NotFound(f"No such route: POST /v1/responses/{action}")


def cancel_response(archive: Archive, response_id: str) -> Body:
    """Have whichever worker runs it end it; its state then, or after a while."""
    deadline_s = time.monotonic() + CANCEL_TIMEOUT_S
    archive.ask_cancel(response_id)
    while not archive.get_standing(response_id).is_over and time.monotonic() < deadline_s:
        time.sleep(CANCEL_PERIOD_S)
    return archive.get(response_id)


def show(body: Body) -> Body:
    return body if asks_for_encrypted() else hide_encrypted(body)


def asks_for_encrypted() -> bool:
    """SDKs spell a list either way."""
    arguments = flask.request.args
    return ENCRYPTED in (*arguments.getlist("include"), *arguments.getlist("include[]"))


def build_page(items: list[Body]) -> dict[str, Any]:
    """A part of a list, newest first unless asked otherwise."""
    order = flask.request.args.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order: Must be one of: asc, desc.", param="order")
    limit = read_number("limit", 20)
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidRequest(f"limit: Must be 1 to {MAX_LIMIT}.", param="limit")
    behind = cut_before(items if order == "asc" else items[::-1], flask.request.args.get("after"))
    page = behind[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(behind) > len(page),
    }


def cut_before(items: list[Body], after: str | None) -> list[Body]:
    if after is None:
        return items
    for place, item in enumerate(items):
        if item["id"] == after:
            return items[place + 1 :]
    raise InvalidRequest(f"after: No item has the id '{after}'.", param="after")
