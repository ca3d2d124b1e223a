"""The gateway as a Flask application; the only place that wires its parts."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import flask

from app.backend.codex import CodexBackend
from app.handlers import access, auth, chat, cors, health, http, logs, models, responses, stored_responses
from app.handlers.background import Background
from app.handlers.lifecycle import Lifecycle
from app.handlers.tool_buffers import ToolBufferCounters
from app.handlers.tool_counters import ToolCounters
from app.lib.block_rows import TextPattern
from app.lib.events import Placed
from app.pipeline import Backend
from app.settings import Settings
from app.store.limits import Limits
from app.store.responses import ResponseStore

DAY_S = 24 * 3600


class Gateway(flask.Flask):
    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """No view or hook here is a coroutine; asking each of them, every time, is a cost of its own."""
        return func


def create_app(
    settings: Settings, backend: Backend | None = None, text_patterns: Sequence[TextPattern] = ()
) -> flask.Flask:
    """Build the application; the backend's processes start with `backend.start`, not here.

    `text_patterns` are further spellings of tool calls in text, known to every request.
    """
    logs.configure(settings.log_level)
    app = Gateway(__name__, static_folder=None)
    app.url_map.merge_slashes = False  # a JSON 404 instead of a redirect
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    served = app.extensions["backend"] = backend or CodexBackend(settings)
    buffers = app.extensions["tool_buffers"] = ToolBufferCounters()
    tools = app.extensions["tool_counters"] = ToolCounters()
    placements = app.extensions["placements"] = collections.Counter[Placed]()
    store = app.extensions["responses"] = ResponseStore(
        settings.state_dir / "responses",
        Limits(settings.response_ttl_days * DAY_S, settings.response_store_bytes),
    )
    background = app.extensions["background"] = Background(settings.max_background)
    app.extensions["lifecycle"] = Lifecycle(served, store, background)
    sharing = cors.Cors(settings.allowed_origins)

    app.before_request(access.build_begin(settings, access.Counters(buffers, tools, placements)))
    http.register(app)
    app.before_request(sharing.answer_preflight)
    app.before_request(auth.build_check(settings.api_keys))
    # After-request functions run last to first: the log line is written about the finished reply.
    app.after_request(access.finish)
    app.after_request(sharing.add_headers)

    app.register_blueprint(chat.build_blueprint(served, settings, text_patterns))
    app.register_blueprint(responses.build_blueprint(served, settings, store, background))
    app.register_blueprint(stored_responses.build_blueprint(settings, store))
    app.register_blueprint(models.build_blueprint(served))
    app.register_blueprint(health.build_blueprint(served))
    return app
