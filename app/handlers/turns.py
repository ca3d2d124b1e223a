"""Runs one turn on the account of a request, in either dialect: it ends with that, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

from app.handlers.access import Access
from app.handlers.turn_notes import TurnNotes
from app.lib.answer_rules import AnswerRules
from app.lib.deadlines import Deadlines
from app.lib.errors import ClientGone
from app.lib.events import TurnEvent
from app.lib.models import find_model
from app.lib.prompt import Prompt
from app.lib.turn import TurnCore
from app.pipeline import Backend, run_turn
from app.settings import Settings

# In one log line: a client may declare hundreds.
MOST_NAMES = 50


class TurnRunner:
    def __init__(self, backend: Backend, settings: Settings) -> None:
        self._backend = backend
        self._transport = settings.tool_transport
        self._deadlines = Deadlines(
            settings.first_event_timeout_s, settings.idle_timeout_s, settings.total_timeout_s
        )

    def require_model(self, access: Access, model: str) -> None:
        """Refuse a model that nobody knows; a turn that is waited for finds out by itself."""
        find_model(self._backend.models(access.client), model)

    def run(
        self, access: Access, prompt: Prompt, rules: AnswerRules, id_suffix: str
    ) -> Iterator[list[TurnEvent]]:
        """Start a turn on the account of a request; `id_suffix` makes the ids of its calls unique."""
        if names := prompt.request.tools.names:
            access.note(tools=len(names), tool_names=names[:MOST_NAMES], transport=self._transport.value)
        turn = self._backend.open_turn(prompt, access.client, access.owner)
        core = TurnCore(prompt.request.choices, self._deadlines, rules, id_suffix)
        notes = TurnNotes(access)
        batches = notes.observe(run_turn(turn, core))

        def count_rest() -> None:
            """What a client that left was still owed."""
            if not core.ended:
                notes.add(core.fail(ClientGone("The client left.")))

        access.on_close(count_rest)  # last
        access.on_close(turn.close)
        # Before that: a turn that still waits for its process lets go of it when its generator is closed. The
        # outermost is: left to an error's traceback, it may be collected while an inner one is being closed.
        access.on_close(batches.close)
        return batches
