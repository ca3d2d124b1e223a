"""The text of an answer that has to be a call: no client sees it."""

from __future__ import annotations

from app.lib.errors import InvalidToolCall
from app.lib.events import FinishReason, TurnEvent
from app.lib.text_buffer import TextBuffer
from app.lib.text_gate import Reason


class HiddenText:
    """Stands where `ToolText` does, and keeps the last item's text."""

    cut: FinishReason | None = None
    refusal: InvalidToolCall | None = None
    has_blocks = False

    def __init__(self) -> None:
        self.item_id = ""
        self._buffer = TextBuffer()

    def feed(self, item_id: str, text: str, _pieces: tuple[str, ...] = ()) -> list[TurnEvent]:
        if item_id != self.item_id:
            self.item_id, self._buffer = item_id, TextBuffer()
        self._buffer.append(text)
        return []

    def end_item(self, _reason: Reason = Reason.STREAM_ENDED) -> list[TurnEvent]:
        return []

    def see(self, now_s: float) -> None:
        """Nothing here waits."""

    def take(self) -> str:
        """The answer; the next one begins anew."""
        text, self._buffer = self._buffer.read(), TextBuffer()
        return text
