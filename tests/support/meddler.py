#!/usr/bin/env python3
"""A codex binary with someone on its pipe: lines pass both ways, until it strikes as a plan says.

MEDDLER is a JSON object: `command` runs behind it; `folder` holds a plan, looked for at every line, and notes
    plan.json       what to do, and when; taken away by the one process that strikes, unless it says `every`
    struck-<pid>    this process struck
    lines-<pid>     what codex said, a name a line: a notification's method, or that of the call it answers
    answers-<pid>   what the gateway answered to the meddler's own questions

A plan has `do`, a name in STRIKES, maybe its argument `with` and a second strike `also`, and one of these, or
none for the start:
    before          a call of this method is on its way to codex
    after           codex answered a call of this method, or sent a notification of it
    after_line      codex said so many lines
"""

import ctypes
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

# started by its path, from any folder
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from tests.support.meddler_strikes import STRIKES, alter

Message = dict[str, Any]

PR_SET_PDEATHSIG = 1
READ_BYTES = 1 << 16
EOF_GRACE_S = 1
READ_GRACE_S = 1
#: How many of the lines behind a `mangle` are altered.
ALTERED = 0.15


class Meddler:
    """Two pumps, a thread each; a strike runs in the one whose line it was waiting for."""

    def __init__(self, command: list[str], folder: str) -> None:
        self.folder = folder
        #: What has no effect: methods, SIGTERM, EOF.
        self.ignored: frozenset[str] = frozenset()
        self.is_silent = False
        self.is_deaf = False
        #: A line that is to pass behind the next of that name, or of any.
        self.held = b""
        self.held_until: str | None = None
        #: Alters lines, until the turn ends.
        self.rng: random.Random | None = None
        self._calls: dict[Any, str] = {}
        self._asked: set[str] = set()
        self._line_count = 0
        self._planning = threading.Lock()
        self._telling = threading.Lock()
        pipe = subprocess.PIPE
        # The kernel ends it with us: a SIGKILL reaches both.
        self._child = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            bufsize=0,
            preexec_fn=die_with_parent,  # noqa: PLW1509  no thread runs yet
        )
        assert self._child.stdin
        assert self._child.stdout
        self._codex_in, self._codex_out = self._child.stdin.fileno(), self._child.stdout.fileno()

    def run(self) -> None:
        self.strike(b"")
        threading.Thread(target=self.pass_calls_on, daemon=True).start()
        for line in read_lines(self._codex_out):
            self.take_line(line)
        os._exit(self._child.wait() & 0xFF)

    def end(self, signum: int, frame: object) -> None:
        """SIGTERM ends it, as it ends codex."""
        if "SIGTERM" not in self.ignored:
            self.die()

    def die(self) -> NoReturn:
        """As the kernel ends a process that takes too much memory."""
        self._child.kill()
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit

    def freeze(self) -> None:
        """Neither a SIGTERM nor the end of input is noticed any more."""
        self._child.send_signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)

    def pass_calls_on(self) -> None:
        for line in read_lines(0):
            if self.is_deaf:
                wait_for_ever()
            self.take_call(line)
        if "EOF" in self.ignored:
            wait_for_ever()
        os.close(self._codex_in)
        try:
            self._child.wait(EOF_GRACE_S)
        except subprocess.TimeoutExpired:
            self.die()

    def take_call(self, line: bytes) -> None:
        message = parse(line)
        method, key = message.get("method"), json.dumps(message.get("id"))
        if method is None and key in self._asked:
            self.note("answers", line)
            return
        if method and "id" in message:
            self._calls[key] = method
        self.strike(b"", before=method)
        if method not in self.ignored:
            write_all(self._codex_in, line)

    def take_line(self, line: bytes) -> None:
        message = parse(line)
        name = message.get("method") or self._calls.get(json.dumps(message.get("id")), "?")
        self._line_count += 1
        self.note("lines", name.encode() + b"\n")
        if not self.strike(line, after=name, after_line=self._line_count):
            self.tell(line if self.rng is None else alter(line, self.rng, ALTERED))
            self.release(name)
        if name == "turn/completed":
            self.rng = None

    def release(self, name: str) -> None:
        """Let a line that was held pass, behind the one it had to wait for, and with a read of its own."""
        if self.held and self.held_until in (None, name):
            held, self.held = self.held, b""
            self.pass_on(b"")
            self.tell(held)

    def tell(self, data: bytes) -> None:
        """Write to the gateway."""
        if self.is_silent:
            return
        with self._telling:
            try:
                write_all(1, data)
            except BrokenPipeError:
                if "EOF" not in self.ignored:
                    self.die()

    def pass_on(self, line: bytes) -> None:
        """Write a line and let the gateway read it, so that what follows comes with a read of its own."""
        self.tell(line)
        deadline_s = time.monotonic() + READ_GRACE_S
        while count_unread(1) and time.monotonic() < deadline_s:
            time.sleep(0.001)

    def ask(self, question: Message) -> None:
        """Send the gateway a request of our own; codex never hears of its answer."""
        self._asked.add(json.dumps(question["id"]))
        self.tell(json.dumps(question).encode() + b"\n")

    def strike(self, line: bytes, **moment: Any) -> bool:
        """Do what a plan has for this moment, if there is one; the strike passes the line on, or not."""
        plan = self.take_plan(moment)
        if plan is None:
            return False
        STRIKES[plan["do"]](self, line, plan.get("with"))
        if "also" in plan:
            STRIKES[plan["also"]](self, b"", None)
        return True

    def take_plan(self, moment: Message) -> Message | None:
        path = f"{self.folder}/plan.json"
        with self._planning:
            try:
                with open(path, "rb") as file:
                    plan: Message = json.load(file)
                if not is_due(plan, moment):
                    return None
                if not plan.get("every"):
                    os.rename(path, f"{self.folder}/taken")
            except FileNotFoundError:  # also when another process was quicker
                return None
        self.note("struck", b"")
        return plan

    def note(self, kind: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        note = os.open(f"{self.folder}/{kind}-{os.getpid()}", flags, 0o600)
        os.write(note, data)
        os.close(note)


def is_due(plan: Message, moment: Message) -> bool:
    wanted = {key: plan[key] for key in ("before", "after", "after_line") if key in plan}
    return moment.items() >= wanted.items() if wanted else not moment


def parse(line: bytes) -> Message:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def read_lines(fd: int) -> Iterator[bytes]:
    """Whole lines, their ends included, up to the end of input."""
    rest = b""
    while data := os.read(fd, READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in lines)


def write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def count_unread(fd: int) -> int:
    """The bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def wait_for_ever() -> None:
    threading.Event().wait()


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    config = json.loads(os.environ["MEDDLER"])
    command = [*config["command"], *arguments]
    if "app-server" not in arguments:
        os.execv(command[0], command)
    die_with_parent()
    meddler = Meddler(command, config["folder"])
    signal.signal(signal.SIGTERM, meddler.end)
    meddler.run()


if __name__ == "__main__":
    main(sys.argv[1:])
