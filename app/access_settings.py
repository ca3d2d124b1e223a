"""The knobs of the door: where it listens, who may come in, and how much one may bring."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from app.knobs import (
    knob,
    parse_bytes,
    parse_count,
    parse_hosts,
    parse_list,
    parse_natural,
    parse_optional_path,
    parse_origins,
    parse_port,
    parse_seconds,
    parse_size,
)
from app.lib.keys import KeyLimits
from app.lib.loopback import is_loopback, split_host

#: The shortest key that is found again in whatever is written down.
SHORTEST_KEY = 8
DEFAULT_ORIGINS = ("app://obsidian.md", "capacitor://localhost", "http://localhost:*", "http://127.0.0.1:*")


@dataclass(frozen=True)
class AccessSettings:
    host: str = knob("PROXY_HOST", "127.0.0.1", "Address to listen on; anything but loopback needs a key.")
    port: int = knob("PROXY_PORT", "11435", "Port to listen on; 0 takes a free one.", parse_port)
    api_keys: tuple[str, ...] = knob(
        "PROXY_API_KEY",
        "",
        "Bearer keys of clients. Without any key, these or others, the gateway is open, on loopback only.",
        parse_list,
        is_secret=True,
    )
    admin_keys: tuple[str, ...] = knob(
        "PROXY_ADMIN_KEY",
        "",
        "Bearer keys that may also see `/metrics`, everybody's usage and the live view, and log the gateway "
        "in and out.",
        parse_list,
        is_secret=True,
    )
    api_keys_file: pathlib.Path | None = knob(
        "PROXY_API_KEYS_FILE",
        "",
        "More keys, hashed, each with its name, role and limits; `codex-gateway key` or `make key` adds one, "
        "and it is read again when it changes.",
        parse_optional_path,
    )
    allowed_origins: tuple[str, ...] = knob(
        "PROXY_CORS_ALLOWED_ORIGINS",
        ",".join(DEFAULT_ORIGINS),
        "Origins whose pages may read answers; `:*` stands for any port. Pages of other origins are refused.",
        parse_origins,
    )
    allowed_hosts: tuple[str, ...] = knob(
        "PROXY_ALLOWED_HOSTS",
        "",
        "Names by which the gateway may be called; empty: on an open gateway loopback's, else any.",
        parse_hosts,
    )
    requests_per_minute: int = knob(
        "PROXY_REQUESTS_PER_MINUTE",
        "0",
        "Answers a key may ask for in any minute; 0: no limit. Divided by WEB_CONCURRENCY.",
        parse_natural,
    )
    max_streams: int = knob(
        "PROXY_MAX_STREAMS",
        "0",
        "Answers under way at once for a key, streamed or not; 0: no limit. Divided by WEB_CONCURRENCY.",
        parse_natural,
    )
    max_body_bytes: int = knob("PROXY_MAX_BODY_MB", "16", "Largest request body.", parse_size)
    max_header_bytes: int = knob(
        "PROXY_MAX_HEADER_KB", "8", "Longest header of a request; it may have 100.", parse_bytes
    )
    max_json_depth: int = knob(
        "PROXY_MAX_JSON_DEPTH", "100", "How deep a request's JSON may be nested.", parse_count
    )
    max_messages: int = knob(
        "PROXY_MAX_MESSAGES", "10000", "Messages or input items of one request.", parse_count
    )
    max_tools: int = knob("PROXY_MAX_TOOLS", "1000", "Tools of one request.", parse_count)
    socket_timeout_s: float = knob(
        "PROXY_SOCKET_TIMEOUT_MS",
        "30000",
        "How long a client may neither send nor read; its body may take that and a second for each 100 kB.",
        parse_seconds,
    )

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a key."""
        return not (self.api_keys or self.admin_keys or self.api_keys_file)

    def find_fault(self, environ: Mapping[str, str]) -> str:
        """What does not go together: who could come in that should not; empty if all is well."""
        by_variable = {"PROXY_API_KEY": self.api_keys, "PROXY_ADMIN_KEY": self.admin_keys}
        for name, keys in by_variable.items():
            if environ.get(name) and not keys:
                return f"{name}: holds no key"
            if any(len(key) < SHORTEST_KEY for key in keys):
                return f"{name}: a key must have at least {SHORTEST_KEY} characters"
            if not all(map(str.isprintable, keys)):  # nor are bytes that are no text
                return f"{name}: a key has signs that no client can send"
        if set(self.api_keys) & set(self.admin_keys):
            return "PROXY_ADMIN_KEY: shares a key with PROXY_API_KEY; a key has one role"
        return self._find_opening() if self.is_open else ""

    def _find_opening(self) -> str:
        """By what name others than this machine could reach a gateway that asks for no key."""
        if not is_loopback(self.host):
            return (
                f"PROXY_HOST={self.host}: an open gateway listens on loopback only; "
                "set PROXY_API_KEY or PROXY_HOST=127.0.0.1"
            )
        for host in self.allowed_hosts:
            if not is_loopback(split_host(host)):
                rule = "an open gateway has loopback's names only; set PROXY_API_KEY"
                return f"PROXY_ALLOWED_HOSTS={host}: {rule}"
        return ""

    @property
    def key_limits(self) -> KeyLimits:
        """What a key may do that has no limits of its own."""
        return KeyLimits(self.requests_per_minute, self.max_streams)
