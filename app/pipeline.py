"""The seam between HTTP and codex: what a backend offers, and how a turn runs through the core."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.lib.account import AccountReport, LoginStep
from app.lib.errors import ProxyError
from app.lib.events import BackendEvent, TurnEvent
from app.lib.models import Model
from app.lib.orders import Order
from app.lib.prompt import Prompt
from app.lib.turn import TurnCore


@dataclass(frozen=True, slots=True)
class Census:
    """A worker's codex processes at one moment, and what became of all there were."""

    idle: int = 0
    owned: int = 0
    parked: int = 0
    ending: int = 0
    #: Requests that wait for one.
    queued: int = 0
    process_starts: int = 0
    #: Those that ended by themselves.
    process_deaths: int = 0
    #: Turns that were left to wait for results.
    parks: int = 0


class Client(Protocol):
    """The other end of a request, looked at while we wait for codex."""

    @property
    def patience_s(self) -> float:
        """How long it waits for a free codex process."""

    def has_left(self) -> bool:
        """Whether the client hung up; never waits."""


class Turn(Protocol):
    """One running turn and the codex process it owns."""

    def batches(self) -> Generator[list[BackendEvent], None, None]:
        """What each read brings; a `Tick` at least once a second; raises `ProxyError`."""

    def order(self, orders: Sequence[Order]) -> None:
        """Take what the core wants done; it is, before the next batch comes."""

    def close(self) -> None:
        """Interrupt what still runs and give the process back. Safe to call again, or before `batches`."""


class Backend(Protocol):
    def start(self) -> None:
        """Begin warming up in the background; called in the worker, after fork."""

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> Turn:
        """Prepare a turn; no I/O happens before its first batch is asked for.

        It may go on with what was kept of earlier turns of the same owner.
        """

    def models(self, client: Client) -> tuple[Model, ...]:
        """Every model on offer; may wait for a process to say."""

    def known_models(self) -> tuple[Model, ...]:
        """Those of them that are known without asking."""

    def account(self, client: Client) -> AccountReport:
        """Whose account codex uses, and what is left of it; as far as it is known, or told in a moment."""

    def log_in(self, client: Client) -> Generator[LoginStep | None, None, None]:
        """Log in by device code: a code, and how that ended; nothing, at least once a second, while it waits.

        Raises `ProxyError` before there is a code. To close it is to cancel the login; a later one ends it.
        """

    def log_out(self, client: Client) -> None:
        """Use no account any more; raises `ProxyError`."""

    def codex_version(self) -> str | None:
        """As a codex process has told it."""

    def census(self) -> Census:
        """What there is now."""

    def is_ready(self) -> bool:
        """Whether a codex process has said hello, and processes do not keep failing."""

    def drain(self, deadline_s: float) -> None:
        """End every turn still running at that (monotonic) time."""

    def close(self) -> None:
        """Stop every process."""


def run_turn(turn: Turn, core: TurnCore) -> Generator[list[TurnEvent], None, None]:
    """Pass one backend turn through the core, a batch per read."""
    try:
        with contextlib.closing(turn.batches()) as batches:
            for batch in batches:
                yield core.feed_all(batch)
                if orders := core.take_orders():
                    turn.order(orders)
                if core.ended:
                    return
    except ProxyError as error:
        yield core.fail(error)
        return
    yield core.finish()
