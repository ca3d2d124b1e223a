"""The bearer key: asked of everyone, except for health and on an open loopback gateway."""

from __future__ import annotations

from collections.abc import Callable

import flask

from app.handlers.access import Access
from app.handlers.keyring import Keyring
from app.lib.errors import Forbidden, InvalidKey
from app.lib.keys import ANYBODY, AccessKey, Role

#: Blueprints that ask for no key, or look for themselves.
KEYLESS = ("health", "metrics")


def build_check(keyring: Keyring) -> Callable[[flask.Request, Access], None]:
    def check_key(request: flask.Request, access: Access) -> None:
        if request.blueprint not in KEYLESS:
            access.welcome(identify(request, keyring))

    return check_key


def identify(request: flask.Request, keyring: Keyring) -> AccessKey:
    """Whose request this is; raises for a stranger's."""
    if keyring.is_open:
        return ANYBODY
    # WSGI hands header bytes over as latin-1; encoding gives the client's bytes back.
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    given = given.strip()
    # Nothing is no key, even where its hash got into the keys file.
    key = keyring.find(given.encode("latin-1")) if given and scheme.lower() == "bearer" else None
    if key is None:
        raise InvalidKey("Send a valid key as `Authorization: Bearer …`.")
    return key


def require_admin(access: Access) -> None:
    if access.key.role is not Role.ADMIN:
        raise Forbidden("This needs an admin key (PROXY_ADMIN_KEY).", code="admin_key_required")
