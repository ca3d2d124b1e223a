"""Which pages and names a request may come by: what a browser could be tricked into is refused."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable

import flask

from app.handlers.access import Access
from app.handlers.cors import Cors
from app.lib.errors import Forbidden
from app.lib.loopback import is_loopback, split_host
from app.settings import Settings

#: What browsers say of a page of the same origin, and of a person who enters the address.
OWN_SITES = (None, "same-origin", "none")
#: How pages come from here.
WEB = ("http", "https")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: What a proxy adds; whoever it speaks for is not on this machine.
FORWARDED = (
    *(f"x-forwarded-{about}" for about in ("for", "host", "proto", "port", "server")),
    *("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip"),
)


def build_check(settings: Settings, sharing: Cors) -> Callable[[flask.Request, Access], None]:
    allowed = frozenset(map(split_host, settings.allowed_hosts))
    names_loopback_only = settings.is_open and not allowed

    def check_way(request: flask.Request, access: Access) -> None:
        if not access.customs.asks_way:
            return
        host = split_host(request.host)
        is_known = not allowed or host in allowed
        if not is_known or (names_loopback_only and not is_loopback(host)):
            raise Forbidden(
                "The gateway is not called by this name (PROXY_ALLOWED_HOSTS).", code="host_not_allowed"
            )
        is_welcome = is_own_page(request) if access.customs.is_ours else is_known_page(request, sharing)
        if not is_welcome:
            raise Forbidden(
                "Pages of this origin are not let in (PROXY_CORS_ALLOWED_ORIGINS).", code="origin_not_allowed"
            )

    return check_way


def is_known_page(request: flask.Request, sharing: Cors) -> bool:
    """Whether it is no page of another site's that wants something done: programs name no origin."""
    origin = request.headers.get("origin")
    if origin is None or request.method in SAFE_METHODS:
        return True
    return sharing.allows(origin) or is_own(origin, request.host)


def is_own_page(request: flask.Request) -> bool:
    """Whether it is our own page that asks, or a program; whatever it asks for."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    return site in OWN_SITES and (origin is None or is_own(origin, request.host))


def is_own(origin: str, host: str) -> bool:
    """Whether a page of this origin came from here; behind a proxy it may be by the other scheme."""
    try:
        came_by, name, *_ = urllib.parse.urlsplit(origin)
    except ValueError:
        return False
    # An app's own scheme goes with a name like ours too: `capacitor://localhost`.
    return bool(host) and name == host and came_by in WEB


def is_local(request: flask.Request) -> bool:
    """Whether a program of this very machine asks, by no detour."""
    return (
        is_loopback(request.environ.get("REMOTE_ADDR") or "")
        and is_loopback(split_host(request.host))
        and not any(name in request.headers for name in FORWARDED)
        and "origin" not in request.headers
        # A proxy that was told nothing speaks the older one.
        and request.environ.get("SERVER_PROTOCOL") != "HTTP/1.0"
    )
