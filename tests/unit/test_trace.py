"""What a log tells of one request."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import orjson
import pytest

from app.__main__ import main
from app.trace import render, stitch
from tests.support.gateway import ROOT


def line(at_s: float, message: str, **fields: Any) -> str:
    """A line of a log that began on the first of June; `at_s` may have fractions."""
    second, fraction = divmod(round(at_s * 1_000_000), 1_000_000)
    time = f"2026-06-01T00:{second // 60:02}:{second % 60:02}.{fraction:06}+00:00"
    return orjson.dumps({"time": time, "level": "info", "message": message} | fields).decode()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], [], id="an-empty-log"),
        pytest.param(
            [line(1, "a", request_id="mine"), line(2, "b", request_id="other"), line(3, "c")],
            ["a"],
            id="its-own-lines",
        ),
        pytest.param(
            [line(3, "a", request_id="mine"), line(1, "b", request_id="mine")],
            ["a", "b"],
            id="in-the-order-of-the-log",
        ),
        pytest.param(
            [
                line(1, "a", request_id="mine", codex_pid=7),
                line(2, "b", codex_pid=7),
                line(2, "c", codex_pid=8),
            ],
            ["a", "b"],
            id="the-end-of-its-process",
        ),
        pytest.param(
            [
                line(1, "a", codex_pid=7),
                line(5, "b", request_id="mine", codex_pid=7),
                line(6, "c", codex_pid=7),
            ],
            ["b", "c"],
            id="not-what-a-process-of-that-number-did-before",
        ),
        pytest.param(
            [
                line(1, "a", request_id="mine", codex_pid=7),
                line(11, "b", codex_pid=7),
                line(11.1, "c", codex_pid=7),
            ],
            ["a", "b"],
            id="nor-long-after",
        ),
        pytest.param(
            [line(1, "a", request_id="mine", codex_pid=7), line(2, "b", request_id="other", codex_pid=7)],
            ["a"],
            id="nor-what-it-did-for-another",
        ),
        pytest.param(
            [line(1, "a", request_id="mine", codex_pid=None), line(2, "b", codex_pid=None), line(2, "c")],
            ["a"],
            id="no-process",
        ),
        pytest.param([line(1, "a", request_id="mine-too")], [], id="to-the-letter"),
        pytest.param(
            [
                "[2026-06-01] [1] [ERROR] gunicorn's own\n",
                "{half a line",
                '{"request_id": "mine"}',
                "[1, 2]",
                "",
                f"Jun 01 00:00:01 box gateway[1]: {line(1, 'a', request_id='mine')}\n",
            ],
            ["a"],
            id="among-others-and-behind-a-supervisors-words",
        ),
    ],
)
def test_stitch(lines: list[str], expected: list[str]) -> None:
    assert [each["message"] for each in stitch(lines, "mine")] == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(
            {"time": "T", "level": "info", "message": "request", "request_id": "mine", "status": 200},
            'T info    request {"status":200}',
            id="all",
        ),
        pytest.param({"time": "T"}, "T          {}", id="hardly-anything"),
    ],
)
def test_render(told: dict[str, Any], expected: str) -> None:
    assert render(told) == expected


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "gateway.log"
    lines = [line(1, "request", request_id="mine", status=200), line(2, "request", request_id="other")]
    path.write_bytes(b"\xff no text\n" + "\n".join(lines).encode())
    return path


TOLD = '2026-06-01T00:00:01.000000+00:00 info    request {"status":200}\n'


def test_the_command_reads_a_file(log: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["trace", "mine", str(log)]), *capsys.readouterr()) == (0, TOLD, "")


def test_the_command_reads_its_input(log: pathlib.Path) -> None:
    command = [sys.executable, "-m", "app", "trace", "mine"]
    with open(log, "rb") as lines:
        assert subprocess.check_output(command, stdin=lines, cwd=ROOT, text=True) == TOLD


def test_the_command_says_so_when_there_is_nothing(
    log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(["trace", "nobody's", str(log)]), *capsys.readouterr()) == (
        1,
        "",
        "codex-gateway: no line of the log is about nobody's\n",
    )


def test_the_command_says_what_is_in_the_way(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nothing"
    told = main(["trace", "mine", str(path)]), *capsys.readouterr()
    assert told == (1, "", f"codex-gateway: {path}: No such file or directory\n")
