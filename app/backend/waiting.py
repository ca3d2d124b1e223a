"""Waiting for something where nothing else is to be done, and not waiting for it at all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
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


def run_beside(work: Callable[..., None], *arguments: Any) -> None:
    """Have something done without making anyone wait for it; it does not outlive the worker."""
    threading.Thread(target=work, args=arguments, name=work.__qualname__, daemon=True).start()
