"""Nonces, and a model that holds every question to the conversation it belongs to."""

import json
import re
import threading
from itertools import count
from typing import Any

from tests.support.scripted_model import Body, ScriptedModel

NONCE = re.compile(r"n[0-9a-f]{8}z")


def find_nonces(value: Any) -> list[str]:
    return NONCE.findall(json.dumps(value))


class Watch:
    """What the model has to be told for each question: all of its conversation, in order, and no other."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._expected: dict[str, list[str]] = {}
        self.looks = 0
        self.violations: list[str] = []

    def make_nonce(self) -> str:
        return f"n{next(self._numbers):08x}z"

    def expect(self, nonce: str, history: Any) -> None:
        """What comes with this nonce, the newest, is to hold the nonces of this history."""
        with self._lock:
            self._expected[nonce] = find_nonces(history)

    def look(self, told: Any) -> None:
        found = find_nonces(told)
        newest = max(found, default="none")
        with self._lock:
            self.looks += 1
            expected = self._expected.get(newest)
            if found != expected:
                self.violations.append(f"the model was told {found}, not {expected}, for soak-{newest}")


class WatchingModel(ScriptedModel):
    """Looks at every question, and keeps none: a long run asks too many."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __enter__(self) -> "WatchingModel":
        super().__enter__()
        return self

    def begin(self, body: Body) -> None:
        self.watch.look(body["input"])
        super().begin({})
