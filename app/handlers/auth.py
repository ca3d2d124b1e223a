"""The bearer key, and what it lets do; `customs` says which requests need none."""

from __future__ import annotations

from collections.abc import Callable

import flask

from app.handlers.access import Access
from app.handlers.keyring import Keyring
from app.lib.errors import Forbidden, InvalidKey
from app.lib.keys import ANYBODY, AccessKey, Role


def build_check(keyring: Keyring) -> Callable[[flask.Request, Access], None]:
    def check_key(request: flask.Request, access: Access) -> None:
        if access.customs.asks_key:
            access.welcome(identify(request, keyring))

    return check_key


def identify(request: flask.Request, keyring: Keyring) -> AccessKey:
    """Whose request this is; raises for a stranger's."""
    if keyring.is_open:
        return ANYBODY
    given = read_bearer(request)
    # Nothing is no key, even where its hash got into the keys file.
    key = keyring.find(given) if given else None
    if key is None:
        raise InvalidKey("Send a valid key as `Authorization: Bearer …`.")
    return key


def read_bearer(request: flask.Request) -> bytes:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # WSGI hands header bytes over as latin-1; encoding gives the client's bytes back.
    return given.strip().encode("latin-1") if scheme.lower() == "bearer" else b""


def require_admin(access: Access) -> None:
    if access.key.role is not Role.ADMIN:
        raise Forbidden("This needs an admin key (PROXY_ADMIN_KEY).", code="admin_key_required")


def require_operator(request: flask.Request, access: Access, keyring: Keyring) -> None:
    """Let pass who may change the gateway's account.

    An open gateway is open to every page in this machine's browsers: so there it takes the token that was
    printed at its start.
    """
    require_admin(access)
    if keyring.is_open and not keyring.is_token(read_bearer(request)):
        raise Forbidden("This needs the page token that the gateway printed.", code="page_token_required")
