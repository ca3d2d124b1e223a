"""Keeps secrets out of what is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

REDACTED = "[redacted]"
SHORTEST = 8
# Where a word begins, also behind an escape of JSON's, or a letter that no key has.
START = r"(?:\b|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
# Keys, bearer tokens, JWTs: whatever else is wrong with a line, none of them is to stand in it. Keys that we
# made are found in the middle of a word too: some are known as hashes only.
SECRET = re.compile(
    rf"(?ai){START}bearer\s+[^\s\"\\…]+|(?:{START}sk-|sk-cgw-)[\w-]{{8,}}|{START}eyJ[\w-]{{8,}}(?:\.[\w-]+)*"
)
#: A text in JSON, in a body that stands in JSON itself.
DEEPEST = 2
#: Without one of these nothing can match: looking for them costs next to nothing.
SIGNS = ("sk-", "SK-", "eyJ", "earer ", "EARER ")
#: What JSON may write otherwise: some write every slash so, and any letter may be.
ESCAPED = re.compile(r"(?<!\\)\\++(?:u00([2-7a-f][0-9a-f])|(?=/))", re.IGNORECASE)


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Besides what looks like a secret, these are."""
        # The longest first: one may begin with another. A short one is part of many words.
        told = {form for secret in secrets if len(secret) >= SHORTEST for form in spell(secret)}
        self._secrets = sorted(told, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        if any(sign in text for sign in SIGNS):
            return SECRET.sub(REDACTED, text)
        return text

    def redact_json(self, text: str) -> str:
        """Of JSON that others wrote; what holds no secret stays as they did."""
        plain = ESCAPED.sub(read_escape, text)
        redacted = self.redact(plain)
        return self.redact(text) if redacted == plain else redacted


def read_escape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else ""


def spell(secret: str) -> Iterator[str]:
    """As it is and as Python quotes it, and both as JSON has them."""
    forms = [secret, repr(secret)[1:-1]]
    for _ in range(DEEPEST):
        yield from forms
        forms = [json.dumps(form, ensure_ascii=False)[1:-1] for form in forms]
    yield from forms


redact = Redactor().redact
