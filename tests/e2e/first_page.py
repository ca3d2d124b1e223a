"""The first page as a person meets it: its parts by what they are and what they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.e2e.browser import Tab, expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

VIEWS = ("Start", "Playground", "Live")


class FirstPage:
    def __init__(self, tab: Tab, base_url: str, key: str = "") -> None:
        """With a key it is given when the page asks."""
        self.page: Page = tab.page
        self._base_url = base_url
        self._key = key

    def open(self, view: str = "Start") -> FirstPage:
        self.page.goto(f"{self._base_url}/#{view.lower()}")
        if self._key:
            self.give_key(self._key)
        expect(self.heading(view)).to_be_visible()
        return self

    def heading(self, view: str) -> Locator:
        return self.page.get_by_role("heading", name=view, exact=True, level=1)

    def link(self, view: str) -> Locator:
        return self.page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def key_dialog(self) -> Locator:
        return self.page.get_by_role("dialog", name="Access key")

    @property
    def token_dialog(self) -> Locator:
        return self.page.get_by_role("dialog", name="Page token")

    @property
    def log_out_dialog(self) -> Locator:
        return self.page.get_by_role("dialog", name="Log out of Codex?")

    @property
    def codex(self) -> Locator:
        return self.page.get_by_role("status", name="Codex")

    @property
    def login(self) -> Locator:
        return self.page.get_by_role("region", name="Login")

    def log_out(self) -> None:
        self.button("Log out").click()
        self.log_out_dialog.get_by_role("button", name="Yes, log out").click()

    def give_key(self, key: str) -> None:
        self.key_dialog.get_by_label("Key", exact=True).fill(key)
        self.key_dialog.get_by_role("button", name="Use this key").click()

    def give_token(self, token: str) -> None:
        self.token_dialog.get_by_label("Token", exact=True).fill(token)
        self.token_dialog.get_by_role("button", name="Use this token").click()

    def overflow(self) -> int:
        """By how many pixels the page is wider than what shows it."""
        wider: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wider


class Playground:
    def __init__(self, first_page: FirstPage) -> None:
        self._first_page = first_page
        self.page = first_page.page
        self.log = self.page.get_by_role("log", name="Conversation")
        self.answers = self.log.get_by_role("article", name="Answer", exact=True)
        self.stop = first_page.button("Stop")

    def choose(self, **choices: str) -> None:
        """`endpoint="Responses"`, `output_mode=...`: the selects, by their labels."""
        for name, choice in choices.items():
            label = name.replace("_", " ").capitalize()
            self.page.get_by_label(label, exact=True).select_option(choice)

    def send(self, text: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(text)
        self._first_page.button("Send").click()

    def wait_for_end(self) -> None:
        expect(self._first_page.button("Send")).to_be_enabled()
        expect(self.stop).to_be_disabled()

    def call(self, name: str) -> Locator:
        return self.log.get_by_role("article", name=f"Call of {name}")

    def frames(self) -> list[str]:
        """The frames as they are shown, verbatim."""
        return self.page.get_by_role("list", name="Frames").get_by_role("code").all_text_contents()

    def figures(self) -> dict[str, str]:
        figures = self.page.get_by_role("region", name="Figures")
        names = figures.get_by_role("term").all_text_contents()
        return dict(zip(names, figures.get_by_role("definition").all_text_contents(), strict=True))


class LiveView:
    def __init__(self, first_page: FirstPage) -> None:
        self.first_page = first_page
        self.page = first_page.page
        self.connection = self.page.get_by_role("status", name="Connection")
        table = self.page.get_by_role("table", name="Last requests")
        self.all_rows = table.get_by_role("row")
        #: Of chats; the page itself asks for the models.
        self.rows = self.all_rows.filter(has_text="POST /v1/chat/completions")

    def wait_for(self, **figures: str) -> None:
        """Until these figures of now are so."""
        now = self.page.get_by_role("region", name="Now")
        for name, figure in figures.items():
            term = self.page.get_by_role("term").filter(has_text=re.compile(f"^{name}$"))
            expect(now.locator("div").filter(has=term).get_by_role("definition")).to_have_text(figure)


def find_color(locator: Locator, name: str) -> tuple[float, ...]:
    """A colour of an element, as its red, green and blue."""
    told: str = locator.evaluate("(node, name) => getComputedStyle(node).getPropertyValue(name)", name)
    return tuple(map(float, re.findall(r"[\d.]+", told)[:3]))


def find_contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """As WCAG reckons it: from 1 to 21."""
    light, dark = sorted((find_luminance(one), find_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def find_luminance(color: tuple[float, ...]) -> float:
    shares = [each / 255 for each in color]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
