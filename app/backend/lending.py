"""Codex processes for something else than a turn: one borrowed for a while, one started ahead of need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from app.backend.line import Wish
from app.backend.pool import Pool
from app.backend.process import CodexProcess
from app.backend.waiting import run_through
from app.lib.errors import PROCESS_FAULTS
from app.pipeline import Client


@contextlib.contextmanager
def borrow(pool: Pool, wish: Wish, client: Client | None = None) -> Iterator[CodexProcess]:
    """A process that has said hello; waits for it, as long as the client does."""
    with noting(pool), owning(pool, run_through(pool.lease(wish), client)) as process:
        run_through(pool.greet(process), client)
        yield process


def start_spare(pool: Pool) -> bool:
    """Start a process ahead of need, or to see whether that works again; false when none is to be."""
    with noting(pool):
        process = pool.lease_spare()
        if process is None:
            return False
        with owning(pool, process):
            run_through(pool.greet(process))
    return True


@contextlib.contextmanager
def owning(pool: Pool, process: CodexProcess) -> Iterator[CodexProcess]:
    try:
        yield process
    except BaseException:
        pool.discard(process)
        raise
    pool.give_back(process)


@contextlib.contextmanager
def noting(pool: Pool) -> Iterator[None]:
    try:
        yield
    except PROCESS_FAULTS:
        pool.note_failed()
        raise
