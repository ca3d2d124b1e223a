"""A codex process's stdio: lines out, bytes in; no wait without a deadline, none that stops the worker."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Generator

from app.backend.jsonrpc import LineReader, LineTooLong
from app.lib.errors import BackendTimeout, ProcessFailed

READ_BYTES = 256 * 1024
# What may pile up while something else is waited for, beside one line of any length.
MAX_UNREAD_BYTES = 16 * 1024 * 1024


class Pile:
    """Counts what came and was not read: somebody may be waiting for what never comes."""

    def __init__(self) -> None:
        self._bytes = 0
        self._longest = 0

    def add(self, line: bytes) -> None:
        self._bytes += len(line)
        self._longest = max(self._longest, len(line))
        if self._bytes - self._longest > MAX_UNREAD_BYTES:
            raise ProcessFailed("Codex sends without end, and does not do what it is waited for.")

    def clear(self) -> None:
        self._bytes = self._longest = 0


class Pipe:
    """Both ends are non-blocking, so that a plain interpreter and a gevent worker behave alike."""

    def __init__(self, max_line_bytes: int) -> None:
        #: What the child gets as its stdin and stdout; ours no longer once it has them.
        self.child_stdin_fd, self._write_fd = os.pipe()
        try:
            self._read_fd, self.child_stdout_fd = os.pipe()
        except OSError:
            os.close(self.child_stdin_fd)
            os.close(self._write_fd)
            raise
        os.set_blocking(self._write_fd, False)
        os.set_blocking(self._read_fd, False)
        #: Whether the child closed its side.
        self.has_ended = False
        self._reader = LineReader(max_line_bytes)
        # Lines that came in while we were writing.
        self._early: list[bytes] = []
        self._pile = Pile()
        self._read_poll = select.poll()
        self._read_poll.register(self._read_fd, select.POLLIN)
        self._write_poll = select.poll()
        self._write_poll.register(self._read_fd, select.POLLIN)
        self._write_poll.register(self._write_fd, select.POLLOUT)

    def close_child_ends(self) -> None:
        os.close(self.child_stdin_fd)
        os.close(self.child_stdout_fd)

    def close(self) -> None:
        os.close(self._write_fd)
        os.close(self._read_fd)

    def receive(self, timeout_s: float) -> list[bytes]:
        """The lines that are there, or the first to come in time, or none."""
        if self._early:
            return self._take_early()
        return self._read() if poll_fds(self._read_poll, timeout_s) else []

    def glance(self) -> list[bytes]:
        """The lines that are there, without waiting: a wait costs more, even for nothing."""
        return self._take_early() + self._read()

    def _take_early(self) -> list[bytes]:
        lines, self._early = self._early, []
        self._pile.clear()
        return lines

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write a line that is short, with nothing else to be done meanwhile."""
        for _ in self.sending(data, timeout_s, timeout_s):
            pass

    def sending(self, data: bytes, timeout_s: float, tick_s: float) -> Generator[None, None, None]:
        """Write all of it; yields while it waits, and reads meanwhile: codex may be stuck writing to us."""
        left = memoryview(data)
        left = left[self._write(left) :]
        deadline_s = time.monotonic() + timeout_s
        while left:
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise BackendTimeout("Codex did not take the request in time.")
            self._wait_writable(min(remaining_s, tick_s))
            left = left[self._write(left) :]
            yield

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._write_fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ProcessFailed("Codex stopped taking requests.") from error

    def _wait_writable(self, timeout_s: float) -> None:
        if self._read_fd in poll_fds(self._write_poll, timeout_s):
            for line in self._read():
                self._early.append(line)
                self._pile.add(line)

    def _read(self) -> list[bytes]:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ProcessFailed("The pipe to codex broke.") from error
        if not data:
            self.has_ended = True
            raise ProcessFailed("The codex process ended.")
        try:
            return self._reader.feed(data)
        except LineTooLong as error:
            raise ProcessFailed("Codex sent a line longer than PROXY_MAX_LINE_MB.") from error


def poll_fds(poll: select.poll, timeout_s: float) -> set[int]:
    """The fds where something happened; an error or a hang-up counts, the read that follows names it."""
    return {fd for fd, _ in poll.poll(max(timeout_s, 0) * 1000)}
