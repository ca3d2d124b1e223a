"""A codex process's stdio: lines out, bytes in; no wait without a deadline, none that stops the worker."""

from __future__ import annotations

import os
import select
import time

from app.backend.jsonrpc import LineReader, LineTooLong
from app.lib.errors import BackendTimeout, BackendUnavailable, ClientGone
from app.pipeline import Client

READ_BYTES = 256 * 1024


class NoClient:
    """Stands for the client where nobody waits: warming up, tidying."""

    def fileno(self) -> int:
        return -1

    def has_left(self) -> bool:
        return False


class Pipe:
    """Both ends are non-blocking, so that a plain interpreter and a gevent worker behave alike."""

    def __init__(self, max_line_bytes: int) -> None:
        #: What the child gets as its stdin and stdout; ours no longer once it has them.
        self.child_stdin_fd, self._write_fd = os.pipe()
        self._read_fd, self.child_stdout_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        os.set_blocking(self._read_fd, False)
        self._reader = LineReader(max_line_bytes)
        # Lines that came in while we were writing.
        self._early: list[bytes] = []
        self._client: Client = NoClient()
        self._client_fd = -1
        #: When the client was seen to have left; its turn decides what to do about it.
        self.client_left_s: float | None = None
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)
        # While we write nobody watches the client: its departure can wait until the line is whole.
        self._write_poll = select.poll()
        self._write_poll.register(self._read_fd, select.POLLIN)
        self._write_poll.register(self._write_fd, select.POLLOUT)

    def close_child_ends(self) -> None:
        os.close(self.child_stdin_fd)
        os.close(self.child_stdout_fd)

    def close(self) -> None:
        os.close(self._write_fd)
        os.close(self._read_fd)

    def watch(self, client: Client) -> None:
        """From now on every wait also notices that this client left."""
        self._stop_watching()
        self._client, self.client_left_s = client, None
        self._client_fd = client.fileno()
        if self._client_fd >= 0:
            self._poll.register(self._client_fd, select.POLLIN)

    def _stop_watching(self) -> None:
        # By the number it was registered with: the socket itself may be closed, and its number another's.
        if self._client_fd >= 0:
            self._poll.unregister(self._client_fd)
            self._client_fd = -1

    def receive(self, timeout_s: float) -> list[bytes]:
        """The lines that are there, or the first to come in time, or none."""
        if self._early:
            lines, self._early = self._early, []
            return lines
        return self._read() if self._wait(timeout_s) else []

    def glance(self) -> None:
        """Take in what is there without waiting: a wait costs more, even for nothing."""
        self._early += self._read()

    def send(self, data: bytes, timeout_s: float) -> None:
        """Write all of it; reads meanwhile, since codex may be stuck writing to us."""
        left = memoryview(data)
        deadline_s = time.monotonic() + timeout_s
        while left:
            left = left[self._write(left) :]
            if left:
                self._wait_writable(deadline_s)

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._write_fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BackendUnavailable("Codex stopped taking requests.") from error

    def _wait_writable(self, deadline_s: float) -> None:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise BackendTimeout("Codex did not take the request in time.")
        if self._read_fd in poll_fds(self._write_poll, remaining_s):
            self._early += self._read()

    def _wait(self, timeout_s: float) -> bool:
        """Wait for anything to happen; true if codex wrote."""
        ready = poll_fds(self._poll, timeout_s)
        if self._client_fd in ready:
            self._look_at_client()
        return self._read_fd in ready

    def _look_at_client(self) -> None:
        """Either way its socket has said all it can: it is gone, or it sent more data."""
        self._stop_watching()
        if self._client.has_left():
            self.client_left_s = time.monotonic()

    def _read(self) -> list[bytes]:
        try:
            data = os.read(self._read_fd, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise BackendUnavailable("The pipe to codex broke.") from error
        if not data:
            raise BackendUnavailable("The codex process ended.")
        try:
            return self._reader.feed(data)
        except LineTooLong as error:
            raise BackendUnavailable("Codex sent a line longer than PROXY_MAX_LINE_MB.") from error


def poll_fds(poll: select.poll, timeout_s: float) -> set[int]:
    """The fds where something happened; an error or a hang-up counts, the read that follows names it."""
    return {fd for fd, _ in poll.poll(max(timeout_s, 0) * 1000)}


def check_client(client: Client) -> None:
    """Notice a departure where there is no pipe to wait on."""
    if client.fileno() >= 0:
        poll = select.poll()
        poll.register(client.fileno(), select.POLLIN)
        # Only a readable socket is looked at: on a silent one gevent would wait.
        if poll_fds(poll, 0) and client.has_left():
            raise ClientGone("The client closed the connection.")
