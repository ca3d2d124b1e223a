"""The pipe against real child processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from app.backend.pipe import MAX_UNREAD_BYTES, Pile, Pipe
from app.lib.errors import BackendTimeout, BackendUnavailable, ProcessFailed

MIB = 1024 * 1024
PATIENCE_S = 20.0
SILENCE_S = 0.02

ECHO = """
import os
while data := os.read(0, 65536):
    while data:
        data = data[os.write(1, data):]
"""
SILENT = "import signal; signal.pause()"
#: Fills its own output before it looks at its input, as a busy codex does.
TALKS_FIRST = """
import sys
for _ in range(5):
    sys.stdout.buffer.write(b"x" * 1_000_000 + b"\\n")
sys.stdout.buffer.flush()
sys.stdout.buffer.write(b"%d\\n" % len(sys.stdin.buffer.readline()))
"""

Spawn = Callable[..., tuple[Pipe, "subprocess.Popen[bytes]"]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    started: list[tuple[Pipe, subprocess.Popen[bytes]]] = []

    def start(code: str, max_line_bytes: int = 64 * MIB) -> tuple[Pipe, subprocess.Popen[bytes]]:
        pipe = Pipe(max_line_bytes)
        command = [sys.executable, "-S", "-E", "-c", code]
        child = subprocess.Popen(command, stdin=pipe.child_stdin_fd, stdout=pipe.child_stdout_fd)
        pipe.close_child_ends()
        started.append((pipe, child))
        return pipe, child

    yield start
    for pipe, child in started:
        pipe.close()
        child.kill()
        child.wait()


def receive(pipe: Pipe, count: int) -> list[bytes]:
    """The next lines, however many reads they take."""
    deadline_s = time.monotonic() + PATIENCE_S
    lines: list[bytes] = []
    while len(lines) < count and time.monotonic() < deadline_s:
        lines += pipe.receive(1)
    return lines


def measure_silence(pipe: Pipe) -> float:
    """How long a wait for nothing takes: less than asked for means that something wakes it."""
    from_s = time.monotonic()
    assert pipe.receive(SILENCE_S) == []
    return time.monotonic() - from_s


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"one"], id="a-line"),
        pytest.param([b"one", b"two", b"three"], id="three-lines"),
        pytest.param([b"x" * 5 * MIB, b"y"], id="five-megabytes-come-back-while-they-go-out"),
    ],
)
def test_what_is_sent_comes_back(spawn: Spawn, lines: list[bytes]) -> None:
    pipe, _ = spawn(ECHO)
    pipe.send(b"".join(line + b"\n" for line in lines), PATIENCE_S)
    assert receive(pipe, len(lines)) == lines


def test_a_child_that_writes_first_is_read_while_we_write(spawn: Spawn) -> None:
    pipe, _ = spawn(TALKS_FIRST)
    pipe.send(b"z" * 5_000_000 + b"\n", PATIENCE_S)
    assert [(len(line), line[-1:]) for line in receive(pipe, 6)] == [(1_000_000, b"x")] * 5 + [(7, b"1")]


def test_a_child_that_does_not_read_is_waited_for_only_so_long(spawn: Spawn) -> None:
    pipe, _ = spawn(SILENT)
    with pytest.raises(BackendTimeout, match=r"^Codex did not take the request in time\.$"):
        pipe.send(b"x" * MIB, 0.05)


def test_silence_is_no_line(spawn: Spawn) -> None:
    pipe, _ = spawn(SILENT)
    assert (pipe.receive(0), pipe.receive(-1), pipe.receive(0.01)) == ([], [], [])


def test_a_line_without_end(spawn: Spawn) -> None:
    pipe, _ = spawn("import sys; sys.stdout.write('x' * 101); sys.stdout.flush(); sys.stdin.read()", 100)
    with pytest.raises(BackendUnavailable, match=r"^Codex sent a line longer than PROXY_MAX_LINE_MB\.$"):
        receive(pipe, 1)


def test_the_last_lines_before_the_end_are_read(spawn: Spawn) -> None:
    pipe, child = spawn("print('one'); print('two'); print('half', end='')")
    child.wait()
    assert receive(pipe, 2) == [b"one", b"two"]
    with pytest.raises(BackendUnavailable, match=r"^The codex process ended\.$"):
        pipe.receive(PATIENCE_S)


def test_the_end_is_noticed_while_writing(spawn: Spawn) -> None:
    pipe, child = spawn("")
    child.wait()
    with pytest.raises(BackendUnavailable, match=r"^Codex stopped taking requests\.$"):
        pipe.send(b"x" * MIB, PATIENCE_S)


def test_the_end_is_noticed_while_waiting_to_write(spawn: Spawn) -> None:
    """It read a little and died: the write had begun, and would wait for room that never comes."""
    pipe, _ = spawn("import os; os.read(0, 1)")
    with pytest.raises(
        BackendUnavailable, match=r"^(The codex process ended|Codex stopped taking requests)\.$"
    ):
        pipe.send(b"x" * MIB, PATIENCE_S)


def test_a_write_that_is_stuck_yields(spawn: Spawn) -> None:
    """Or nobody would look at the clock, the client or the drain meanwhile."""
    pipe, _ = spawn(SILENT)
    ticks: list[None] = []
    with pytest.raises(BackendTimeout):
        ticks.extend(pipe.sending(b"x" * MIB, 0.2, 0.02))
    assert len(ticks) >= 3


@pytest.mark.parametrize(
    ("lengths", "is_held"),
    [
        pytest.param([MAX_UNREAD_BYTES // 10] * 10, True, id="within-bounds"),
        pytest.param([3 * MAX_UNREAD_BYTES, 10, 10], True, id="one-line-of-any-length"),
        pytest.param([MAX_UNREAD_BYTES // 10] * 12, False, id="without-end"),
        pytest.param([MAX_UNREAD_BYTES, MAX_UNREAD_BYTES + 1, 1], False, id="two-long-lines"),
    ],
)
def test_a_pile_has_its_bounds(lengths: list[int], is_held: bool) -> None:
    pile, line = Pile(), bytes(max(lengths))
    with contextlib.nullcontext() if is_held else pytest.raises(ProcessFailed, match="without end"):
        for length in lengths:
            pile.add(line[:length])


def test_what_piles_up_while_writing_is_bounded(spawn: Spawn) -> None:
    pipe, _ = spawn(r"import os" + "\nwhile True: os.write(1, b'x' * 999 + b'\\n')")
    with pytest.raises(ProcessFailed, match="without end"):
        pipe.send(b"x" * MIB, PATIENCE_S)
