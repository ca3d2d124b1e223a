"""The end of a worker, as its turns see it."""

from __future__ import annotations


class Drain:
    """When the turns still running must end; set once, when the worker is told to stop.

    Set inside a signal's handler: that must take no lock, so everyone looks here instead of being told.
    """

    def __init__(self) -> None:
        self.deadline_s = float("inf")

    @property
    def is_set(self) -> bool:
        return self.deadline_s < float("inf")
