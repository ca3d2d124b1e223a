"""CORS: which pages may read our answers."""

from __future__ import annotations

import re

import flask
from werkzeug.datastructures import Headers

from app.handlers.access import Access

RATE_LIMITS = [
    *(f"x-ratelimit-{about}-requests" for about in ("limit", "remaining", "reset")),
    *(
        f"x-ratelimit-codex-{window}-{about}"
        for window in ("primary", "secondary")
        for about in ("used-percent", "window-minutes", "reset")
    ),
]
EXPOSED = ", ".join(
    [
        "x-request-id",
        "x-proxy-ignored-params",
        "x-proxy-output-mode",
        "x-proxy-continuation",
        "x-should-retry",
        "retry-after",
        *RATE_LIMITS,
    ]
)


class Cors:
    def __init__(self, origins: tuple[str, ...]) -> None:
        self._allowed = re.compile("|".join(to_pattern(origin) for origin in origins) or r"(?!)")

    def allows(self, origin: str) -> bool:
        return self._allowed.fullmatch(origin) is not None

    def add_headers(self, request: flask.Request, response: flask.Response) -> None:
        response.headers.add("vary", "Origin")
        origin = request.headers.get("origin", "")
        if self.allows(origin):
            response.headers["access-control-allow-origin"] = origin
            response.headers["access-control-expose-headers"] = EXPOSED
            if request.method == "OPTIONS":
                allow_request(request.headers, response)


def answer_preflight(request: flask.Request, _: Access) -> flask.Response | None:
    """A browser asks before it sends a key, so this comes before the key is checked."""
    return flask.Response(status=204) if request.method == "OPTIONS" else None


def allow_request(asked: Headers, response: flask.Response) -> None:
    response.headers["access-control-allow-methods"] = "GET, POST, DELETE, OPTIONS"
    response.headers["access-control-max-age"] = "600"
    if "access-control-request-headers" in asked:
        response.headers["access-control-allow-headers"] = asked["access-control-request-headers"]
    if asked.get("access-control-request-private-network") == "true":
        response.headers["access-control-allow-private-network"] = "true"


def to_pattern(origin: str) -> str:
    """`http://localhost:*` allows any port."""
    if origin == "*":
        return ".+"
    return re.escape(origin.removesuffix(":*")) + (r"(:\d+)?" if origin.endswith(":*") else "")
