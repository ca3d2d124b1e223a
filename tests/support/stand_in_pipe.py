"""The stand-in's end of the pipe."""

import json
import os
import select

from tests.support.stand_in_wire import encode


class Pipe:
    """Stdin and stdout as lines; what stdout does not take is held, so that reading goes on."""

    def __init__(self, log_path: str | None) -> None:
        self.held = bytearray()
        self.partial = b""
        self.reading = True
        self.log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log_path else None
        os.set_blocking(1, False)

    def write(self, data: bytes) -> None:
        self.held += data
        for line in data.splitlines() if self.log is not None else ():
            self.record("codex", line)

    def flush(self) -> None:
        try:
            while self.held:
                del self.held[: os.write(1, self.held)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            os._exit(0)

    def flush_all(self, within_s: float) -> None:
        """Wait for the reader, but not for ever."""
        writable = select.poll()
        writable.register(1, select.POLLOUT)
        self.flush()
        while self.held and writable.poll(within_s * 1000):
            self.flush()

    def wait(self, timeout_s: float) -> bool:
        """Wait for input, room for held output, or the time; true when there is input."""
        watch = select.poll()
        if self.reading:
            watch.register(0, select.POLLIN)
        if self.held:
            watch.register(1, select.POLLOUT)
        ready = watch.poll(None if timeout_s == float("inf") else max(timeout_s, 0) * 1000)
        return any(fd == 0 for fd, _ in ready)

    def read(self) -> list[bytes] | None:
        """The whole lines that came, or None at the end of input."""
        data = os.read(0, 1 << 20)
        *lines, self.partial = (self.partial + data).split(b"\n")
        for line in lines if self.log is not None else ():
            self.record("proxy", line)
        return lines if data else None

    def record(self, side: str, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = line.decode(errors="replace")
        os.write(self.log or 2, encode({"from": side, "pid": os.getpid(), "msg": message}) + b"\n")
