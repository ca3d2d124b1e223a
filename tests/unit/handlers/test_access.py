"""A request's account, apart from any request."""

from __future__ import annotations

import flask

from app.handlers.access import LONGEST_HEADER, Access
from app.handlers.client import Nobody


def test_a_header_says_what_a_header_can(app: flask.Flask) -> None:
    """One that cannot be sent would take the reply with it, and whatever that still has to let go."""
    access = Access(Nobody(), "req_1", app.extensions["telemetry"])
    access.tell("x-odd", "a\r\nb: 日本\x00")
    access.tell("x-long", "y" * 2 * LONGEST_HEADER)
    assert access.headers == {
        "x-request-id": "req_1",
        "x-odd": "a??b: ???",
        "x-long": "y" * LONGEST_HEADER,
    }
