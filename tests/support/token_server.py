"""A stand-in for the server that refreshes a ChatGPT login, and the login to be refreshed."""

import base64
import json
import pathlib
import time
from typing import Any

from tests.support.loopback_server import Answer, LoopbackServer, answer_json

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


class TokenServer(LoopbackServer):
    """Gives tokens for an hour, and remembers the refresh tokens it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def answer(self, path: str, body: bytes) -> Answer:
        self.asked.append(json.loads(body)["refresh_token"])
        return answer_json(build_tokens(3600, "account", f"refreshed-{len(self.asked)}"))
