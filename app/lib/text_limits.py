"""Ends a text where its reader wants it ended: at a stop text, or after so many bytes."""

from __future__ import annotations

from app.lib.events import FinishReason


class _StopText:
    """One stop text, looked for a character at a time: no cut of the text makes a character count twice."""

    __slots__ = ("_borders", "is_complete", "reach", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        #: How far back from the end of what was fed it begins, all of it or so far a part.
        self.reach = 0
        self.is_complete = False
        #: For each beginning of it, as far as was matched: how much of its end is a beginning, too.
        self._borders = [0]

    def feed(self, text: str) -> None:
        if self.is_complete:
            self.reach += len(text)
        elif self.reach or self.text[0] in text:
            self._search(text)

    def reset(self) -> None:
        self.reach = 0

    def _search(self, text: str) -> None:
        for place, char in enumerate(text, 1):
            self.reach = self._match(self.reach, char)
            if self.reach == len(self.text):
                self.is_complete = True
                self.reach += len(text) - place
                return
            if self.reach > len(self._borders):
                self._borders.append(self._match(self._borders[-1], char))

    def _match(self, matched: int, char: str) -> int:
        """How much is matched with one more character, so much having been before it."""
        while matched and char != self.text[matched]:
            matched = self._borders[matched - 1]
        return matched + (char == self.text[matched])


class TextLimits:
    """Passes a text on up to its first stop text, and never more than `max_bytes` of it in UTF-8.

    Held back is only what a stop text may have begun in. The result is the same for every cut of the text.
    """

    def __init__(self, stop: tuple[str, ...] = (), max_bytes: int | None = None) -> None:
        self._stops = [_StopText(text) for text in stop if text]
        self._left = max_bytes
        self._is_free = not self._stops and max_bytes is None
        #: What is held is the beginning of a stop text, of this length.
        self._held = ("", 0)
        #: Which limit ended the text; nothing goes out any more.
        self.reached: FinishReason | None = None

    def feed(self, text: str) -> str:
        """What may go out now."""
        if self._is_free:
            return text
        if self.reached:
            return ""
        return self._search(text) if self._stops else self._limit(text)

    def flush(self) -> str:
        """Let go of what is held: no stop text goes on behind this."""
        if self.reached:
            return ""
        beginning, held = self._held
        complete = max((stop.reach for stop in self._stops if stop.is_complete), default=0)
        self._held = ("", 0)
        for stop in self._stops:
            stop.reset()
        return self._give(beginning[: held - complete], bool(complete))

    def _search(self, text: str) -> str:
        beginning, held = self._held
        for stop in self._stops:
            stop.feed(text)
        # One found inside another that may yet be completed has to wait: the first to begin counts.
        first = max(self._stops, key=lambda stop: (stop.reach, stop.is_complete))
        self._held = (first.text, first.reach)
        count = held + len(text) - first.reach
        # Built from what goes out alone: however much is held, it is not copied each time.
        out = beginning[:count] if count <= held else beginning[:held] + text[: count - held]
        return self._give(out, first.is_complete)

    def _give(self, text: str, is_last: bool) -> str:
        out = self._limit(text)
        if is_last and self.reached is None:
            self.reached = FinishReason.STOP
        return out

    def _limit(self, text: str) -> str:
        if self._left is None:
            return text
        data = text.encode()
        if len(data) <= self._left:
            self._left -= len(data)
            return text
        self.reached = FinishReason.LENGTH
        # The only character that can be broken is the last one, by the cut.
        return data[: self._left].decode(errors="ignore")
