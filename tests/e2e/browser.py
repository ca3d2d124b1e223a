"""A real chromium, and a page in it that keeps account of what a page must not do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

try:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
except ImportError:  # a venv without the dev extra
    sync_playwright = expect = None  # type: ignore[assignment]

CHROMIUM = shutil.which("chromium")
OBSTACLE = (
    "needs playwright (pip install playwright)"
    if sync_playwright is None
    else ""
    if CHROMIUM
    else "needs chromium (Debian: apt-get install chromium)"
)
#: A name that is no loopback's, so that a browser trusts plain HTTP by it in little.
FAR_NAME = "gateway.test"
ARGUMENTS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    f"--host-resolver-rules=MAP {FAR_NAME} 127.0.0.1",
)
PATIENCE_MS = 10_000
#: A pattern that is found nowhere.
NOTHING = r"(?!)"
WEB = ("http", "https", "ws", "wss")
#: Chromium tells the console of most violations, but not of all.
TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`))"""


@contextmanager
def launch() -> Iterator[Browser]:
    """While it is open, this thread counts as one with a running asyncio loop."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """A page of a browser context of its own; `complaints` is what it did that a page must not do.

    What a test brings about itself it overlooks, by a pattern.
    """

    def __init__(
        self,
        browser: Browser,
        origins: tuple[str, ...],
        overlooks: str = NOTHING,
        script: str = "",
        **options: Any,
    ) -> None:
        """A script runs before those of each page."""
        self.complaints: list[str] = []
        self._origins = origins
        self._overlooks = re.compile(overlooks)
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(f"{TELL_VIOLATIONS}; {script}")
        self.context.on("page", self._watch)
        self.page: Page = self.context.new_page()

    def _watch(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._complain(f"page error: {error}"))
        page.on("request", lambda request: self._check_address(request.url))

    def _complain(self, complaint: str) -> None:
        if not self._overlooks.search(complaint):
            self.complaints.append(complaint)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._complain(f"{message.type}: {message.text} ({message.location['url']})")

    def _check_address(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in WEB and f"{parts.scheme}://{parts.netloc}" not in self._origins:
            self._complain(f"a request off the host: {url}")
