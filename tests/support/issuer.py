"""A stand-in for OpenAI's login by device code and for ChatGPT's account pages, as the real codex asks them.

A codex whose login is given here needs two things: the binary of `write_codex`, and a configuration as
`write_provider` makes it, so that not only the login but everything about the account stays on this machine.
"""

import json
import pathlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

import codex_cli_bin

from tests.support import gateway
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


class Issuer:
    """Gives a code, and tokens once `approve` was called; `asked` is what codex wanted."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        #: How a request for a code, and one for what became of it, are answered.
        self.code_status = 200
        self.entered_status = PENDING
        #: And one for what the account may be used for.
        self.workspace_status = 200
        #: Cleared, requests for a code wait.
        self.answers = threading.Event()
        self.answers.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Issuer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def approve(self) -> None:
        """The person enters the code."""
        self.entered_status = 200

    def refuse(self, status: int = 400) -> None:
        """The person says no, or the code is too old."""
        self.entered_status = status

    def count(self, path: str) -> int:
        return sum(path in each.path for each in self.asked)

    def answer(self, path: str, body: str) -> tuple[int, Any]:
        self.asked.append(Asked(path, body))
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

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                status, answer = issuer.answer(self.path, asked)
                body = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:  # who asked is gone
                    self.close_connection = True

            do_GET = do_POST  # noqa: N815 (the base class's name)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
                """Quiet: the tests read `asked`."""

        return Handler


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
