"""The bearer key: asked of everyone, except for health and on an open loopback gateway."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

import flask

from app.lib.errors import InvalidKey


def build_check(api_keys: tuple[str, ...]) -> Callable[[], None]:
    keys = tuple(key.encode() for key in api_keys)

    def check_key() -> None:
        if not keys or flask.request.blueprint == "health":
            return
        # WSGI hands header bytes over as latin-1; encoding gives the client's bytes back.
        scheme, _, given = flask.request.headers.get("authorization", "").partition(" ")
        key = given.strip().encode("latin-1")
        if scheme.lower() != "bearer" or not is_known(key, keys):
            raise InvalidKey("Send a valid key as `Authorization: Bearer …`.")
        flask.g.access.owner = hashlib.sha256(key).hexdigest()

    return check_key


def is_known(given: bytes, keys: tuple[bytes, ...]) -> bool:
    """Compare with every key in constant time, so that timing tells nothing."""
    matches = [hmac.compare_digest(given, key) for key in keys]
    return any(matches)
