"""Who stays for a while: as long as the client is there, and its key is good for that."""

from __future__ import annotations

from dataclasses import dataclass

from app.handlers.keyring import Keyring
from app.lib.keys import AccessKey
from app.pipeline import Client


@dataclass(frozen=True, slots=True)
class Guest:
    """Satisfies the pipeline's `Client`: a key that was taken away is a client that has left."""

    client: Client
    key: AccessKey
    keyring: Keyring

    @property
    def patience_s(self) -> float:
        return self.client.patience_s

    def has_left(self) -> bool:
        return not self.keyring.holds(self.key) or self.client.has_left()
