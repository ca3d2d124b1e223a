"""The gateway as a Flask application; the only place that wires its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flask
from werkzeug.routing import MapAdapter

from app.backend.codex import CodexBackend
from app.handlers import (
    chat,
    health,
    http,
    logs,
    metrics,
    models,
    pages,
    panel,
    responses,
    stored_responses,
    testing,
    usage,
)
from app.handlers.allowances import Allowances
from app.handlers.background import Background
from app.handlers.bodies import Bodies
from app.handlers.clock import Clock
from app.handlers.door import Door
from app.handlers.keyring import Keyring
from app.handlers.lifecycle import Company, Lifecycle
from app.handlers.live import NEWEST, LiveFeed
from app.handlers.meters import Meters
from app.handlers.recorder import UsageRecorder
from app.handlers.slow_bodies import SlowBodies
from app.handlers.stores import Stores
from app.handlers.telemetry import Telemetry
from app.lib.block_rows import TextPattern
from app.pipeline import Backend
from app.settings import Settings
from app.store.exchanges import Exchanges
from app.store.limits import Limits
from app.store.responses import ResponseStore
from app.store.usage import DAY_S, UsageStore

#: Where gunicorn's workers share what they count (config/gunicorn.conf.py).
SHARED_METERS = "PROMETHEUS_MULTIPROC_DIR"


class Gateway(flask.Flask):
    response_class = http.Reply

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """No view or hook here is a coroutine; asking each of them, every time, is a cost of its own."""
        return func

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """Routes by the path alone; flask would first spell the request's host as DNS does, for each."""
        if request is None:
            return None
        place, method = (request.host, request.root_path, "", request.scheme), request.method
        return MapAdapter(self.url_map, *place, request.path, method)


def create_app(
    settings: Settings, backend: Backend | None = None, text_patterns: Sequence[TextPattern] = ()
) -> flask.Flask:
    """Build the application; the backend's processes start with `backend.start`, not here.

    `text_patterns` are further spellings of tool calls in text, known to every request.
    """
    app = build_flask(settings)
    served = app.extensions["backend"] = backend or CodexBackend(settings)
    stores = open_stores(settings)
    logs.configure(settings, stores.exchanges)
    recorder = UsageRecorder(stores.usage)
    redactor = logs.build_redactor(settings)
    telemetry = Telemetry(served, recorder, Meters(settings.environ.get(SHARED_METERS)), redactor)
    company = build_company(settings, stores, recorder, telemetry)
    app.extensions |= {
        "redactor": redactor,
        "telemetry": telemetry,
        "tool_buffers": telemetry.buffers,
        "bodies": Bodies(app.config, company.bodies),
        "background": company.background,
        "responses": stores.responses,
        "lifecycle": Lifecycle(served, stores, company),
    }

    keyring = Keyring(settings)
    Door(settings, telemetry, keyring, Allowances(settings)).guard(app)
    app.register_blueprint(chat.build_blueprint(served, settings, text_patterns))
    app.register_blueprint(responses.build_blueprint(served, settings, stores.responses, company.background))
    app.register_blueprint(stored_responses.build_blueprint(settings, stores.responses))
    app.register_blueprint(models.build_blueprint(served))
    app.register_blueprint(usage.build_blueprint(stores.usage, recorder))
    app.register_blueprint(metrics.build_blueprint(telemetry, keyring))
    app.register_blueprint(health.build_blueprint(served))
    if settings.serves_page:
        app.register_blueprint(pages.build_blueprint(settings))
        app.register_blueprint(panel.build_blueprint(settings, served, keyring, stores, company.feed))
    if settings.serves_test_endpoints:
        app.register_blueprint(testing.build_blueprint(telemetry.buffers))
    return app


def build_flask(settings: Settings) -> flask.Flask:
    app = Gateway(__name__, static_folder=None)
    app.url_map.merge_slashes = False  # a JSON 404 instead of a redirect
    app.config.update(MAX_CONTENT_LENGTH=settings.max_body_bytes, MAX_JSON_DEPTH=settings.max_json_depth)
    http.register(app)
    return app


def build_company(
    settings: Settings, stores: Stores, recorder: UsageRecorder, telemetry: Telemetry
) -> Company:
    bodies = SlowBodies(settings.socket_timeout_s)
    feed = LiveFeed(telemetry.meters, stores.usage)
    # What may wait for a disk has a clock of its own.
    shown = [feed.tick] if settings.serves_page else []
    clocks = Clock([bodies.end_late, telemetry.sample]), Clock([*shown, stores.exchanges.prune])
    return Company(Background(settings.max_background), recorder, bodies, feed, clocks)


def open_stores(settings: Settings) -> Stores:
    limits = Limits(settings.response_ttl_days * DAY_S, settings.response_store_bytes)
    return Stores(
        ResponseStore(settings.state_dir / "responses", limits),
        UsageStore(settings.state_dir / "usage", settings.usage_days, settings.usage_entries),
        Exchanges(settings.state_dir / "exchanges", NEWEST if settings.shows_bodies else 0),
    )
