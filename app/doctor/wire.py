"""One HTTP request, asked as a client would and read within a deadline."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import orjson
import requests

from app.doctor.patient import tell

CONNECT_S = 4.0
READ_S = 6.0
MOST_BYTES = 1_000_000
NAME = "codex-gateway-doctor"


class Unreached(Exception):
    """No answer came; the text says why."""


class Untrusted(Unreached):
    """Whoever answers could not show that it is who it should be."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    #: By names in small letters.
    headers: dict[str, str]
    body: bytes
    #: When pieces of the body came, in seconds since the first.
    arrivals_s: tuple[float, ...] = ()

    @property
    def json(self) -> Any:
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def error(self) -> dict[str, Any] | None:
        """What it says is wrong, if it says so as the gateway does."""
        match self.json:
            case {"error": {"message": str(), "type": str()}}:
                error: dict[str, Any] = self.json["error"]
                return error
            case _:
                return None

    def describe(self) -> str:
        kind = self.headers.get("content-type", "no content type").partition(";")[0]
        return f"HTTP {self.status}, {kind}"


class Wire:
    """A connection to where a gateway may be; for each request a new one."""

    def __init__(self, base_url: str, through_proxies: bool) -> None:
        self._base_url = base_url
        self._through_proxies = through_proxies

    def ask(self, method: str, path: str, payload: Any = None, key: str = "") -> Reply:
        with requests.Session() as session:
            # Loopback is never behind the machine's proxy.
            session.trust_env = self._through_proxies
            session.headers.update({"user-agent": NAME, "x-request-id": NAME, "connection": "close"})
            if key:
                session.headers["authorization"] = f"Bearer {key}"
            try:
                return self._read(session, method, path, payload)
            except requests.exceptions.SSLError as error:
                raise Untrusted(tell(error)) from error
            except requests.RequestException as error:
                raise Unreached(tell(error)) from error

    def _read(self, session: requests.Session, method: str, path: str, payload: Any) -> Reply:
        deadline_s = time.monotonic() + CONNECT_S + READ_S
        with session.request(
            method,
            self._base_url + path,
            json=payload,
            timeout=(CONNECT_S, READ_S),
            allow_redirects=False,
            stream=True,
        ) as response:
            pieces, arrivals_s = [], []
            for piece in response.iter_content(None):
                pieces.append(piece)
                arrivals_s.append(time.monotonic())
                if time.monotonic() >= deadline_s or sum(map(len, pieces)) > MOST_BYTES:
                    break
            headers = {name.lower(): value for name, value in response.headers.items()}
            since = tuple(arrived_s - arrivals_s[0] for arrived_s in arrivals_s)
            return Reply(response.status_code, headers, b"".join(pieces), since)
