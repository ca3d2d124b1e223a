"""Looking at a client's socket."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from app.handlers.client import ClientSocket

Act = Callable[[socket.socket, socket.socket], object]


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        pytest.param(lambda ours, theirs: theirs.close(), [True, True], id="left"),
        pytest.param(lambda ours, theirs: theirs.shutdown(socket.SHUT_WR), [True, True], id="half-closed"),
        pytest.param(lambda ours, theirs: theirs.send(b"x"), [False, False], id="sent-more"),
        pytest.param(lambda ours, theirs: (theirs.send(b"x"), theirs.close()), [False, False], id="both"),
        pytest.param(lambda ours, theirs: ours.close(), [True, True], id="our-end-is-closed"),
    ],
)
def test_has_left(act: Act, expected: list[bool]) -> None:
    """Asked about a readable socket only."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = ClientSocket({"gunicorn.socket": ours}, 20)
        act(ours, theirs)
        assert [client.has_left(), client.has_left()] == expected


def test_what_a_client_sent_meanwhile_is_left_for_the_next_request() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = ClientSocket({"gunicorn.socket": ours}, 20)
        theirs.send(b"GET")
        assert (client.has_left(), client.fileno(), ours.recv(9)) == (False, -1, b"GET")


def test_a_client_that_stops_reading_is_waited_for_only_so_long() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ClientSocket({"gunicorn.socket": ours}, 0.01)
        with pytest.raises(TimeoutError):
            ours.sendall(b"x" * 10_000_000)


@pytest.mark.parametrize(
    "environ", [pytest.param({}, id="no-key"), pytest.param({"gunicorn.socket": None}, id="none")]
)
def test_without_a_socket_nobody_is_watched(environ: dict[str, None]) -> None:
    client = ClientSocket(environ, 20)
    assert (client.fileno(), client.has_left()) == (-1, False)
