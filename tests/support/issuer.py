"""A stand-in for OpenAI's login by device code and for ChatGPT's account pages, as the real codex asks them.

A codex whose login is given here needs two things: the binary of `write_codex`, and a configuration as
`write_provider` makes it, so that not only the login but everything about the account stays on this machine.
"""

import pathlib
import threading
from typing import Any, NamedTuple

import codex_cli_bin

from tests.support import gateway
from tests.support.loopback_server import Answer, LoopbackServer, answer_json
from tests.support.token_server import build_tokens

USER_CODE = "WXYZ-1234"
EMAIL = "a@example.org"
ACCOUNT_ID = "account"
#: Codex reads the code's pace as text; the shortest it knows.
PACE_S = "1"
#: Nobody has entered the code yet.
PENDING = 403
LIMITS = {
    "plan_type": "plus",
    "rate_limit": {
        "allowed": True,
        "limit_reached": False,
        "primary_window": {
            "used_percent": 12,
            "limit_window_seconds": 18_000,
            "reset_after_seconds": 100,
            "reset_at": 1_800_000_000,
        },
        "secondary_window": {
            "used_percent": 34,
            "limit_window_seconds": 604_800,
            "reset_after_seconds": 100,
            "reset_at": 1_800_500_000,
        },
    },
}
# Codex takes no plain http here; nothing is sent there while the model's provider has an address of its own.
WORKSPACE = {
    "id": ACCOUNT_ID,
    "workspace_backend_origin": "https://chatgpt.com",
    "account_routing_override": "NO_CONSTRAINT",
}


class Asked(NamedTuple):
    path: str
    body: str


class Issuer(LoopbackServer):
    """Gives a code, and tokens once `approve` was called; `asked` is what codex wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        #: How a request for a code, and one for what became of it, are answered.
        self.code_status = 200
        self.entered_status = PENDING
        #: And one for what the account may be used for.
        self.workspace_status = 200
        #: Cleared, requests for a code wait.
        self.answers = threading.Event()
        self.answers.set()

    def __exit__(self, *error: Any) -> None:
        self.answers.set()
        super().__exit__(*error)

    def approve(self) -> None:
        """The person enters the code."""
        self.entered_status = 200

    def refuse(self, status: int = 400) -> None:
        """The person says no, or the code is too old."""
        self.entered_status = status

    def count(self, path: str) -> int:
        return sum(path in each.path for each in self.asked)

    def answer(self, path: str, body: bytes) -> Answer:
        self.asked.append(Asked(path, body.decode()))
        status, told = self._decide(path)
        return answer_json(told, status)

    def _decide(self, path: str) -> tuple[int, Any]:
        if path.endswith("/deviceauth/usercode"):
            self.answers.wait(30)
            code = {"device_auth_id": "device", "user_code": USER_CODE, "interval": PACE_S}
            return self.code_status, code
        if path.endswith("/deviceauth/token"):
            code = {"authorization_code": "authorization", "code_challenge": "c", "code_verifier": "v"}
            return self.entered_status, code
        if path.endswith("/oauth/token"):
            number = self.count("/oauth/token")
            tokens = build_tokens(3600, ACCOUNT_ID, f"refresh-{number}", session_id=f"session-{number}")
            return 200, tokens
        return self._answer_about_account(path)

    def _answer_about_account(self, path: str) -> tuple[int, Any]:
        if path.endswith("/accounts/check"):
            return self.workspace_status, {"accounts": [WORKSPACE]}
        if path.endswith("/usage"):
            return 200, LIMITS
        return (200, {}) if path.endswith("/oauth/revoke") else (404, {})


def write_codex(folder: pathlib.Path, issuer: Issuer) -> str:
    """The real codex with its login at an issuer of ours, as a path for CODEX_BIN."""
    path = folder / "codex"
    path.write_text(
        f"#!/bin/sh\nexport CODEX_APP_SERVER_LOGIN_ISSUER={issuer.url}\n"
        f"export CODEX_REFRESH_TOKEN_URL_OVERRIDE={issuer.url}/oauth/token\n"
        f"export CODEX_REVOKE_TOKEN_URL_OVERRIDE={issuer.url}/oauth/revoke\n"
        f'exec {codex_cli_bin.bundled_codex_path()} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def write_provider(folder: pathlib.Path, issuer: Issuer, model_url: str, needs_login: bool = True) -> str:
    """The scripted model behind a login, as a path for PROXY_CODEX_CONFIG_FILE."""
    path = pathlib.Path(gateway.write_provider(folder, model_url))
    about = f"requires_openai_auth = {str(needs_login).lower()}\n"
    path.write_text(f'chatgpt_base_url = "{issuer.url}/backend-api"\n' + path.read_text() + about)
    return str(path)
