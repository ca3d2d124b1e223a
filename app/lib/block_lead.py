"""What has to follow an opener if a block is to come of it, read as far as the text has come."""

from __future__ import annotations

import re
from collections.abc import Mapping

START = "start"
#: How a lead ends: no block comes of it, it is a block's, or a JSON object has begun.
OUT, BLOCK, OBJECT = "out", "block", "object"
MORE = "more"

#: By state: what may be skipped, and which character leads to which state.
Steps = Mapping[str, tuple[str, Mapping[str, str]]]

# A tag to its end, then an element: `xml.read_elements` knows nothing else.
USE_TOOL_STEPS: Steps = {
    START: ("[^>]*+", {">": "inside"}),
    "inside": (r"\s*+", {"<": "element"}),
    "element": ("", {"[A-Za-z_]": BLOCK}),
}
# An object, or a fence around one: what `sentinel.read_block` reads, and what it repairs.
TOOL_CALL_STEPS: Steps = {
    START: (r"\s*+", {r"\{": OBJECT, "`": "tick"}),
    "tick": ("", {"`": "ticks"}),
    "ticks": ("", {"`": "fence"}),
    "fence": (r"\s*+", {r"\{": OBJECT, "j": "j"}),
    "j": ("", {"s": "js"}),
    "js": ("", {"o": "jso"}),
    "jso": ("", {"n": "json"}),
    "json": (r"\s*+", {r"\{": OBJECT}),
}


class Lead:
    def __init__(self, steps: Steps, otherwise: str = OUT) -> None:
        """`otherwise` is what any other character leads to."""
        self._steps = {state: build_step(*step, otherwise) for state, step in steps.items()}

    def is_open(self, state: str) -> bool:
        return state in self._steps

    def read(self, state: str, text: str, start: int) -> tuple[str, int]:
        """Go on from a state; returns the one reached, and where: before a character that leads out."""
        while self.is_open(state):
            found = next(self._steps[state].finditer(text, start))  # there is one: `otherwise` takes nothing
            start = found.end()
            if found.lastgroup == MORE:
                break
            state = found.lastgroup or OUT
        return state, start


def build_step(skipped: str, ways: Mapping[str, str], otherwise: str) -> re.Pattern[str]:
    groups = "|".join(f"(?P<{state}>{character})" for character, state in ways.items())
    return re.compile(rf"{skipped}(?:{groups}|(?P<{MORE}>\Z)|(?P<{otherwise}>))")
