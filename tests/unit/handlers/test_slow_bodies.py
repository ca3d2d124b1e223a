"""Bodies that take too long: their clients are told to stop, and nobody else."""

from __future__ import annotations

import contextlib

import pytest

from app.handlers.client import ClientSocket
from app.handlers.slow_bodies import SLOWEST_BYTES_S, SlowBodies

HOUR_S = 3600


@pytest.fixture
def client() -> ClientSocket:
    return ClientSocket({}, 1, 1)


@pytest.mark.parametrize(
    ("timeout_s", "length", "is_late"),
    [
        pytest.param(0, 0, True, id="late"),
        pytest.param(HOUR_S, 0, False, id="in-time"),
        pytest.param(0, HOUR_S * SLOWEST_BYTES_S, False, id="in-time-for-its-length"),
    ],
)
def test_who_is_late(client: ClientSocket, timeout_s: float, length: int, is_late: bool) -> None:
    bodies = SlowBodies(timeout_s)
    with bodies.watch(client, length):
        bodies.end_late()
    assert client.is_late is is_late


@pytest.mark.parametrize("fault", [None, OSError()])
def test_whose_body_is_there_is_left_alone(client: ClientSocket, fault: OSError | None) -> None:
    """Its connection is used for the answer, and for the requests that follow."""
    bodies = SlowBodies(0)
    with contextlib.suppress(OSError), bodies.watch(client, 0):
        if fault:
            raise fault
    bodies.end_late()
    assert not client.is_late
