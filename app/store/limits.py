"""How much is stored, for how long, and how much of it one request may have read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    ttl_s: float
    max_bytes: int
    #: Parsing holds up the worker.
    max_read_bytes: int = 64 << 20
