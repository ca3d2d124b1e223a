"""Gateways to test against: on the real codex with a scripted model, and on the stand-in."""

import json
import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, run_gateway, write_provider, write_stand_in
from tests.support.issuer import Issuer
from tests.support.places import FRESH, WARM, Place, run_place
from tests.support.scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        yield server


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[Gateway]:
    """The real codex binary behind the real server."""
    folder = tmp_path_factory.mktemp("gateway")
    provider = write_provider(folder, model.base_url)
    with run_gateway(folder, PROXY_CODEX_CONFIG_FILE=provider, PROXY_DEMO="true") as running:
        yield running


@pytest.fixture(scope="session")
def by_text(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[Gateway]:
    """A gateway that offers tools by text."""
    folder = tmp_path_factory.mktemp("sentinel")
    provider = write_provider(folder, model.base_url)
    with run_gateway(
        folder, PROXY_CODEX_CONFIG_FILE=provider, PROXY_TOOL_TRANSPORT="sentinel", PROXY_WARM_PROCESSES="1"
    ) as running:
        yield running


@pytest.fixture
def stand_in(tmp_path: pathlib.Path) -> Iterator[Callable[..., Gateway]]:
    """Starts a gateway on a stand-in with faults and settings of the test's choice."""
    with ExitStack() as stack:

        def start(faults: dict[str, Any] | None = None, ready: bool = True, **environ: str) -> Gateway:
            binary = write_stand_in(tmp_path, **(faults or {}))
            defaults = {"CODEX_BIN": binary, "PROXY_WARM_PROCESSES": "1"}
            return stack.enter_context(run_gateway(tmp_path, ready, **(defaults | environ)))

        yield start


@pytest.fixture(scope="session")
def brisk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway on the stand-in with short deadlines, for every fault that a script can tell."""
    folder = tmp_path_factory.mktemp("brisk")
    with run_gateway(
        folder,
        CODEX_BIN=write_stand_in(folder),
        PROXY_WARM_PROCESSES="1",
        PROXY_MAX_LINE_MB="1",
        PROXY_RPC_TIMEOUT_MS="2000",
        PROXY_FIRST_EVENT_TIMEOUT_MS="2000",
        PROXY_STREAM_IDLE_TIMEOUT_MS="2000",
    ) as running:
        yield running


StartPlace = Callable[..., Place]


@pytest.fixture(scope="module")
def start_place(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[StartPlace]:
    with ExitStack() as stack:

        def start(backend: str, stream: bool = True, **environ: str) -> Place:
            folder = tmp_path_factory.mktemp(backend)
            return stack.enter_context(run_place(folder, backend, model.base_url, stream, **environ))

        yield start


@pytest.fixture(scope="module")
def warm(start_place: StartPlace) -> list[Place]:
    return [
        start_place("stand-in", **WARM),
        start_place("stand-in", stream=False, **WARM),
        start_place("real", **WARM),
    ]


@pytest.fixture(scope="module")
def fresh(start_place: StartPlace) -> list[Place]:
    return [start_place("stand-in", **FRESH), start_place("real", **FRESH)]


def call_native(name: str, arguments: str) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


def call_by_text(name: str, arguments: str) -> dict[str, Any]:
    block = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    text = f"<tool_call>{block}</tool_call>"
    return {"say": [text[:7], text[7:20], text[20:]]}


def build_client(gateway: Gateway) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key="unused", max_retries=0)
