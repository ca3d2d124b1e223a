"""Keeps secrets out of what is written down."""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "[redacted]"
SHORTEST = 8
# Keys, bearer tokens, JWTs: whatever else is wrong with a line, none of them is to stand in it.
SECRET = re.compile(r"(?i)\bbearer\s+[^\s\"\\]+|\bsk-[\w-]{8,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*")
#: Without one of these nothing can match: looking for them costs next to nothing.
SIGNS = ("sk-", "SK-", "eyJ", "earer ", "EARER ")


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Besides what looks like a secret, these are."""
        # The longest first: one may begin with another. A short one is part of many words.
        told = {secret for secret in secrets if len(secret) >= SHORTEST}
        self._secrets = sorted(told, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if any(sign in text for sign in SIGNS):
            return SECRET.sub(REDACTED, text)
        return text


redact = Redactor().redact
