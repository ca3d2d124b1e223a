"""GET / and its parts: open to anyone, made of nothing but our own files."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re

import flask
import pytest
from flask.testing import FlaskClient

from app.handlers.pages import FOLDER, KINDS
from app.settings import Settings

KEYED = Settings(api_keys=("sk-me-0123456789",))
PARTS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in KINDS)
# What makes a browser ask: of a page, of a style, of a module.
ASKS = re.compile(
    r"""(?:src|href)="(?P<page>[^"#]+)"|url\((?P<style>[^)]+)\)|(?:from|import)\s*\(?"(?P<module>\.[^"]+)"\)?;"""
)
# A colour scheme's, a picture's: not what a style or script could do.
HARMLESS = ("http://www.w3.org/",)


def address(part: str) -> str:
    return "/" if part == "index.html" else f"/ui/{part}"


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(KEYED, id="keyed"), pytest.param(Settings(), id="open")]
)
@pytest.mark.parametrize("part", PARTS)
def test_every_part_opens_for_anyone(client: FlaskClient, part: str) -> None:
    response = client.get(address(part), buffered=True)
    path = FOLDER / part
    assert (response.status_code, response.data, response.content_type) == (
        200,
        path.read_bytes(),
        KINDS[path.suffix],
    )


@pytest.mark.parametrize("part", PARTS)
def test_nothing_but_our_own_files_may_run(client: FlaskClient, part: str) -> None:
    headers = client.get(address(part), buffered=True).headers
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    told = {name: headers[name] for name in ("x-content-type-options", "referrer-policy", "x-frame-options")}
    assert told == {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
    }


@pytest.mark.parametrize(
    ("headers", "policy"), [({"sec-fetch-site": "none"}, "same-origin"), ({}, None)], ids=["trusted", "else"]
)
def test_no_other_page_holds_its_window(
    client: FlaskClient, headers: dict[str, str], policy: str | None
) -> None:
    """Told to browsers that heed it; the others would only complain."""
    response = client.get("/", headers=headers, buffered=True)
    assert response.headers.get("cross-origin-opener-policy") == policy


def test_a_part_is_sent_again_when_it_has_changed(client: FlaskClient) -> None:
    first = client.get("/", buffered=True)
    again = client.get("/", headers={"if-none-match": first.headers["etag"]}, buffered=True)
    other = client.get("/", headers={"if-none-match": '"another"'}, buffered=True)
    assert (first.headers["cache-control"], again.status_code, again.data) == ("no-cache", 304, b"")
    assert (other.status_code, other.data) == (200, first.data)
    assert "content-security-policy" in again.headers


@pytest.mark.parametrize(
    "path",
    [
        *("index.html", "../handlers/pages.py", "..%2fhandlers%2fpages.py", "%2e%2e/index.html"),
        *("vendor", "vendor/", "vendor/README.md", "app.js/", "/app.js", "APP.JS", "app.js%00"),
    ],
)
def test_there_are_no_others(client: FlaskClient, path: str) -> None:
    response = client.get(f"/ui/static/{path}", buffered=True)
    assert (response.status_code, response.get_json()["error"]["type"]) == (404, "invalid_request_error")


@pytest.mark.parametrize("gateway_settings", [Settings(serves_page=False)])
@pytest.mark.parametrize("path", ["/", "/ui/static/app.js", "/ui/status", "/ui/live"])
def test_it_can_be_switched_off(client: FlaskClient, path: str) -> None:
    response = client.get(path, buffered=True)
    assert (response.status_code, response.get_json()["error"]["message"]) == (
        404,
        f"No such route: GET {path}",
    )


def test_a_foreign_name_does_not_open_it(client: FlaskClient) -> None:
    """Nor does it matter much: on an open gateway a page by another name would be somebody else's."""
    response = client.get("/", headers={"host": "evil.example"}, buffered=True)
    assert (response.status_code, response.get_json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize("part", [part for part in PARTS if not part.startswith("static/vendor/")])
def test_it_asks_for_nothing_that_is_not_served(client: FlaskClient, part: str) -> None:
    """No other host; no file that is not there; nothing inline, which the policy forbids."""
    text = (FOLDER / part).read_text()
    base = pathlib.PurePosixPath(address(part)).parent
    for found in ASKS.finditer(text):
        [asked] = filter(None, found.groups())
        path = asked if asked.startswith("/") else (base / asked).as_posix()
        assert client.get(path, buffered=True).status_code == 200, asked
    assert not re.search(r"""\sstyle=|\son[a-z]+="|<style|<script>|innerHTML|setAttribute\("style""", text)
    assert not [url for url in re.findall(r"https?://[^\s\"'`)]+", text) if not url.startswith(HARMLESS)]


#: Of the files in its package of that release.
RELEASED = {
    "uPlot.LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_library_is_as_it_was_released() -> None:
    """Its licence beside it, its version told."""
    vendor = FOLDER / "static" / "vendor"
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}
    assert files.pop("README.md")
    assert files == RELEASED
    assert "1.6.32" in (vendor / "README.md").read_text()


def test_no_page_of_ours_is_counted_as_use(app: flask.Flask, client: FlaskClient) -> None:
    for path in ("/", "/ui/static/app.js", "/ui/static/none.js"):
        client.get(path, buffered=True)
    assert json.loads(client.get("/v1/usage", buffered=True).data)["total"]["requests"] == 0
