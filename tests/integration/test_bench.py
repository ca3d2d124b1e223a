"""What `make bench` compares with can be compared with, and its rows say what happened."""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.backend.calls import UNREAD_NOTIFICATIONS
from tests.bench import burst, cpu, hot_paths, processes, recording, servers, watched
from tests.bench.cases import DELTA_CASES
from tests.bench.crowd import ask_at_once
from tests.bench.load import DELTA, Reply
from tests.bench.swarm import Order, send_swarm
from tests.support.driver import Driver, Message, start_stand_in

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "STATE", tmp_path_factory.mktemp("floor"))
        with servers.run_floor() as floor:
            yield floor


ANSWER = b"data: word \n\n" * 7 + b"data: [DONE]\n\n"


def test_the_floor_gives_the_gateway_s_answers_on_its_own_configuration(floor: servers.Server) -> None:
    for answer in (ANSWER, b'{"content":"word "}'):
        path, _ = cpu.teach_floor(floor, answer, deltas=7)
        assert cpu.ask_once(floor, path, b"{}") == answer


def test_deltas_that_share_frames_are_no_measure_for_the_floor(floor: servers.Server) -> None:
    with pytest.raises(RuntimeError, match="100 deltas came as 8 frames"):
        cpu.teach_floor(floor, ANSWER, deltas=100)


def test_many_clients_at_once_each_read_their_stream_to_its_end(floor: servers.Server) -> None:
    path, _ = cpu.teach_floor(floor, ANSWER, pause_s=0.01)
    outcome = send_swarm(Order(floor.port, path, clients=20, requests=50, deltas=7), b"{}")
    assert (outcome.failed, len(outcome.first_s), len(outcome.whole_s)) == (0, 50, 50)
    assert all(first_s < whole_s for first_s, whole_s in zip(outcome.first_s, outcome.whole_s, strict=True))


@pytest.mark.parametrize(
    ("path", "deltas"),
    [pytest.param("/nowhere", 0, id="refused"), pytest.param("/", 8, id="cut-short")],
)
def test_answers_that_are_not_whole_are_counted(floor: servers.Server, path: str, deltas: int) -> None:
    known, _ = cpu.teach_floor(floor, ANSWER)
    order = Order(floor.port, known if path == "/" else path, clients=2, requests=6, deltas=deltas)
    assert send_swarm(order, b"{}").failed == 6


def test_what_fails_among_many_is_counted(floor: servers.Server, capsys: pytest.CaptureFixture[str]) -> None:
    replies = ask_at_once(floor, "/nowhere", [b"{}"] * 3)
    row = burst.build_row("burst", replies)
    assert (row.gateway, row.met) == ("0 of 3 answered", False)
    assert capsys.readouterr().err.count("answered 404") == 3


IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=_)[0-9a-f]{16}|(?<=msg_)0")
TIMES = re.compile(r"\b\d{10,13}\b|(?<=\"durationMs\": )\d+")
PROMPTS = [
    pytest.param([{"repeat": {"say": [DELTA], "times": 3}}], None, "turn/completed", id="text"),
    pytest.param(
        [{"repeat": {"say": [DELTA], "times": 3, "pause_s": 0.01}}], None, "turn/completed", id="slow"
    ),
    pytest.param(
        [{"call": {"name": "look_up", "arguments": '{"query":"xxx"}'}}],
        [{"call": {"argument_bytes": 3}}],
        "rawResponse/completed",
        id="call",
    ),
]


@pytest.mark.parametrize(("script", "quick_script", "last"), PROMPTS)
def test_the_quick_stand_in_says_what_the_other_says(
    tmp_path: pathlib.Path, script: list[object], quick_script: list[object] | None, last: str
) -> None:
    binary = recording.install_quick_codex(tmp_path, [])
    with (
        Driver([str(binary), "app-server"], {"PATH": os.environ["PATH"]}) as quick,
        start_stand_in() as other,
    ):
        said = [
            tell_turn(codex, prompt, last)
            for codex, prompt in ((quick, quick_script or script), (other, script))
        ]
    assert said[0] == said[1]


def tell_turn(codex: Driver, script: list[object], last: str) -> list[Message]:
    """What codex says of a turn, whatever the ids, the times and the prompt."""
    codex.initialize(UNREAD_NOTIFICATIONS)
    told = recording.read_turn(codex, recording.open_thread(codex), script, last)
    text = json.dumps([message for message in told if "auto-compact" not in json.dumps(message)])
    messages: list[Message] = json.loads(TIMES.sub("0", IDS.sub("ID", text)))
    return messages


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


BUSY_BEHIND = """
import time
input()
print(flush=True)
while time.process_time() < 0.1:
    pass
input()
"""


def test_what_a_process_does_behind_its_answer_is_counted() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BUSY_BEHIND], stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        cpu_s = processes.read_settled_cpu_s(process.pid)
        process.stdin.write(b"\n")
    assert cpu_s >= 0.1


STACKS = """\
gunicorn/app.py:run;app/handlers/chat.py:ask;orjson/dump.py:dump 3
gunicorn/app.py:run;app/lib/turn.py:feed 1
gunicorn/app.py:run;app/lib/turn.py:end 1
gunicorn/app.py:run;threading.py:wait 5"""


@pytest.mark.parametrize(
    ("by_room", "shares"),
    [
        pytest.param(True, {"gunicorn": 0.5, "app/handlers": 0.3, "app/lib": 0.2}, id="rooms"),
        pytest.param(
            False,
            {
                "gunicorn/app.py:run": 0.5,
                "app/handlers/chat.py:ask": 0.3,
                "app/lib/turn.py:feed": 0.1,
                "app/lib/turn.py:end": 0.1,
            },
            id="functions",
        ),
    ],
)
def test_time_is_whose_code_spends_it(by_room: bool, shares: dict[str, float]) -> None:
    assert hot_paths.find_shares(STACKS, by_room) == shares


def test_the_sampler_sees_the_worker_s_stacks(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "STATE", tmp_path)
    with servers.run_stand_in_gateway("tests.bench.sampled:app") as gateway:
        stacks = hot_paths.sample(gateway, DELTA_CASES[100], "gpt-5.5", 100)
    assert "app" in {room.partition("/")[0] for room in hot_paths.find_shares(stacks, by_room=True)}
