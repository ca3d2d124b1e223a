"""The stand-in's faults, and the steps that only it plays."""

import json
import signal
from pathlib import Path

import pytest

from tests.support.driver import Driver, Message, ProcessEndedError, start_stand_in


def read_end(driver: Driver) -> Message:
    """Read up to the end of a turn."""
    ended = driver.read_until(lambda message: message.get("method") == "turn/completed")
    return dict(ended["params"])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"boot": "die"}, (ProcessEndedError, BrokenPipeError), id="boot-die"),
        pytest.param({"boot": "hang"}, TimeoutError, id="boot-hang"),
        pytest.param({"boot": "garbage"}, ValueError, id="boot-garbage"),
        pytest.param({"boot": "slow:5"}, TimeoutError, id="boot-slow"),
        pytest.param({"on": {"initialize": "die"}}, ProcessEndedError, id="die"),
        pytest.param({"on": {"initialize": "hang"}}, TimeoutError, id="hang"),
        pytest.param({"on": {"initialize": "garbage"}}, ValueError, id="garbage"),
        pytest.param({"on": {"initialize": "late:5"}}, TimeoutError, id="late"),
    ],
)
def test_faults_at_the_start(config: Message, expected: type[Exception]) -> None:
    within_s = 0.5 if expected is TimeoutError else 10
    with start_stand_in(**config) as stand_in, pytest.raises(expected):
        stand_in.call("initialize", {}, within_s)


def test_faults_around_an_answer(tmp_path: Path) -> None:
    faults = {"account/read": "error", "model/list": "twice", "server/diagnostics": "late:0.05"}
    log = tmp_path / "log"
    with start_stand_in(on=faults, once=str(tmp_path / "once"), log=str(log)) as stand_in:
        stand_in.initialize()
        late = stand_in.send("server/diagnostics", {})
        assert stand_in.call("account/read", {})["error"]["code"] == -32603
        listed = stand_in.call("model/list", {})
        assert stand_in.read_until(lambda message: message.get("id") == listed["id"]) == listed
        stand_in.read_until(lambda message: message.get("id") == late)
        assert stand_in.call("no/such", {})["error"]["code"] == -32601
    with start_stand_in(on=faults, once=str(tmp_path / "once"), account=None) as second:
        assert second.call("account/read", {})["result"]["account"] is None
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["from"] for line in logged[:2]] == ["proxy", "codex"]
    assert logged[0]["msg"]["method"] == "initialize"


def test_a_thread_with_tools_can_be_refused() -> None:
    tool = {"type": "function", "name": "f", "description": "", "inputSchema": {}}
    with start_stand_in(refuse_tools=True) as stand_in:
        stand_in.initialize()
        assert "result" in stand_in.call("thread/start", {"dynamicTools": []})
        refused = stand_in.call("thread/start", {"dynamicTools": [tool]})
    assert refused["error"] == {"code": -32600, "message": "no tools here"}


def test_two_turns_run_at_once_on_one_pipe() -> None:
    with start_stand_in() as stand_in:
        first = stand_in.start_turn([{"say": ["a"]}, {"request": {"method": "ask"}}, {"say": ["b"]}])
        asked = stand_in.read_until(lambda message: message.get("method") == "ask")
        second = stand_in.start_turn([{"say": ["c", "d"], "pause_s": 0.01}])
        assert read_end(stand_in)["turn"]["id"] == second["turnId"]
        stand_in.write({"id": asked["id"], "result": {}})
        assert read_end(stand_in)["turn"]["id"] == first["turnId"]
    answer = json.dumps({"id": asked["id"], "result": {}})
    deltas = [message["params"] for message in stand_in.seen if "/delta" in message.get("method", "")]
    told = [(delta["turnId"], delta["delta"]) for delta in deltas]
    one, two = first["turnId"], second["turnId"]
    assert told == [(one, "a"), (two, "c"), (two, "d"), (one, answer), (one, "b")]


def test_steps_only_the_stand_in_plays() -> None:
    script = [
        {"unknown_notification": 2},
        {"retry": "Reconnecting... 1/5"},
        {"huge": 300_000},
        {"raw": '{"method": "raw", "params": {}}'},
        {"request": {"method": "item/permissions/requestApproval"}},
        {"reply_twice": True},
        {"error": {"message": "no", "codexErrorInfo": "other"}},
    ]
    with start_stand_in() as stand_in:
        stand_in.start_turn(script)
        asked = stand_in.read_until(
            lambda message: message.get("method") == "item/permissions/requestApproval"
        )
        stand_in.write({"id": asked["id"], "error": {"code": -1, "message": "declined"}})
        read_end(stand_in)
    methods = [message["method"] for message in stand_in.seen if "method" in message]
    assert methods[methods.index("stand_in/unknown/0") :] == [
        *("stand_in/unknown/0", "stand_in/unknown/1", "error", "stand_in/huge", "raw"),
        *("item/permissions/requestApproval", "item/started", "item/agentMessage/delta", "item/completed"),
        *("rawResponseItem/completed", "thread/status/changed", "error", "turn/completed"),
    ]
    assert (
        sum("method" not in message and message["id"] == stand_in.last_id for message in stand_in.seen) == 2
    )


@pytest.mark.parametrize("half", ["", '{"method": "ha'])
def test_a_process_that_dies_inside_a_line(half: str) -> None:
    with start_stand_in() as stand_in:
        stand_in.start_turn([{"half": half}, {"die": 3}])
        with pytest.raises(ProcessEndedError):
            read_end(stand_in)
        assert (stand_in.partial, stand_in.process.wait(5)) == (half.encode(), 3)


def test_a_process_that_stops_reading() -> None:
    with start_stand_in() as stand_in:
        stand_in.start_turn([{"stop_reading": True}, {"say": ["a"]}])
        read_end(stand_in)
        with pytest.raises(TimeoutError):
            stand_in.call("model/list", {}, within_s=0.3)


@pytest.mark.parametrize(
    ("ignored", "code"),
    [pytest.param([], -signal.SIGTERM, id="term"), pytest.param(["SIGTERM"], 0, id="eof")],
)
def test_how_it_ends(ignored: list[str], code: int) -> None:
    with start_stand_in(ignore=ignored) as stand_in:
        stand_in.initialize()
        stand_in.process.terminate()
        stand_in.call("model/list", {}) if ignored else None
        stand_in.stdin.close()
        assert stand_in.process.wait(5) == code


def test_an_ignored_interrupt() -> None:
    with start_stand_in(ignore=["turn/interrupt"]) as stand_in:
        turn = stand_in.start_turn([{"hang": True}])
        stand_in.send("turn/interrupt", turn)
        stand_in.call("model/list", {})
        with pytest.raises(TimeoutError):
            stand_in.read_until(lambda message: message.get("method") == "turn/completed", within_s=0.1)


def test_many_deltas_wait_for_their_reader() -> None:
    """What is not read does not keep the process from reading: an interrupt still comes through."""
    with start_stand_in() as stand_in:
        turn = stand_in.start_turn([{"repeat": {"say": ["x"], "times": 200_000}}])
        stand_in.send("turn/interrupt", turn)
        assert read_end(stand_in)["turn"]["status"] == "interrupted"
    assert len(stand_in.seen) < 50_000
