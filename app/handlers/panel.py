"""/ui/…: what the first page shows, and what it can do for the account."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, assert_never

import flask
import orjson

from app.handlers.access import Access
from app.handlers.auth import require_admin, require_operator
from app.handlers.client import limit_unsent
from app.handlers.guest import Guest
from app.handlers.keyring import Keyring
from app.handlers.live import LiveFeed
from app.handlers.stores import Stores, ask_lightly
from app.handlers.stream import UNKEPT_HEADERS, keep_alive
from app.lib.account import Account, AccountReport, LoginCode, LoginDone, LoginFailed, LoginStep
from app.lib.account_limits import describe_limits
from app.lib.errors import NotFound
from app.lib.keys import Role
from app.lib.models import EFFORTS
from app.lib.output_mode import OutputMode
from app.lib.sse import encode_data
from app.pipeline import Backend, Client
from app.settings import Settings
from app.version import VERSION

#: What a watcher may leave unread in the kernel: some seconds of it.
UNSENT_BYTES = 8 * 1024

Body = dict[str, Any]


class Panel:
    def __init__(
        self, settings: Settings, backend: Backend, keyring: Keyring, stores: Stores, feed: LiveFeed
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._keyring = keyring
        self._stores = stores
        self._feed = feed

    def describe(self, access: Access) -> Body:
        is_admin = access.key.role is Role.ADMIN
        told = self._backend.account(access.client)
        return {
            "version": VERSION,
            "is_open": self._settings.is_open,
            "role": access.key.role.value,
            "may_log_in": is_admin,
            "codex": {"version": self._backend.codex_version(), "is_ready": self._backend.is_ready()},
            "account": build_account(told.account, is_admin),
            "limits": self._find_limits(told),
            "demo": self._settings.demo,
            "efforts": EFFORTS,
            "output_modes": [*OutputMode],
            "logs_bodies": is_admin and self._settings.shows_bodies,
        }

    def _find_limits(self, report: AccountReport) -> Body | None:
        """As codex told them of this login, or what any answer told last; none of an account without."""
        if report.limits is not None and report.told_at_s is not None:
            return describe_limits(report.told_at_s, report.limits)
        told = ask_lightly(self._stores.usage.read_limits) if report.account.has_limits else None
        return describe_limits(*told) if told else None

    def log_in(self, access: Access) -> Iterator[bytes]:
        require_operator(flask.request, access, self._keyring)
        steps = self._backend.log_in(self._receive(access))
        access.on_close(steps.close)
        # What goes wrong before there is a code has a status of its own.
        first = next(step for step in steps if step is not None)
        return map(encode_step, itertools.chain([first], steps))

    def log_out(self, access: Access) -> Body:
        require_operator(flask.request, access, self._keyring)
        self._backend.log_out(access.client)
        return {"account": build_account(self._backend.account(access.client).account, is_admin=True)}

    def watch(self, access: Access) -> Iterator[bytes]:
        require_admin(access)
        self._feed.check_room()
        limit_unsent(flask.request.environ, UNSENT_BYTES)
        told = self._feed.watch(self._receive(access))
        access.on_close(told.close)
        return told

    def show_exchange(self, access: Access, exchange_id: str) -> Body:
        require_admin(access)
        found = self._stores.exchanges.read(exchange_id)
        if found is None:
            raise NotFound("Nothing is kept of this request, or not any more.", code="exchange_not_kept")
        pieces, is_cut = found
        return {"id": exchange_id, "pieces": pieces, "is_cut": is_cut}

    def _receive(self, access: Access) -> Client:
        return Guest(access.client, access.key, self._keyring)


def build_blueprint(
    settings: Settings, backend: Backend, keyring: Keyring, stores: Stores, feed: LiveFeed
) -> flask.Blueprint:
    blueprint = flask.Blueprint("panel", __name__, url_prefix="/ui")
    panel = Panel(settings, backend, keyring, stores, feed)

    @blueprint.get("/status")
    def show_status() -> flask.Response:
        return reply(panel.describe(flask.g.access))

    @blueprint.post("/login")
    def log_in() -> flask.Response:
        return stream(panel.log_in(flask.g.access), settings.keepalive_s)

    @blueprint.post("/logout")
    def log_out() -> flask.Response:
        return reply(panel.log_out(flask.g.access))

    @blueprint.get("/live")
    def watch() -> flask.Response:
        return stream(panel.watch(flask.g.access), settings.keepalive_s)

    @blueprint.get("/exchanges/<exchange_id>")
    def show_exchange(exchange_id: str) -> flask.Response:
        return reply(panel.show_exchange(flask.g.access, exchange_id))

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


def stream(chunks: Iterator[bytes], keepalive_s: float) -> flask.Response:
    return flask.Response(keep_alive(chunks, keepalive_s), headers=UNKEPT_HEADERS)


def encode_step(step: LoginStep | None) -> bytes:
    match step:
        case None:
            return b""
        case LoginCode(url, code):
            return encode_data({"type": "code", "verification_url": url, "user_code": code})
        case LoginDone():
            return encode_data({"type": "done"})
        case LoginFailed(message):
            return encode_data({"type": "failed", "message": message})
        case _:
            assert_never(step)
