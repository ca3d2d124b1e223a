"""Makes an access key: told once, kept as a hash."""

from __future__ import annotations

import os
import pathlib
import secrets

from app.lib.keys import (
    NAME_RULE,
    AccessKey,
    KeyLimits,
    KeysFault,
    Role,
    build_entry,
    digest_key,
    is_name,
    parse_keys,
)

PREFIX = "sk-cgw-"
KEY_BYTES = 32


def add_key(path: pathlib.Path, name: str, role: Role, limits: KeyLimits) -> str:
    """Add a key to a keys file, which is made if need be; the key itself is nowhere but in the result."""
    if not is_name(name):
        raise KeysFault(f"{name!r}: {NAME_RULE}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(handle, "r+b") as file:
        text = file.read().decode()
        if any(key.name == name for key in parse_keys(text)):
            raise KeysFault(f"there is a key named {name} already")
        key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
        entry = build_entry(AccessKey(name, digest_key(key.encode()), role, limits))
        added = ("" if not text or text.endswith("\n\n") else "\n") + entry
        parse_keys(text + added)
        # Behind what is there, in one write: comments stay, and a reader sees all of it or none.
        file.write(added.encode())
    return key
