"""GET / and what it is made of: the same few files for everyone, read once."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import flask

from app.handlers.http import json_response
from app.lib.errors import NotFound
from app.settings import Settings

FOLDER = pathlib.Path(__file__).parent.parent / "pages"
FIRST = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
#: Nothing but our own files runs, is shown or asked; and nobody shows the page in one of theirs.
POLICY = {
    "default-src": "'none'",
    **dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'"),
    **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
    "require-trusted-types-for": "'script'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    # Asked for each time, and sent when it has changed: a page and its modules are of one release.
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Part:
    data: bytes
    kind: str
    digest: str


def build_blueprint(settings: Settings) -> flask.Blueprint:
    blueprint = flask.Blueprint("pages", __name__)
    parts = dict(read_parts(FOLDER))

    @blueprint.get("/")
    def show() -> flask.Response:
        return send(parts[FIRST])

    @blueprint.get("/ui/static/<path:name>")
    def show_part(name: str) -> flask.Response:
        part = parts.get(f"static/{name}")
        if part is None:
            raise NotFound("The page has no such part.")
        return send(part)

    @blueprint.get("/ui/door")
    def show_door() -> flask.Response:
        """What a page asks before it asks anything else, or a person for a key."""
        return json_response({"is_open": settings.is_open})

    return blueprint


def read_parts(folder: pathlib.Path) -> Iterator[tuple[str, Part]]:
    for path in folder.rglob("*"):
        if path.suffix in KINDS:
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()[:32]
            yield path.relative_to(folder).as_posix(), Part(data, KINDS[path.suffix], digest)


def send(part: Part) -> flask.Response:
    response = flask.Response(part.data, content_type=part.kind, headers=HEADERS)
    # A browser says this of names that it trusts; of plain HTTP by another it would complain to the console.
    if "sec-fetch-site" in flask.request.headers:
        response.headers["cross-origin-opener-policy"] = "same-origin"
    response.set_etag(part.digest)
    return response.make_conditional(flask.request)  # type: ignore[return-value]
