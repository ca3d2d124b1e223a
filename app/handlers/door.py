"""What every request passes, in order, before its route looks at it, and every reply after."""

from __future__ import annotations

from collections.abc import Callable

import flask

from app.handlers import auth, guard
from app.handlers.access import Access, begin
from app.handlers.allowances import Allowances
from app.handlers.client import ClientSocket
from app.handlers.cors import Cors, answer_preflight
from app.handlers.http import find_request
from app.handlers.keyring import Keyring
from app.handlers.telemetry import Telemetry
from app.settings import Settings

#: Lets a request pass, answers it, or raises.
Step = Callable[[flask.Request, Access], flask.Response | None]


class Door:
    def __init__(
        self, settings: Settings, telemetry: Telemetry, keyring: Keyring, allowances: Allowances
    ) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._sharing = Cors(settings.allowed_origins)
        self._steps: tuple[Step, ...] = (
            answer_preflight,
            guard.build_check(settings, self._sharing),
            auth.build_check(keyring),
            allowances.hand_out,
        )

    def guard(self, app: flask.Flask) -> None:
        app.before_request(self.enter)
        app.after_request(self.leave)

    def enter(self) -> flask.Response | None:
        request = find_request()
        settings = self._settings
        client = ClientSocket(request.environ, settings.socket_timeout_s, settings.queue_timeout_s)
        access = flask.g.access = begin(request, client, self._telemetry)
        for step in self._steps:
            reply = step(request, access)
            if reply is not None:
                return reply
        return None

    def leave(self, response: flask.Response) -> flask.Response:
        access: Access = flask.g.access
        if not access.customs.is_ours:
            self._sharing.add_headers(flask.request, response)
        for name, value in access.headers.items():  # no reply says any of them by itself
            response.headers.add(name, value)
        access.note(request_id=access.request_id, status=response.status_code)
        response.call_on_close(access.close)
        return response
