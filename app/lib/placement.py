"""Where a turn runs, and what it goes on from."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """What a turn found to run on, the quickest first."""

    #: The very turn whose calls the request brings the results of.
    PARKED = "parked"
    #: A process that was ready.
    WARM = "warm"
    #: A process that is started for it.
    COLD = "cold"


class Origin(StrEnum):
    """What a turn goes on from, or why that is nothing but its own history."""

    #: A turn that waited for results, or a thread that holds the conversation so far.
    TURN = "turn"
    THREAD = "thread"
    #: There is nothing it could go on from.
    NEW = "new"
    #: Nothing is kept for it here: another worker has it, it is gone, or what it tells was never said here.
    UNKNOWN = "unknown"
    #: A turn waits for its results, but under another key, on other terms (tools, model, effort), behind
    #: another history, or for more of them.
    OTHER_KEY = "other_key"
    OTHER_TERMS = "other_terms"
    OTHER_HISTORY = "other_history"
    RESULTS_MISSING = "results_missing"
    #: It was there, but its process failed.
    FAILED = "failed"
