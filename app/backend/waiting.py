"""Waiting for a generator where nothing else is to be done."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, TypeVar

from app.lib.errors import ClientGone
from app.pipeline import Client

T = TypeVar("T")


def run_through(waiting: Generator[Any, None, T], client: Client | None = None) -> T:
    """Its result; as long as the client waits for it, if there is one."""
    with contextlib.closing(waiting):
        while True:
            try:
                next(waiting)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if client and client.has_left():
                raise ClientGone("The client closed the connection.")
