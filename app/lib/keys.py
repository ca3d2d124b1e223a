"""Access keys: what a gateway knows of one, and how one is recognised."""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.lib.redaction import redact

#: Enough to tell a few keys apart, too few to find one by.
SHOWN_DIGITS = 6
NAME_RULE = "a name has up to 64 letters, digits, `-` and `_`, and looks like no key"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
HASH = re.compile(r"sha256:([0-9a-f]{64})")
LIMITS = ("requests_per_minute", "max_streams")
ENTRY = {"hash", "role", *LIMITS}


class Role(StrEnum):
    #: Has answers, and sees its own usage and responses.
    CLIENT = "client"
    #: Also sees everybody's usage, and runs the gateway.
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """0 is no limit, `None` the gateway's own."""

    requests_per_minute: int | None = None
    max_streams: int | None = None

    def over(self, general: KeyLimits) -> KeyLimits:
        return KeyLimits(
            general.requests_per_minute if self.requests_per_minute is None else self.requests_per_minute,
            general.max_streams if self.max_streams is None else self.max_streams,
        )

    def share(self, workers: int) -> KeyLimits:
        """What one of so many workers may grant: its part, but something."""
        return KeyLimits(divide(self.requests_per_minute, workers), divide(self.max_streams, workers))


GENERAL = KeyLimits()


@dataclass(frozen=True, slots=True)
class AccessKey:
    #: For logs and usage; a key itself stands nowhere.
    name: str
    #: Of the key, in hex: what belongs to it is kept under this. Empty where nobody has a key.
    digest: str
    role: Role
    limits: KeyLimits = GENERAL


#: Who asks before the key was looked at, or with a wrong one; no name in a keys file can be like it.
STRANGER = AccessKey("(none)", "", Role.CLIENT)
#: Everybody, where no key is needed.
ANYBODY = AccessKey("(open)", "", Role.ADMIN)


class KeysFault(ValueError):
    """A keys file that cannot be meant; the text says where, and repeats no key that stands there."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


def digest_key(key: bytes) -> str:
    """Keys that we make are long and random: nothing slower than this is needed to hide them."""
    return hashlib.sha256(key).hexdigest()


def find_key(keys: Iterable[AccessKey], given: bytes) -> AccessKey | None:
    """Compare with every key in constant time, so that timing tells nothing."""
    digest = digest_key(given)
    matches = [key for key in keys if hmac.compare_digest(key.digest, digest)]
    return matches[0] if matches else None


def name_keys(keys: Iterable[str], prefix: str, role: Role) -> tuple[AccessKey, ...]:
    """Keys that have no name of their own: by what tells them apart, with a mark that no name has.

    Not by their place, which another key may have tomorrow: what is kept under a name is its key's alone.
    """
    digests = [digest_key(key.encode()) for key in keys]
    return tuple(AccessKey(f"{prefix}:{digest[:SHOWN_DIGITS]}", digest, role) for digest in digests)


def is_name(text: str) -> bool:
    """Whether a key may be called so: a name that looks like a key is left out of every log."""
    return NAME.fullmatch(text) is not None and redact(text) == text


def parse_keys(text: str) -> tuple[AccessKey, ...]:
    """Read a keys file: a TOML table a key, headed by its name."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KeysFault(str(error)) from error
    except RecursionError as error:
        raise KeysFault("nested too deeply") from error
    keys = tuple(parse_entry(name, table) for name, table in tables.items())
    if len({key.digest for key in keys}) < len(keys):
        raise KeysFault("two names have the same hash")
    return keys


def parse_entry(name: str, table: Any) -> AccessKey:
    if not is_name(name) or not isinstance(table, dict):
        raise KeysFault(f"[{name}]: {NAME_RULE}")
    if unknown := table.keys() - ENTRY:
        raise KeysFault(f"[{name}]: knows no {', '.join(sorted(unknown))}")
    found = HASH.fullmatch(str(table.get("hash")))
    if not found:
        raise KeysFault(f"[{name}]: hash must be `sha256:` and 64 hex digits")
    return AccessKey(name, found[1], parse_role(name, table), parse_limits(name, table))


def parse_role(name: str, table: dict[str, Any]) -> Role:
    try:
        return Role(table.get("role", Role.CLIENT))
    except ValueError as error:
        raise KeysFault(f"[{name}]: role must be {' or '.join(Role)}") from error


def parse_limits(name: str, table: dict[str, Any]) -> KeyLimits:
    given = {each: table.get(each) for each in LIMITS}
    for each, value in given.items():
        if each in table and (type(value) is not int or value < 0):
            raise KeysFault(f"[{name}]: {each} must be a whole number, 0 or more")
    return KeyLimits(**given)


def build_entry(key: AccessKey) -> str:
    """A key as `parse_keys` reads it."""
    limits = {each: getattr(key.limits, each) for each in LIMITS}
    return "\n".join(
        [
            f"[{key.name}]",
            f'hash = "sha256:{key.digest}"',
            f'role = "{key.role}"',
            *(f"{each} = {value}" for each, value in limits.items() if value is not None),
            "",
        ]
    )


def divide(limit: int | None, workers: int) -> int:
    return max(limit // workers, 1) if limit else 0
