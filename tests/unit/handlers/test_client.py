"""Looking at a client's socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from app.handlers.client import ClientSocket
from tests.support.gateway import wait_until

Sockets = tuple[socket.socket, socket.socket]
Act = Callable[[socket.socket], object]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """The server's end of a connection and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
        with ours, theirs:
            yield ours, theirs


def reset(theirs: socket.socket) -> None:
    """Leave without a word: RST instead of FIN."""
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(socket.socket.close, id="closed"),
        pytest.param(reset, id="reset"),
        pytest.param(lambda theirs: theirs.shutdown(socket.SHUT_WR), id="half-closed"),
        pytest.param(lambda theirs: (theirs.send(b"more"), theirs.close()), id="behind-unread-data"),
    ],
)
def test_a_client_that_leaves(sockets: Sockets, leave: Act) -> None:
    ours, theirs = sockets
    client = ClientSocket({"gunicorn.socket": ours}, 20, 10)
    assert not client.has_left()
    leave(theirs)
    assert wait_until(client.has_left, 2)


def test_what_a_client_sent_meanwhile_is_left_for_the_next_request(sockets: Sockets) -> None:
    ours, theirs = sockets
    client = ClientSocket({"gunicorn.socket": ours}, 20, 10)
    theirs.send(b"GET")
    assert (client.has_left(), ours.recv(9)) == (False, b"GET")


def test_a_socket_that_we_closed_has_nobody_behind_it(sockets: Sockets) -> None:
    client = ClientSocket({"gunicorn.socket": sockets[0]}, 20, 10)
    sockets[0].close()
    assert client.has_left()


def test_a_client_that_stops_reading_is_waited_for_only_so_long(sockets: Sockets) -> None:
    ClientSocket({"gunicorn.socket": sockets[0]}, 0.01, 10)
    with pytest.raises(TimeoutError):
        sockets[0].sendall(b"x" * 50_000_000)


@pytest.mark.parametrize(
    "environ", [pytest.param({}, id="no-key"), pytest.param({"gunicorn.socket": None}, id="none")]
)
def test_without_a_socket_nobody_leaves(environ: dict[str, None]) -> None:
    assert not ClientSocket(environ, 20, 10).has_left()
