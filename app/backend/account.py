"""What codex says of its account and of logins; the only place that knows how it spells that."""

from __future__ import annotations

import re
from typing import Any

from app.backend.account_limits import read_limits
from app.backend.codex_errors import strip_url
from app.backend.jsonrpc import Notification
from app.backend.login import as_dict
from app.lib.account import API_KEY, Account, AccountState, LoginCode, LoginDone, LoginEnd, LoginFailed
from app.lib.account_limits import AccountLimits
from app.lib.errors import BackendRefused
from app.lib.redaction import redact

KINDS = {"apiKey": API_KEY}
#: What codex calls a plan it has no name for.
UNKNOWN_PLAN = "unknown"
USER_AGENT = re.compile(r"[^/\s]+/(\d[\w.+-]*)")
WEB = ("https://", "http://")


def read_account(answer: dict[str, Any]) -> Account:
    account = answer.get("account")
    if account is None:
        needs_one = bool(answer.get("requiresOpenaiAuth"))
        return Account(AccountState.OUT if needs_one else AccountState.UNNEEDED)
    kind, plan, email = (read_text(as_dict(account), name) for name in ("type", "planType", "email"))
    is_named = plan != UNKNOWN_PLAN
    return Account(AccountState.IN, KINDS.get(kind or "", kind), plan if is_named else None, email)


def read_text(told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    return value if isinstance(value, str) else None


def read_account_limits(answer: dict[str, Any]) -> AccountLimits | None:
    limits = read_limits(as_dict(answer.get("rateLimits")))
    return None if limits == AccountLimits() else limits


def read_version(answer: dict[str, Any]) -> str | None:
    """Codex's release, which stands behind the name that we gave ourselves."""
    found = USER_AGENT.match(read_text(answer, "userAgent") or "")
    return found.group(1) if found else None


def read_code(answer: dict[str, Any]) -> tuple[str, LoginCode]:
    """A login's id, and what the person needs for it."""
    match answer:
        case {"loginId": str(id_), "verificationUrl": str(url), "userCode": str(code)} if url.startswith(WEB):
            return id_, LoginCode(url, code)
        case _:
            raise BackendRefused("Codex answered with a login of an unknown shape.")


def read_login_end(notification: Notification, login_id: str) -> LoginEnd | None:
    """How a login ended; `None` for what tells nothing of it."""
    match notification:
        case Notification("account/login/completed", {"loginId": told} as params) if told == login_id:
            if params.get("success") is True:
                return LoginDone()
            message = read_text(params, "error") or "Codex did not say why."
            return LoginFailed(redact(strip_url(message)))
        case _:
            return None
