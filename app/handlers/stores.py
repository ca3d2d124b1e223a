"""The stores as requests meet them: what one cannot do now is an error that a client understands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.lib.errors import ContextTooLong, StoreUnavailable
from app.store.database import StoreFault, TooMuch
from app.store.exchanges import Exchanges
from app.store.responses import ResponseStore
from app.store.usage import UsageStore

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stores:
    responses: ResponseStore
    usage: UsageStore
    exchanges: Exchanges

    def close(self) -> None:
        self.responses.close()
        self.usage.close()


def ask(question: Callable[[], T]) -> T:
    try:
        return question()
    except StoreFault as error:
        raise StoreUnavailable(f"What is stored is out of reach: {error}") from error
    except TooMuch as error:
        raise ContextTooLong("What the request goes on from is larger than can be read for it.") from error


def ask_lightly(question: Callable[[], T | None]) -> T | None:
    """A question whose answer only helps: without a store, what it asks for was never stored."""
    try:
        return ask(question)
    except StoreUnavailable as error:
        log.warning("something stored was not looked up: %s", error)
        return None
