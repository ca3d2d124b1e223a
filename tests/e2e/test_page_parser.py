"""The page's own reader of streams: the same frames wherever a stream is cut."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.browser import Tab
from tests.e2e.conftest import OpenTab
from tests.support.gateway import Gateway

pytestmark = pytest.mark.real

#: Reads a text whole, and tells at which cuts the frames were others.
READ = """async (text) => {
    const { SseParser } = await import("/ui/static/sse.js");
    const read = (parts) => {
        const parser = new SseParser();
        return [...parts.flatMap((part) => parser.feed(part)), ...parser.finish()];
    };
    const frames = read([text]);
    const cuts = [text.split(""), ["", text, ""]];
    for (let first = 1; first < text.length; first += 1)
        for (let second = first; second < text.length; second += 1)
            cuts.push([text.slice(0, first), text.slice(first, second), text.slice(second)]);
    return { frames, wrong: cuts.filter((parts) => JSON.stringify(read(parts)) !== JSON.stringify(frames)) };
}"""


@pytest.fixture(scope="module")
def quiet_tab(keep_tab: OpenTab, standing: Gateway) -> Tab:
    """On a page of the gateway's that does nothing; the browser asks for an icon."""
    tab = keep_tab(standing.base_url, overlooks=r"/favicon\.ico")
    tab.page.goto(f"{standing.base_url}/livez")
    return tab


def frame(raw: str, data: str | None) -> dict[str, Any]:
    return {"raw": raw, "data": data}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(
            "data: a\n\ndata: b\n\n", [frame("data: a\n\n", "a"), frame("data: b\n\n", "b")], id="lf"
        ),
        pytest.param(
            "data: a\r\n\r\ndata: b\r\n\r\n",
            [frame("data: a\r\n\r\n", "a"), frame("data: b\r\n\r\n", "b")],
            id="crlf",
        ),
        pytest.param(
            "data: a\r\rdata: b\r\r", [frame("data: a\r\r", "a"), frame("data: b\r\r", "b")], id="cr"
        ),
        pytest.param(
            "data: a\r\n\ndata: b\n\r\n",
            [frame("data: a\r\n\n", "a"), frame("data: b\n\r\n", "b")],
            id="mixed",
        ),
        pytest.param(
            "event: e\ndata: a\ndata: b\n\n",
            [frame("event: e\ndata: a\ndata: b\n\n", "a\nb")],
            id="lines",
        ),
        pytest.param(
            "data:a\n\ndata:  b\n\n", [frame("data:a\n\n", "a"), frame("data:  b\n\n", " b")], id="spaces"
        ),
        pytest.param("data\n\ndata: :\n\n", [frame("data\n\n", ""), frame("data: :\n\n", ":")], id="colons"),
        pytest.param(": keepalive\n\n", [frame(": keepalive\n\n", None)], id="comment"),
        pytest.param("id: 1\nretry: 2\n\n", [frame("id: 1\nretry: 2\n\n", None)], id="other-fields"),
        pytest.param("data: 日本 🎹\n\n", [frame("data: 日本 🎹\n\n", "日本 🎹")], id="beyond-ascii"),
        pytest.param(
            "data: a\n\ndata: b\n", [frame("data: a\n\n", "a"), frame("data: b\n", None)], id="cut-off"
        ),
        pytest.param(
            "data: a\n\ndata: b\r",
            [frame("data: a\n\n", "a"), frame("data: b\r", None)],
            id="cut-off-in-crlf",
        ),
    ],
)
def test_frames_for_every_cut(quiet_tab: Tab, text: str, expected: list[dict[str, Any]]) -> None:
    assert quiet_tab.page.evaluate(READ, text) == {"frames": expected, "wrong": []}
