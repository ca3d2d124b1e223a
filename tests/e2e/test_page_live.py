"""The live view in a browser: figures that move, the last requests, and a gateway that comes and goes."""

from __future__ import annotations

import json
import pathlib
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import requests

from app.handlers.live import COUNTS, GAUGES, PERIOD_S
from tests.e2e.browser import expect
from tests.e2e.conftest import ADMIN_KEY, KEY, OpenPage, OpenTab, Served
from tests.e2e.first_page import FirstPage, LiveView
from tests.e2e.front import find_free_port
from tests.support.gateway import Gateway, run_gateway, write_stand_in

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.real

PLOTS = [
    "Requests per minute",
    "Tokens per minute",
    "Errors per minute",
    "Time to first token",
    "Codex processes",
    "Tool buffers per minute",
]
#: How much of a plot is drawn in a colour of the page.
COUNT_PIXELS = """(canvas, name) => {
    const told = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const wanted = [1, 3, 5].map((at) => parseInt(told.slice(at, at + 2), 16));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const isDrawn = (at) =>
        data[at + 3] > 128 && wanted.every((each, i) => Math.abs(each - data[at + i]) < 16);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) count += isDrawn(at);
    return count;
}"""
#: How much is drawn at the very edges of a plot, left and right, where it would be cut.
COUNT_EDGES = """(canvas) => {
    const drawing = canvas.getContext("2d");
    const count = (at) => {
        const { data } = drawing.getImageData(at, 0, 1, canvas.height);
        return data.filter((value, i) => i % 4 === 3 && value > 0).length;
    };
    return [count(0), count(canvas.width - 1)];
}"""
LINES = ["--series-1", "--series-2", "--series-3", "--series-4"]
#: Each of the four lines in a place of its own.
SAMPLE = dict.fromkeys((*GAUGES, *COUNTS), 0) | {"idle": 40, "owned": 30, "parked": 20, "ending": 10}
#: A gateway tells its first figures when it has looked twice.
TWO_PERIODS_MS = 25_000
DAY_S = 86_400
ONE_LINE_PX = 30


@pytest.fixture
def live(standing: Gateway, open_page: OpenPage) -> LiveView:
    view = LiveView(open_page(standing, "Live", ADMIN_KEY))
    expect(view.connection).to_have_text("live")
    return view


@contextmanager
def ask(gateway: Gateway, words: Any, model: str = "scripted-model", leaves: bool = False) -> Iterator[str]:
    """A stream that is under way; its id. It is read in the end, or left."""
    request_id = f"live-{secrets.token_hex(4)}"
    message = {"role": "user", "content": words if isinstance(words, str) else json.dumps(words)}
    body = {"model": model, "stream": True, "messages": [message]}
    headers = {"authorization": f"Bearer {KEY}", "x-request-id": request_id}
    headers |= {"content-type": "application/json", "connection": "close"}
    url, data = f"{gateway.base_url}/v1/chat/completions", json.dumps(body, ensure_ascii=False).encode()
    with requests.post(url, data, headers=headers, timeout=20, stream=True) as response:
        assert response.status_code == 200
        yield request_id
        if not leaves:
            assert response.content.endswith(b"data: [DONE]\n\n")


def test_figures_move(live: LiveView, standing: Gateway) -> None:
    """While a request runs, and when it has ended; then it is told once, as the first of the last."""
    with ask(standing, [{"usage": {"input_tokens": 4711}}, {"say": ["x"]}]):
        pass
    for text in ("200", "scripted-model", "env:", "4,711 in, 20 out", "stop"):
        expect(live.rows.first).to_contain_text(text)
    live.wait_for(**{"In flight": "0", "Streams": "0", "Owned": "0"})
    with ask(standing, [{"say": ["x"]}, {"hang": True}], leaves=True):
        live.wait_for(**{"In flight": "1", "Streams": "1", "Owned": "1"})
    live.wait_for(**{"In flight": "0", "Streams": "0", "Owned": "0"})
    expect(live.rows.first).to_contain_text("client_closed_request")
    expect(live.rows.nth(1)).to_contain_text("4,711 in")
    expect(live.rows.filter(has_text="4,711 in")).to_have_count(1)
    expect(live.rows.first.get_by_role("button")).to_have_count(0)


def test_what_was_said_is_shown_where_it_is_kept(demo: Gateway, open_page: OpenPage) -> None:
    """Verbatim, the request and its frames."""
    live = LiveView(open_page(demo, "Live"))
    with ask(demo, "say exactly: <i>words</i> — 🌍", "demo") as request_id:
        pass
    expect(live.rows.first).to_contain_text("demo")
    expect(live.rows.first.get_by_role("time")).to_be_visible()
    live.rows.first.get_by_role("button", name=f"Frames of request {request_id}", exact=True).click()
    dialog = live.page.get_by_role("dialog", name=f"Request {request_id}")
    expect(dialog).to_contain_text("say exactly: <i>words</i> — 🌍")
    expect(dialog).to_contain_text("data: [DONE]")
    assert '"finish_reason":"stop"' in (dialog.text_content() or "")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_a_clients_key_does_not_do(standing: Gateway, open_page: OpenPage) -> None:
    """It says which key does, and takes it."""
    live = LiveView(open_page(standing, "Live", KEY, overlooks=" (401|403) "))
    expect(live.page.get_by_role("region", name="Live")).to_contain_text("needs an admin key")
    expect(live.rows).to_have_count(0)
    live.first_page.button("Use an admin key").click()
    live.first_page.give_key(ADMIN_KEY)
    expect(live.connection).to_have_text("live")


def test_a_request_of_another_day(standing: Gateway, open_page: OpenPage) -> None:
    """A quiet gateway's last requests reach far back: the day is named where it is not today, and fits."""
    now = time.time()
    told = {"type": "requests", "data": [build_entry(now), build_entry(now - 400 * DAY_S)]}
    live = open_told(standing, open_page, told, locale="en-GB", viewport={"width": 970, "height": 800})
    times = live.all_rows.get_by_role("time")
    expect(times).to_have_count(2)
    days = [re.sub(r"\d+:\d+(:\d+)?$", "", text) for text in times.all_text_contents()]
    assert (days[0], bool(re.search(r"\d{4}", days[1]))) == ("", True)
    route = live.all_rows.get_by_role("cell").filter(has_text="/v1/chat").first.bounding_box() or {}
    assert (live.first_page.overflow(), route["height"] < ONE_LINE_PX) == (0, True)


def build_entry(at_s: float) -> dict[str, Any]:
    """As wide as they come."""
    counts = {"input_tokens": 1_234_567, "output_tokens": 123_456, "tool_calls": 12}
    times = {"time": at_s, "first_token_ms": 1234, "duration_ms": 1_234_567}
    asked = {"method": "POST", "route": "/v1/chat/completions", "model": "gpt-6.1-sol-xhigh", "key": "laptop"}
    ended = {"request_id": f"req_{at_s}", "status": 503, "error": "backend_unavailable"}
    return ended | asked | times | counts


def open_told(standing: Gateway, open_page: OpenPage, told: dict[str, Any], **options: Any) -> LiveView:
    """Where this is all that the stream tells."""
    overlooked = " 401 |willReadFrequently"
    live = LiveView(open_page(standing, "Start", ADMIN_KEY, overlooks=overlooked, **options))
    body, headers = f"data: {json.dumps(told)}\n\n", {"content-type": "text/event-stream"}
    live.page.route("**/ui/live", lambda route: route.fulfill(headers=headers, body=body))
    live.first_page.link("Live").click()
    return live


def test_a_bad_request(live: LiveView, standing: Gateway) -> None:
    """Its error has no code; what it was is told all the same."""
    headers = {"authorization": f"Bearer {KEY}"}
    asked = requests.post(f"{standing.base_url}/v1/chat/completions", json={}, headers=headers, timeout=20)
    assert (asked.status_code, asked.json()["error"]["code"]) == (400, None)
    expect(live.rows.first).to_contain_text("400")
    expect(live.rows.first).to_contain_text("invalid_request")


def test_a_request_that_was_none(live: LiveView, standing: Gateway) -> None:
    """It has neither method nor path, and is told all the same."""
    with socket.create_connection(("127.0.0.1", int(standing.base_url.rpartition(":")[2]))) as client:
        client.sendall(b"GARBAGE\r\n\r\n")
        assert b" 400 " in client.recv(1024)
    row = live.all_rows.filter(has_text="malformed_request")
    expect(row.get_by_role("cell").nth(2)).to_have_text("\N{EN DASH}")
    expect(row).not_to_contain_text("undefined")


def test_a_gateway_that_hangs(standing: Gateway, open_page: OpenPage) -> None:
    """It is told of, though the connection stands."""
    live = LiveView(open_page(standing, "Start", ADMIN_KEY))
    expect(live.first_page.codex).to_contain_text("Codex 0.")
    live.page.clock.install()
    live.page.route("**/ui/*", lambda _: None)
    live.first_page.link("Live").click()
    expect(live.connection).to_have_text("connecting")
    live.page.clock.run_for(8_000)
    expect(live.connection).to_have_text("reconnecting")


def test_through_nginx(served: Served, open_tab: OpenTab) -> None:
    """Where it is served to others, it is the same; and a stream is told while it runs."""
    base_url = served.front.base_url
    tab = open_tab(base_url, overlooks=" 401 ", ignore_https_errors=True)
    live = LiveView(FirstPage(tab, base_url, ADMIN_KEY).open("Live"))
    expect(live.connection).to_have_text("live")
    live.wait_for(Streams="0")
    with ask(served.gateway, [{"say": ["x"]}, {"hang": True}], leaves=True):
        live.wait_for(Streams="1")
    live.wait_for(Streams="0")


def test_another_view_closes_the_stream(live: LiveView) -> None:
    with live.page.expect_event("requestfailed", lambda request: request.url.endswith("/ui/live")):
        live.first_page.link("Start").click()
    with live.page.expect_response(re.compile("/ui/live$")):
        live.first_page.link("Live").click()
    expect(live.connection).to_have_text("live")


def test_it_outlives_the_gateway(tmp_path: pathlib.Path, open_page: OpenPage) -> None:
    """It says that it has no connection, and has one again by itself; what it showed it shows still, once."""
    environ = {"CODEX_BIN": write_stand_in(tmp_path), "PROXY_PORT": str(find_free_port())}
    with ExitStack() as stack:
        gateway = stack.enter_context(run_gateway(tmp_path, **environ))
        live = LiveView(open_page(gateway, "Live", overlooks=r"net::ERR_"))
        expect(live.connection).to_have_text("live")
        with ask(gateway, "before"):
            pass
        expect(live.rows).to_have_count(1)
        stack.pop_all().close()
        expect(live.connection).to_have_text("reconnecting")
        stack.enter_context(run_gateway(tmp_path, **environ))
        expect(live.connection).to_have_text("live")
        with ask(gateway, [{"usage": {"input_tokens": 42}}, {"say": ["after"]}]):
            pass
        expect(live.rows.first).to_contain_text("42 in")
        expect(live.rows).to_have_count(2)
    expect(live.connection).to_have_text("reconnecting")


def test_plots(live: LiveView, standing: Gateway) -> None:
    """Each tells its newest figure in words too."""
    with ask(standing, "hello"):
        pass
    for name in PLOTS:
        figure = live.page.get_by_role("figure", name=name)
        expect(figure.locator("canvas")).to_be_visible()
        expect(find_caption(figure)).to_have_text(re.compile(r"\d"), timeout=TWO_PERIODS_MS)


def draw(standing: Gateway, open_page: OpenPage, times: list[int], **options: Any) -> Locator:
    """The plot of the processes, when these are all the times of which something is known."""
    told = {"type": "history", "period_s": PERIOD_S, "samples": [{"at": at, **SAMPLE} for at in times]}
    live = open_told(standing, open_page, told, **options)
    figure = live.page.get_by_role("figure", name="Codex processes")
    expect(find_caption(figure)).to_contain_text("40")
    canvas = figure.locator("canvas")
    # Drawn before the next frame.
    live.page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    return canvas


def count_drawn(standing: Gateway, open_page: OpenPage, times: list[int]) -> list[int]:
    canvas = draw(standing, open_page, times)
    return [canvas.evaluate(COUNT_PIXELS, line) for line in LINES]


def test_a_value_that_is_alone_is_drawn(standing: Gateway, open_page: OpenPage) -> None:
    """As the first is, and one between times of which nothing is known."""
    assert min(count_drawn(standing, open_page, [1_800_000_000])) > 0


def test_lines_differ_by_more_than_their_colour(standing: Gateway, open_page: OpenPage) -> None:
    solid, *broken = count_drawn(standing, open_page, [*range(1_800_000_000, 1_800_003_600, PERIOD_S)])
    assert len({solid, *broken}) == len(LINES)
    assert max(broken) < 0.9 * solid


@pytest.mark.parametrize("locale", ["en-GB", "en-US"])
def test_no_time_is_cut_at_the_edge(standing: Gateway, open_page: OpenPage, locale: str) -> None:
    """Not at a full hour either, when its label stands under the newest value."""
    canvas = draw(standing, open_page, [1_800_000_000], locale=locale)
    assert canvas.evaluate(COUNT_EDGES) == [0, 0]


def find_caption(figure: Locator) -> Locator:
    return figure.locator("figcaption")
