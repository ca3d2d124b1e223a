"""The gateway as it is deployed: behind a real nginx, as a service of a real systemd."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.e2e.front import NEEDED, Front, run_front
from tests.e2e.upstream import Upstream
from tests.support.gateway import Gateway, run_gateway, write_stand_in

KEY = "sk-of-a-client"
PIPE_LOG = "pipe.jsonl"


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway on the stand-in, and the nginx in front of it."""

    gateway: Gateway
    front: Front

    @property
    def pipe_log(self) -> str:
        """What gateway and codex said to each other."""
        return (self.gateway.state_dir / "empty" / PIPE_LOG).read_text()


@pytest.fixture(scope="session")
def _has_nginx() -> None:
    if not all(NEEDED):
        pytest.skip("needs nginx, openssl and curl (Debian: apt-get install nginx openssl curl)")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, _has_nginx: None) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    binary = write_stand_in(folder, log=PIPE_LOG)
    environ = {"CODEX_BIN": binary, "PROXY_API_KEY": KEY, "PROXY_WARM_PROCESSES": "1"}
    with run_gateway(folder, PROXY_TEST_ENDPOINTS="true", **environ) as gateway:
        port = int(gateway.base_url.rpartition(":")[2])
        with run_front(folder / "nginx", port) as front:
            yield Served(gateway, front)


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
