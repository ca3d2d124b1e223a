"""Logging codex in and out on the first page: the real codex, and an issuer of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenTab
from tests.e2e.first_page import FirstPage
from tests.support.gateway import Gateway, run_gateway
from tests.support.issuer import EMAIL, PENDING, USER_CODE, Issuer, write_codex, write_provider
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

#: In a page before its own scripts: after its first piece the first stream of this path is cut, or silent.
LOSES_STREAM = """(path, loss) => {
    const ask = window.fetch;
    let isFirst = true;
    window.fetch = async (asked, options) => {
        const response = await ask(asked, options);
        if (asked !== path || !isFirst) return response;
        isFirst = false;
        const reader = response.body.getReader();
        const { value } = await reader.read();
        const start = (controller) => {
            controller.enqueue(value);
            options.signal.addEventListener("abort", () => controller.error(options.signal.reason));
            if (loss === "cut") setTimeout(() => controller.error(new TypeError("network error")), 50);
        };
        return new Response(new ReadableStream({ start }), response);
    };
}"""
SILENCE_MS = 60_000
LINK = re.compile(r"Page: (http\S+#token=(\S+))")


@dataclass(frozen=True, slots=True)
class Place:
    gateway: Gateway
    issuer: Issuer
    #: What the start printed: the page's address, and the token in it.
    link: str
    token: str


@pytest.fixture(scope="module")
def open_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("login")
    with ScriptedModel() as model, Issuer() as issuer:
        environ = {"CODEX_BIN": write_codex(folder, issuer), "PROXY_WARM_PROCESSES": "1"}
        environ |= {"PROXY_MAX_PROCESSES": "1"}
        provider = write_provider(folder, issuer, model.base_url)
        with run_gateway(folder, PROXY_CODEX_CONFIG_FILE=provider, **environ) as gateway:
            found = LINK.search(gateway.log)
            assert found, gateway.log
            yield Place(gateway, issuer, *found.groups())


@pytest.fixture
def place(open_place: Place) -> Place:
    """Logged out, and nobody has entered a code."""
    open_place.issuer.entered_status = PENDING
    return open_place


@pytest.fixture
def page(place: Place, open_tab: OpenTab) -> FirstPage:
    """Opened by the link."""
    tab = open_tab(place.gateway.base_url, permissions=["clipboard-read", "clipboard-write"])
    tab.page.goto(place.link)
    page = FirstPage(tab, place.gateway.base_url)
    expect(page.codex).to_contain_text("not logged in")
    return page


def ask_for_code(page: FirstPage) -> None:
    page.button("Log in to Codex").click()
    expect(page.login).to_contain_text(USER_CODE)


def test_the_token_leaves_the_address(page: FirstPage, place: Place) -> None:
    assert place.token not in page.page.url
    page.page.reload()
    ask_for_code(page)
    page.button("Cancel login").click()
    expect(page.login).to_contain_text("cancelled")


def decline_to_log_out(page: FirstPage) -> None:
    """By the button that has the focus, and by the key: others depend on the login."""
    page.button("Log out").click()
    expect(page.log_out_dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.page.keyboard.press("Enter")
    expect(page.log_out_dialog).to_be_hidden()
    page.button("Log out").click()
    page.page.keyboard.press("Escape")
    expect(page.log_out_dialog).to_be_hidden()
    expect(page.codex).to_contain_text("is logged in")


def test_in_and_out(page: FirstPage, place: Place) -> None:
    """With the code shown, the address to enter it at, and what the account is and has left."""
    ask_for_code(page)
    address = page.login.get_by_role("link")
    expected = {"href": f"{place.issuer.url}/codex/device", "target": "_blank", "rel": "noopener noreferrer"}
    assert {name: address.get_attribute(name) for name in expected} == expected
    page.button("Copy code").click()
    assert page.page.evaluate("() => navigator.clipboard.readText()") == USER_CODE
    place.issuer.approve()
    expect(page.login).to_contain_text("Logged in.")
    expect(page.codex).to_contain_text("is logged in")
    expect(page.codex).to_contain_text(EMAIL)
    for name, used in (("5-hour limit", "12"), ("weekly limit", "34")):
        expect(page.page.get_by_role("meter", name=name)).to_have_attribute("value", used)
        expect(page.page.get_by_text(f"{used} % used, resets at")).to_be_visible()
    decline_to_log_out(page)
    assert place.gateway.chat([{"say": ["told"]}]).json()["choices"][0]["message"]["content"] == "told"
    page.log_out()
    expect(page.codex).to_contain_text("not logged in")
    expect(page.page.get_by_role("meter")).to_have_count(0)
    assert place.gateway.chat([{"say": ["told"]}]).status_code == 502


def test_a_code_that_is_refused(page: FirstPage, place: Place) -> None:
    ask_for_code(page)
    place.issuer.refuse()
    expect(page.login).to_contain_text("device auth failed with status 400")
    expect(page.button("Log in to Codex")).to_be_enabled()
    expect(page.codex).to_contain_text("not logged in")


def test_who_leaves_cancels(page: FirstPage, place: Place) -> None:
    """The process that waited for the person serves others again."""
    ask_for_code(page)
    page.button("Cancel login").click()
    expect(page.login).to_contain_text("cancelled")
    assert place.gateway.chat([{"say": ["told"]}]).status_code == 502
    ask_for_code(page)
    page.page.goto("about:blank")
    assert place.gateway.chat([{"say": ["told"]}]).status_code == 502


def test_who_waits_for_a_code_can_cancel(page: FirstPage, place: Place) -> None:
    place.issuer.answers.clear()
    try:
        page.button("Log in to Codex").click()
        page.button("Cancel login").click()
        expect(page.login).to_contain_text("cancelled")
        expect(page.button("Log in to Codex")).to_be_enabled()
    finally:
        place.issuer.answers.set()


@pytest.mark.parametrize("loss", ["cut", "silent"])
def test_a_stream_that_was_lost(place: Place, open_tab: OpenTab, loss: str) -> None:
    """As a phone loses it that put the page to sleep: it says so, and begins anew."""
    tab = open_tab(place.gateway.base_url, script=f"({LOSES_STREAM})('/ui/login', '{loss}')")
    tab.page.clock.install()
    tab.page.goto(place.link)
    page = FirstPage(tab, place.gateway.base_url)
    page.button("Log in to Codex").click()
    if loss == "silent":
        expect(page.login).to_contain_text(USER_CODE)
        tab.page.clock.run_for(SILENCE_MS)
    expect(page.login).to_contain_text("connection was lost")
    ask_for_code(page)


def test_the_token_is_asked_for(place: Place, open_tab: OpenTab) -> None:
    """Of whoever comes by another way than the link; an open gateway asks for nothing else."""
    tab = open_tab(place.gateway.base_url, overlooks=" 403 ")
    page = FirstPage(tab, place.gateway.base_url).open()
    expect(page.codex).to_contain_text("not logged in")
    page.button("Log in to Codex").click()
    page.give_token("not-the-token")
    expect(page.token_dialog.get_by_role("alert")).to_contain_text("not the token")
    page.give_token(place.token)
    expect(page.login).to_contain_text(USER_CODE)
    page.button("Cancel login").click()
    expect(page.login).to_contain_text("cancelled")
