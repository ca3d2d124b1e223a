"""The gateway's Codex login: who it is, and how its tokens stay fresh."""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import logging
import pathlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.backend.waiting import run_beside
from app.lib.errors import ProxyError
from app.watched_file import WatchedFile

log = logging.getLogger(__name__)

# Codex refreshes by itself in the last five minutes: every process that notices, each with the same token,
# which can be used once. So one of them is told to, before.
AHEAD_S = 600
RETRY_S = 60
#: A service has a user and a folder of its own, which are not those of whoever types.
LOG_IN = "`make login`, or `codex-gateway login` where it is installed"


@dataclass(frozen=True, slots=True)
class Login:
    #: Another one after a login or logout, the same when tokens are refreshed; empty when logged out.
    identity: str = ""
    #: When the access token ends, in seconds since the epoch; `None` where there is none that ends.
    expires_at_s: float | None = None


class LoginFile(WatchedFile[Login]):
    """Codex's `auth.json`."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path, parse_login, Login())


def parse_login(data: bytes) -> Login:
    auth = as_dict(orjson.loads(data))
    tokens = as_dict(auth.get("tokens"))
    access, identity = (read_claims(tokens.get(name)) for name in ("access_token", "id_token"))
    # What a refresh leaves as it is; a session and its time are known to tokens of a real account.
    who = [auth.get("auth_mode"), auth.get("OPENAI_API_KEY"), tokens.get("account_id")]
    session = [access.get("session_id"), identity.get("auth_time")]
    ends = access.get("exp")
    return Login(
        hashlib.sha256(orjson.dumps([*who, *session])).hexdigest(),
        float(ends) if isinstance(ends, int | float) else None,
    )


def read_claims(token: Any) -> dict[str, Any]:
    """What a JWT says; nothing for what is none."""
    try:
        payload = str(token).split(".")[1]
        return as_dict(orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
    except (IndexError, binascii.Error, orjson.JSONDecodeError):
        return {}


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class LoginKeeper:
    """Has the tokens refreshed in time, by one process of all workers of this box."""

    def __init__(self, login: LoginFile, lock_path: pathlib.Path, refresh: Callable[[], None]) -> None:
        """`refresh` has a codex process do it."""
        self._login = login
        self._lock_path = lock_path
        self._refresh = refresh
        self._next_try_s = 0.0

    @property
    def _is_due(self) -> bool:
        ends_s = self._login.read().expires_at_s
        return ends_s is not None and ends_s - time.time() < AHEAD_S

    def look(self) -> None:
        """Start a refresh if it is time; never waits for it."""
        if self._is_due and time.monotonic() >= self._next_try_s:
            self._next_try_s = time.monotonic() + RETRY_S
            run_beside(self._keep)

    def _keep(self) -> None:
        with self._hold_lock() as is_ours:
            if not is_ours or not self._is_due:
                return
            try:
                self._refresh()
            except (ProxyError, OSError) as error:  # the next look tries again
                log.warning("the Codex login could not be refreshed: %s", error)
            except Exception:  # a fault of our own
                log.exception("the Codex login could not be refreshed")
            if self._is_due:
                log.warning("the Codex login is about to end, and could not be refreshed: %s", LOG_IN)

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[bool]:
        """The kernel frees it with its holder, whatever happens to that."""
        with open(self._lock_path, "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
