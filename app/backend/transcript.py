"""What threads come to hold while one request is answered: the model's words, and what nobody was told."""

from __future__ import annotations

from typing import Any

from app.backend.questions import Questions
from app.lib.tool_call_shapes import is_echo

Params = dict[str, Any]


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

    def note_end(self, params: Params) -> None:
        match params:
            case {"turn": {"status": "completed"}}:
                pass
            case _:
                self.has_secrets = True

    def note_item(self, params: Params, questions: Questions) -> None:
        match params:
            case _ if is_echo(params):
                pass
            case {"item": {"type": "message", "role": "assistant", "content": list(parts)}}:
                self._words += filter(None, map(read_text, parts))
            case {
                "threadId": str(thread_id),
                "item": {"type": "function_call_output", "call_id": str(call_id)},
            }:
                # Codex answers some calls by itself, and has the model try again.
                is_ours = questions.has_answer((thread_id, call_id))
                self.has_results = self.has_results or is_ours
                self.has_secrets = self.has_secrets or not is_ours
            case {"item": {"type": "web_search_call" | "function_call_output"}}:
                self.has_secrets = True


def read_text(part: Any) -> str | None:
    match part:
        case {"text": str(text)}:
            return text
        case _:
            return None
