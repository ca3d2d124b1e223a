"""What `make bench` compares with can be compared with, and its rows say what happened."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.bench import burst, held, servers, watched
from tests.bench.crowd import ask_at_once
from tests.bench.load import DELTA, Client, Reply

pytestmark = pytest.mark.real


@pytest.fixture
def floor(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Server]:
    monkeypatch.setattr(servers, "STATE", tmp_path)
    with servers.run_floor() as floor:
        yield floor


def test_the_floor_runs_on_the_gateway_s_own_configuration(floor: servers.Server) -> None:
    client = Client(floor.port)
    replies = [client.post(path, b"{}").data for path in ("/stream/1/0.0", "/body")]
    client.close()
    assert all(DELTA.encode() in reply for reply in replies)


def test_many_clients_at_once_each_read_their_stream_to_its_end(floor: servers.Server) -> None:
    replies = ask_at_once(floor, "/stream/7/0.01", [b"{}"] * 20)
    assert [reply and held.is_whole(reply, 7) for reply in replies] == [True] * 20


def test_what_fails_among_many_is_counted(floor: servers.Server, capsys: pytest.CaptureFixture[str]) -> None:
    replies = ask_at_once(floor, "/nowhere", [b"{}"] * 3)
    row = burst.build_row("burst", replies)
    assert (row.gateway, row.met) == ("0 of 3 answered", False)
    assert capsys.readouterr().err.count("answered 404") == 3


SAID = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
BROKEN = b'data: {"error":{"message":"gone"}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(SAID + SAID + DONE, "word word ", id="whole"),
        pytest.param(SAID, None, id="cut-short"),
        pytest.param(SAID + BROKEN + DONE, None, id="failed-on-the-way"),
    ],
)
def test_only_an_answer_that_came_to_its_end_counts(data: bytes, text: str | None) -> None:
    assert burst.read_text(Reply(0.1, 0.1, "", data)) == text


def test_who_watches_costs_the_api_next_to_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a watcher adds is a look each second: 5 ms of it are 1.05 times a worker's tenth of a core.

    What the requests themselves cost meanwhile is a row of `make bench`.
    """
    monkeypatch.setattr(servers, "STATE", tmp_path)
    with servers.run_stand_in_gateway() as gateway:
        row = watched.compare(gateway, "gpt-5.5", 0.1)
        watched_ms, alone_ms = watched.measure_looks(gateway, 4)
    assert row.goal == "≤ 1.05x"
    assert watched_ms - alone_ms <= 5
