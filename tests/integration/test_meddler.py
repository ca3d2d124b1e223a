"""The meddler itself: what it does to a pipe, and that it leaves nobody behind."""

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.driver import Driver, ProcessEndedError
from tests.support.gateway import wait_until, write_stand_in
from tests.support.meddled import write_meddler
from tests.support.meddler_strikes import HALF
from tests.support.processes import find_children, is_running

StartMeddler = Callable[..., Driver]


@pytest.fixture
def start(tmp_path: pathlib.Path) -> StartMeddler:
    """Starts the stand-in behind a meddler with a plan."""
    folder = tmp_path / "meddler"
    binary = write_meddler(folder, [write_stand_in(tmp_path)])

    def start_driver(**plan: Any) -> Driver:
        if plan:
            (folder / "plan.json").write_text(json.dumps(plan))
        return Driver([binary, "app-server"], {"PATH": os.environ["PATH"]})

    return start_driver


def send_two_calls(driver: Driver) -> None:
    driver.send(
        "initialize", {"capabilities": {"optOutNotificationMethods": ["remoteControl/status/changed"]}}
    )
    driver.send("model/list", {})


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        pytest.param({}, ["1", "2"], id="nothing"),
        pytest.param({"do": "die", "after": "turn/start"}, ["1", "2"], id="not-due"),
        pytest.param({"do": "repeat", "with": 2, "after": "initialize"}, ["1", "1", "1", "2"], id="repeat"),
        pytest.param({"do": "hold", "after_line": 1}, ["2", "1"], id="hold"),
        pytest.param({"do": "reply_to_nobody", "with": [7], "after_line": 1}, ["1", "7", "2"], id="nobody"),
        pytest.param({"do": "long", "with": 2, "after_line": 1}, ["1", "meddler/long", "2"], id="long"),
        pytest.param({"do": "flood", "with": 1000}, [*["meddler/flood"] * 1000, "1", "2"], id="flood"),
        pytest.param({"do": "raw", "with": '{"id":8}', "after_line": 1}, ["1", "8", "2"], id="raw"),
    ],
)
def test_what_passes(start: StartMeddler, plan: dict[str, Any], names: list[str]) -> None:
    with start(**plan) as meddler:
        send_two_calls(meddler)
        meddler.read_until(lambda _: len(meddler.seen) == len(names))
    assert [str(message.get("method") or message["id"]) for message in meddler.seen] == names


@pytest.mark.parametrize("do", ["silence", "freeze", "deaf"])
def test_what_does_not_pass(start: StartMeddler, do: str) -> None:
    with start(do=do, before="initialize") as meddler:
        send_two_calls(meddler)
        with pytest.raises(TimeoutError):
            meddler.read_until(lambda message: message["id"] == 2, within_s=0.5)


@pytest.mark.parametrize(("do", "partial"), [("die", b""), ("half", HALF)])
def test_how_it_dies(start: StartMeddler, do: str, partial: bytes) -> None:
    with start(do=do, after="initialize") as meddler:
        send_two_calls(meddler)
        with pytest.raises(ProcessEndedError):
            meddler.read_until(lambda message: message["id"] == 2)
        assert (len(meddler.seen), meddler.partial) == (1, partial)
        assert meddler.process.wait(5) == -signal.SIGKILL


def test_its_own_questions(start: StartMeddler, tmp_path: pathlib.Path) -> None:
    """Codex hears neither of them nor of their answers."""
    asked = {"id": 1, "method": "ask"}
    with start(**{"do": "ask", "with": [asked], "after": "initialize"}) as meddler:
        send_two_calls(meddler)
        assert meddler.read_until(lambda message: "method" in message) == asked
        meddler.write({"id": 1, "result": {}})
        told = wait_until(lambda: "".join(map(pathlib.Path.read_text, tmp_path.glob("meddler/answers-*"))))
        assert json.loads(told) == {"id": 1, "result": {}}


STUBBORN = {"do": "ignore", "with": ["SIGTERM", "EOF"]}


@pytest.mark.parametrize(
    ("plan", "ends"),
    [
        pytest.param({}, [signal.SIGTERM], id="term"),
        pytest.param({}, [signal.SIGKILL], id="kill"),
        pytest.param({}, ["EOF"], id="eof"),
        pytest.param({"do": "deaf"}, [signal.SIGTERM], id="deaf"),
        pytest.param({"do": "freeze"}, [signal.SIGKILL], id="frozen"),
        pytest.param(STUBBORN, ["EOF", signal.SIGTERM, signal.SIGKILL], id="stubborn"),
    ],
)
def test_nobody_is_left(start: StartMeddler, plan: dict[str, Any], ends: list[Any]) -> None:
    """Only the last of these ends it, and what runs behind it ends too."""
    with start(**plan) as meddler:
        [codex] = wait_until(lambda: find_children(meddler.process.pid))
        for ignored in ends[:-1]:
            bring_end(meddler, ignored)
            with pytest.raises(subprocess.TimeoutExpired):
                meddler.process.wait(0.3)
        bring_end(meddler, ends[-1])
        meddler.process.wait(5)
        wait_until(lambda: not is_running(codex), 2)


def bring_end(driver: Driver, end: Any) -> None:
    if end == "EOF":
        driver.stdin.close()
    else:
        driver.process.send_signal(end)


def test_other_commands_go_straight_through(tmp_path: pathlib.Path) -> None:
    binary = write_meddler(tmp_path / "meddler", [write_stand_in(tmp_path)])
    told = subprocess.run([binary, "--version"], capture_output=True, check=True)
    assert told.stdout == b"codex-cli 0.163.0\n"
