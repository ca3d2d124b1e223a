"""/ui/…: what the first page shows, and what it can do for the account."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from typing import Any, assert_never

import flask
import orjson

from app.handlers.access import Access
from app.handlers.archive import ask_lightly
from app.handlers.auth import require_admin, require_operator
from app.handlers.keyring import Keyring
from app.handlers.lifecycle import Stores
from app.handlers.live import LiveFeed
from app.handlers.stream import SSE_HEADERS
from app.lib.account import Account, LoginCode, LoginDone, LoginFailed, LoginStep
from app.lib.errors import NotFound
from app.lib.keys import AccessKey, Role
from app.lib.sse import KEEPALIVE, encode_data
from app.pipeline import Backend, Client
from app.settings import Settings
from app.store.usage import UsageStore

#: What a page is told is for its eyes, and once.
STREAM_HEADERS = SSE_HEADERS | {"cache-control": "no-store, no-transform"}
VERSION = importlib.metadata.version("codex-gateway")
#: Of the seconds a person takes to log in, those without a word that a proxy may take for a dead server.
TICKS_OF_SILENCE = 10

Body = dict[str, Any]


class Panel:
    def __init__(self, settings: Settings, backend: Backend, usage: UsageStore) -> None:
        self._settings = settings
        self._backend = backend
        self._usage = usage

    def describe(self, key: AccessKey, client: Client) -> Body:
        is_admin = key.role is Role.ADMIN
        account = self._backend.account(client)
        return {
            "version": VERSION,
            "is_open": self._settings.is_open,
            "role": key.role.value,
            "may_log_in": is_admin,
            "codex": {"version": self._backend.codex_version(), "is_ready": self._backend.is_ready()},
            "account": build_account(account, is_admin),
            "limits": self._find_limits(client),
            "demo": self._settings.demo,
            "default_output_mode": self._settings.output_mode.value,
            "logs_bodies": is_admin and self._settings.shows_bodies,
        }

    def _find_limits(self, client: Client) -> Body | None:
        """As codex tells them now, or told them last."""
        asked = self._backend.account_limits(client)
        if asked is not None:
            return {"told_at": int(time.time()), **asked.to_dict()}
        told = ask_lightly(self._usage.read_limits)
        return {"told_at": int(told[0]), **told[1].to_dict()} if told else None

    def log_in(self, access: Access) -> flask.Response:
        steps = self._backend.log_in(access.client)
        access.on_close(steps.close)
        # What goes wrong before there is a code has a status of its own.
        first = next(step for step in steps if step is not None)
        return flask.Response(tell(first, steps), headers=STREAM_HEADERS)

    def log_out(self, access: Access) -> Body:
        self._backend.log_out(access.client)
        return {"account": build_account(self._backend.account(access.client), is_admin=True)}


def build_blueprint(
    settings: Settings, backend: Backend, keyring: Keyring, stores: Stores, feed: LiveFeed
) -> flask.Blueprint:
    blueprint = flask.Blueprint("panel", __name__, url_prefix="/ui")
    panel = Panel(settings, backend, stores.usage)

    @blueprint.get("/status")
    def show_status() -> flask.Response:
        access: Access = flask.g.access
        return reply(panel.describe(access.key, access.client))

    @blueprint.post("/login")
    def log_in() -> flask.Response:
        require_operator(flask.request, flask.g.access, keyring)
        return panel.log_in(flask.g.access)

    @blueprint.post("/logout")
    def log_out() -> flask.Response:
        require_operator(flask.request, flask.g.access, keyring)
        return reply(panel.log_out(flask.g.access))

    @blueprint.get("/live")
    def watch() -> flask.Response:
        require_admin(flask.g.access)
        feed.check_room()
        return flask.Response(feed.watch(flask.g.access.client), headers=STREAM_HEADERS)

    @blueprint.get("/requests/<request_id>")
    def show_exchange(request_id: str) -> flask.Response:
        require_admin(flask.g.access)
        found = stores.exchanges.read(request_id)
        if found is None:
            raise NotFound("Nothing is kept of this request (PROXY_LOG_BODIES).", code="request_not_kept")
        pieces, is_cut = found
        return reply({"request_id": request_id, "pieces": pieces, "is_cut": is_cut})

    return blueprint


def reply(body: Body) -> flask.Response:
    """Never logged: it may show what was, and be as long."""
    headers = {"cache-control": "no-store"}
    return flask.Response(orjson.dumps(body), headers=headers, mimetype="application/json")


def build_account(account: Account, is_admin: bool) -> Body:
    return {
        "state": account.state.value,
        "kind": account.kind,
        "plan": account.plan,
        "email": account.email if is_admin else None,
    }


def tell(first: LoginStep, steps: Iterator[LoginStep | None]) -> Iterator[bytes]:
    yield encode_step(first)
    silence = 0
    for step in steps:
        silence = 0 if step else silence + 1
        if step:
            yield encode_step(step)
        elif silence % TICKS_OF_SILENCE == 0:
            yield KEEPALIVE


def encode_step(step: LoginStep) -> bytes:
    match step:
        case LoginCode(url, code):
            return encode_data({"type": "code", "verification_url": url, "user_code": code})
        case LoginDone():
            return encode_data({"type": "done"})
        case LoginFailed(message):
            return encode_data({"type": "failed", "message": message})
        case _:
            assert_never(step)
