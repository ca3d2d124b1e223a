"""The gateway as it is deployed: behind a real nginx, as a service of a real systemd; seen in a browser."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.browser import OBSTACLE, Tab, launch
from tests.e2e.first_page import FirstPage
from tests.e2e.foreign_page import ForeignPage
from tests.e2e.front import NEEDED, Front, run_front
from tests.e2e.upstream import Upstream
from tests.support.gateway import Gateway, run_gateway, write_stand_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KEY = "sk-of-a-client"
ADMIN_KEY = "sk-of-an-operator"
PIPE_LOG = "pipe.jsonl"
#: The folder that is to get pictures of the page; in those the gateway has its usual address.
PICTURES = os.environ.get("PICTURES")


def read_pipe_log(gateway: Gateway) -> str:
    """What gateway and codex said to each other."""
    return (gateway.state_dir / "empty" / PIPE_LOG).read_text()


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway on the stand-in, and the nginx in front of it."""

    gateway: Gateway
    front: Front

    @property
    def pipe_log(self) -> str:
        return read_pipe_log(self.gateway)


@pytest.fixture(scope="session")
def _has_nginx() -> None:
    if not all(NEEDED):
        pytest.skip("needs nginx, openssl and curl (Debian: apt-get install nginx openssl curl)")


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway on the stand-in, with keys."""
    folder = tmp_path_factory.mktemp("standing")
    binary = write_stand_in(folder, log=PIPE_LOG)
    environ = {"CODEX_BIN": binary, "PROXY_API_KEY": KEY, "PROXY_WARM_PROCESSES": "1"}
    environ |= {"PROXY_ADMIN_KEY": ADMIN_KEY}
    environ |= {"PROXY_TEST_ENDPOINTS": "true", "PROXY_SSE_KEEPALIVE_MS": "200"}
    with run_gateway(folder, **environ) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, _has_nginx: None, standing: Gateway) -> Iterator[Served]:
    port = int(standing.base_url.rpartition(":")[2])
    with run_front(tmp_path_factory.mktemp("served") / "nginx", port) as front:
        yield Served(standing, front)


StartFront = Callable[[int], Front]


@pytest.fixture
def start_front(tmp_path: pathlib.Path, _has_nginx: None) -> Iterator[StartFront]:
    """Puts an nginx in front of any port."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(run_front(tmp_path / "nginx", port))


@pytest.fixture
def dying() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def hanging() -> Iterator[Upstream]:
    with Upstream(hangs=True) as upstream:
        yield upstream


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all; of this folder only, as it leaves its mark on the thread while it is open."""
    if OBSTACLE:
        pytest.skip(OBSTACLE)
    with launch() as browser:
        yield browser


OpenTab = Callable[..., Tab]


@contextmanager
def run_tabs(browser: Browser) -> Iterator[OpenTab]:
    """Opens tabs that share nothing, on pages of these origins; whatever one complains of fails the test."""
    tabs: list[Tab] = []

    def open_one(*origins: str, **options: Any) -> Tab:
        tabs.append(Tab(browser, origins, **options))
        return tabs[-1]

    try:
        yield open_one
    finally:
        for tab in tabs:
            tab.context.close()
    assert [complaint for tab in tabs for complaint in tab.complaints] == []


@pytest.fixture
def open_tab(chromium: Browser) -> Iterator[OpenTab]:
    with run_tabs(chromium) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def keep_tab(chromium: Browser) -> Iterator[OpenTab]:
    """For a tab that keeps nothing from one test to the next."""
    with run_tabs(chromium) as open_one:
        yield open_one


@pytest.fixture(scope="session")
def foreign_page() -> Iterator[ForeignPage]:
    with ForeignPage() as page:
        yield page


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """As `make run` serves it: the real codex, the demo model, no keys; its requests can be looked into."""
    environ = {"PROXY_DEMO": "true", "PROXY_WARM_PROCESSES": "1"}
    environ |= {"PROXY_LOG_BODIES": "true", "PROXY_LOG_LEVEL": "debug"}
    environ |= {"PROXY_PORT": "11435" if PICTURES else "0"}
    with run_gateway(tmp_path_factory.mktemp("demo"), **environ) as gateway:
        yield gateway


OpenPage = Callable[..., FirstPage]


@pytest.fixture
def open_page(open_tab: OpenTab) -> OpenPage:
    """Opens a view of a gateway's first page; a key is given when the page asks, which it does at a 401."""

    def open_one(gateway: Gateway, view: str = "Start", key: str = "", **options: Any) -> FirstPage:
        expected = {"overlooks": " 401 "} if key else {}
        tab = open_tab(gateway.base_url, **(expected | options))
        return FirstPage(tab, gateway.base_url, key).open(view)

    return open_one
