"""A stand-in for the server that refreshes a ChatGPT login, and the login to be refreshed."""

import base64
import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

AUTH_CLAIM = "https://api.openai.com/auth"


def build_token(ends_in_s: float, account: str, **claims: Any) -> str:
    about = {"chatgpt_account_id": account, "chatgpt_plan_type": "pro", "chatgpt_user_id": "user"}
    claims |= {"email": "a@example.org", "exp": int(time.time() + ends_in_s), AUTH_CLAIM: about}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)]
    return b".".join(part.rstrip(b"=") for part in parts).decode() + ".signature"


def build_tokens(ends_in_s: float, account: str, refresh_token: str, **claims: Any) -> dict[str, Any]:
    token = build_token(ends_in_s, account, **claims)
    return {"id_token": token, "access_token": token, "refresh_token": refresh_token}


def write_login(home: pathlib.Path, ends_in_s: float, account: str = "account") -> pathlib.Path:
    """An `auth.json` as codex writes it; its path."""
    home.mkdir(parents=True, exist_ok=True)
    tokens = build_tokens(ends_in_s, account, "first") | {"account_id": account}
    auth = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens}
    path = home / "auth.json"
    path.write_text(json.dumps(auth | {"last_refresh": "2026-01-01T00:00:00Z"}))
    return path


class TokenServer:
    """Gives tokens for an hour, and remembers the refresh tokens it was shown."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/oauth/token"

    def __enter__(self) -> "TokenServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def refresh(self, refresh_token: str) -> bytes:
        self.asked.append(refresh_token)
        return json.dumps(build_tokens(3600, "account", f"refreshed-{len(self.asked)}")).encode()

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = server.refresh(asked["refresh_token"])
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
                """Quiet: the tests read `asked`."""

        return Handler
