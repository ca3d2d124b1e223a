"""The first page in a browser: what it tells on the first visit, its key, its snippets, how it fits."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest
import requests

from tests.e2e.browser import FAR_NAME, expect
from tests.e2e.conftest import KEY, OpenPage, OpenTab
from tests.e2e.first_page import VIEWS, FirstPage, find_color, find_contrast
from tests.support.gateway import Gateway, run_gateway, wait_until, write_stand_in

pytestmark = pytest.mark.real

CLIENTS = ["Obsidian Copilot", "OpenAI Python", "OpenAI Node", "LangChain", "Open WebUI", "curl"]
PHONE = {"width": 360, "height": 740}


def test_the_first_visit(demo: Gateway, open_page: OpenPage) -> None:
    """Nothing is asked for, and it says what works."""
    start = open_page(demo)
    expect(start.codex).to_contain_text("not logged in")
    expect(start.codex).to_contain_text("Codex 0.163.0")
    expect(start.codex).to_contain_text("demo")
    expect(start.key_dialog).to_be_hidden()
    expect(start.button("Change key")).to_be_hidden()


def test_a_codex_that_is_gone(tmp_path: pathlib.Path, open_page: OpenPage) -> None:
    """That nobody is answered comes before who is logged in; and it is noticed when codex is back."""
    binary = pathlib.Path(write_stand_in(tmp_path))
    with run_gateway(tmp_path, CODEX_BIN=str(binary), PROXY_WARM_PROCESSES="1") as gateway:
        start = open_page(gateway, overlooks=" 503 ")
        expect(start.codex).to_contain_text("is logged in")
        binary.rename(tmp_path / "gone")
        for pid in gateway.codex_pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_readiness(gateway) == 503)
        start.page.reload()
        expect(start.codex).to_contain_text("keeps failing")
        expect(start.codex).not_to_contain_text("is logged in")
        (tmp_path / "gone").rename(binary)
        wait_until(lambda: find_readiness(gateway) == 200, 20)
        expect(start.codex).to_contain_text("is logged in")
        expect(start.codex).not_to_contain_text("keeps failing")


def find_readiness(gateway: Gateway) -> int:
    return requests.get(f"{gateway.base_url}/readyz", timeout=20).status_code


def test_the_views(demo: Gateway, open_page: OpenPage) -> None:
    """Each has an address, a link that tells where one is, and the way back."""
    page = open_page(demo)
    for view in (*VIEWS[1:], VIEWS[0]):
        page.link(view).click()
        expect(page.heading(view)).to_be_visible()
        expect(page.page).to_have_url(f"{demo.base_url}/#{view.lower()}")
        for other in VIEWS:
            expect(page.heading(other)).to_be_visible(visible=other == view)
            current = "page" if other == view else None
            assert page.link(other).get_attribute("aria-current") == current
    page.page.go_back()
    expect(page.heading(VIEWS[-1])).to_be_visible()


def read_snippet(page: FirstPage, client: str) -> str:
    """What the button copies, which is what is shown."""
    page.page.get_by_role("tab", name=client, exact=True).click()
    page.button(f"Copy the {client} snippet").click()
    shown = page.page.get_by_role("tabpanel", name=client).locator("pre").text_content()
    copied: str = page.page.evaluate("() => navigator.clipboard.readText()")
    assert copied == shown
    return copied


def test_the_snippets(demo: Gateway, open_page: OpenPage) -> None:
    page = open_page(demo, permissions=["clipboard-read", "clipboard-write"])
    snippets = {client: read_snippet(page, client) for client in CLIENTS}
    for client, snippet in snippets.items():
        assert f"{demo.base_url}/v1" in snippet, client
        assert "YOUR_KEY" in snippet, client
        assert client == "Open WebUI" or "demo" in snippet, client
    assert "[DONE]" in run(["sh", "-c", snippets["curl"]])
    assert run([sys.executable, "-c", snippets["OpenAI Python"]]).strip()


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_snippet_of_a_keyed_gateway(standing: Gateway, open_page: OpenPage) -> None:
    """The key takes the place of the placeholder; the model is one that is there."""
    page = open_page(standing, key=KEY, permissions=["clipboard-read", "clipboard-write"])
    expect(page.page.get_by_role("tabpanel")).to_contain_text("gpt-5.5")
    snippet = read_snippet(page, "curl")
    assert KEY not in snippet
    assert "[DONE]" in run(["sh", "-c", snippet.replace("YOUR_KEY", KEY)])


def test_the_key(standing: Gateway, open_tab: OpenTab) -> None:
    """Asked for again when it was wrong, kept for the tab and no other, and changed on demand."""
    tab = open_tab(standing.base_url, overlooks=" 401 ")
    page = FirstPage(tab, standing.base_url).open()
    expect(page.key_dialog).to_be_visible()
    page.give_key("sk-of-nobody")
    expect(page.key_dialog.get_by_role("alert")).to_contain_text("not known")
    page.give_key(KEY)
    expect(page.key_dialog).to_be_hidden()
    expect(page.codex).to_contain_text("Codex 0.")
    tab.page.reload()
    expect(page.codex).to_contain_text("Codex 0.")
    expect(page.key_dialog).to_be_hidden()
    page.button("Change key").click()
    page.give_key("sk-of-nobody-else")
    expect(page.key_dialog.get_by_role("alert")).to_contain_text("not known")
    page.key_dialog.get_by_role("button", name="Cancel").click()
    expect(page.key_dialog).to_be_hidden()
    other = tab.context.new_page()
    other.goto(standing.base_url)
    expect(other.get_by_role("dialog", name="Access key")).to_be_visible()


def test_a_wrong_key_is_tried_once(standing: Gateway, open_tab: OpenTab) -> None:
    """It counts as an error, and who tries keys is looked for by those."""
    tab = open_tab(standing.base_url, overlooks=" 401 ")
    told: list[int] = []
    tab.page.on("response", lambda response: told.append(response.status))
    page = FirstPage(tab, standing.base_url).open()
    page.give_key("sk-of-nobody")
    expect(page.key_dialog.get_by_role("alert")).to_contain_text("not known")
    page.give_key(KEY)
    expect(page.codex).to_contain_text("Codex 0.")
    assert told.count(401) == 1


def test_who_has_no_key_is_told_of_it(standing: Gateway, open_page: OpenPage) -> None:
    """Also where the snippets are, which tell where it goes."""
    page = open_page(standing, overlooks=" 401 ")
    page.key_dialog.get_by_role("button", name="Cancel").click()
    expect(page.codex).to_contain_text("asks for an access key")
    expect(page.page.get_by_role("region", name="Connect a client")).to_contain_text("YOUR_KEY stands")


def test_the_header_hides_nothing_that_has_the_focus(demo: Gateway, open_page: OpenPage) -> None:
    page = open_page(demo, "Playground", viewport={"width": 1280, "height": 500})
    upper, lower = (page.page.get_by_role("checkbox", name=name) for name in ("get_weather", "search_notes"))
    lower.focus()
    upper.evaluate("(node) => window.scrollBy(0, node.getBoundingClientRect().top - 10)")
    page.page.keyboard.press("Shift+Tab")
    expect(upper).to_be_focused()
    ends = [node.bounding_box() or {} for node in (page.page.locator("#header"), upper)]
    assert ends[0]["y"] + ends[0]["height"] <= ends[1]["y"]


def test_by_plain_http_from_afar(standing: Gateway, open_tab: OpenTab) -> None:
    """Where browsers offer less, and complain of more: as on a network at home."""
    base_url = standing.base_url.replace("127.0.0.1", FAR_NAME)
    page = FirstPage(open_tab(base_url, overlooks=" 401 "), base_url, KEY).open()
    expect(page.codex).to_contain_text("Codex 0.")
    page.button("Copy the base URL").click()
    expect(page.button("Copy the base URL")).to_have_text("Copied")
    expect(page.page.locator("#base-url")).to_have_text(f"{base_url}/v1")


@pytest.mark.parametrize("view", VIEWS)
def test_it_fits_a_phone(demo: Gateway, open_page: OpenPage, view: str) -> None:
    """It is as wide as the phone, and opens at its top: its address is of no place further down."""
    page = open_page(demo, view, viewport=PHONE, is_mobile=True, has_touch=True)
    expect(page.heading(view)).to_be_in_viewport(ratio=1)
    assert (page.overflow(), page.page.evaluate("() => window.scrollY")) == (0, 0)


def test_the_header_fits_a_phone(standing: Gateway, open_page: OpenPage) -> None:
    """Where there are keys, too: the button for them takes no line of its own."""
    page = open_page(standing, key=KEY, viewport=PHONE, is_mobile=True, has_touch=True)
    expect(page.codex).to_contain_text("Codex 0.")
    boxes = [node.bounding_box() or {} for node in (page.page.locator("#brand"), page.button("Change key"))]
    middles = [box["y"] + box["height"] / 2 for box in boxes]
    assert middles[0] == pytest.approx(middles[1], abs=2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(demo: Gateway, open_page: OpenPage, scheme: str) -> None:
    """By day and by night; WCAG asks for 4.5, and for 3 where a control ends."""
    page = open_page(demo, color_scheme=scheme)
    body = page.page.locator("body")
    background = find_color(body, "background-color")
    assert (sum(background) > 600, sum(background) < 200) == (scheme == "light", scheme == "dark")
    for view in VIEWS:
        page.link(view).click()
        expect(page.heading(view)).to_be_visible()
        for locator in (page.heading(view), *map(page.link, VIEWS)):
            assert find_contrast(find_color(locator, "color"), background) >= 4.5
    field = page.page.locator("#play-model")
    assert find_contrast(find_color(field, "border-top-color"), background) >= 3
