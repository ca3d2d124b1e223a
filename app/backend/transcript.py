"""What threads come to hold while one request is answered: the model's words, and what nobody was told."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from app.backend.callbacks import Key
from app.backend.raw_items import Answered, Called, ItemDone, Said, SearchedWeb, Thought


class Transcript:
    def __init__(self) -> None:
        self._words: list[str] = []
        #: Whether the threads hold more than their client knows: then no client's telling is theirs.
        self.has_secrets = False
        #: Whether codex took a result that this request brought.
        self.has_results = False

    @property
    def text(self) -> str:
        return "".join(self._words)

    def begin(self) -> None:
        """Another request is answered from here on."""
        self._words.clear()
        self.has_results = False

    def note_end(self, is_complete: bool) -> None:
        self.has_secrets = self.has_secrets or not is_complete

    def note_item(self, done: ItemDone, answered: Collection[Key]) -> None:
        """Note an item; which calls were answered by us."""
        match done.item:
            case Said(_, text):
                self._words.append(text)
            case Answered(call_id):
                # Codex answers some calls by itself, and has the model try again.
                is_ours = (done.thread_id, call_id) in answered
                self.has_results = self.has_results or is_ours
                self.has_secrets = self.has_secrets or not is_ours
            case SearchedWeb():
                self.has_secrets = True
            case Thought() | Called():
                pass
            case _:
                assert_never(done.item)
