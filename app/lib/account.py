"""The account that codex is logged in to, and the steps of a login."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.lib.account_limits import AccountLimits

#: Kinds of accounts; others go by codex's own word.
CHATGPT = "chatgpt"
API_KEY = "api_key"


class AccountState(StrEnum):
    IN = "in"
    OUT = "out"
    #: The model's provider asks for no account.
    UNNEEDED = "unneeded"
    #: Codex could not be asked just now.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Account:
    state: AccountState
    kind: str | None = None
    plan: str | None = None
    email: str | None = None

    @property
    def needs_login(self) -> bool:
        """Whether no model of OpenAI's can be asked; what is not known is worth a try."""
        return self.state is AccountState.OUT

    @property
    def has_limits(self) -> bool:
        """Whether it has an allowance that codex can tell of."""
        return self.state is AccountState.IN and self.kind == CHATGPT


@dataclass(frozen=True, slots=True)
class AccountReport:
    """The account, and what is left of it, where codex told that of this very login."""

    account: Account
    limits: AccountLimits | None = None
    #: When it told the limits, in seconds since the epoch.
    told_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class LoginCode:
    """What a person enters, and where."""

    verification_url: str
    #: Whoever has it gets no further than the page above, but it is nobody else's business.
    user_code: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoginDone:
    pass


@dataclass(frozen=True, slots=True)
class LoginFailed:
    message: str


LoginEnd = LoginDone | LoginFailed
LoginStep = LoginCode | LoginEnd
