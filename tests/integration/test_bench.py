"""What `make bench` compares with can be compared with."""

import pathlib

import pytest

from tests.bench import servers
from tests.bench.load import DELTA, Client

pytestmark = pytest.mark.real


def test_the_floor_runs_on_the_gateway_s_own_configuration(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "STATE", tmp_path)
    with servers.run_floor() as floor:
        client = Client(floor.port)
        replies = [client.post(path, b"{}").data for path in ("/stream/1/0.0", "/body")]
        client.close()
    assert all(DELTA.encode() in reply for reply in replies)
