"""A backend that plays a script: batches to yield, errors to raise; it remembers what it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.lib.events import (
    BackendEvent,
    FinishReason,
    ModelActive,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
    Usage,
    UsageReported,
)
from app.lib.models import Model
from app.lib.prompt import Prompt
from app.pipeline import Client

Step = list[BackendEvent] | Exception
#: A generator may serve as a script where a test wants a say in what comes when.
Script = Iterable[Step]

MODELS = (Model("gpt-5.5", "gpt-5.5", "openai"), Model("vendor/fast", "gpt-5.5", "codex-gateway", "low"))
USAGE = Usage(input_tokens=120, cached_tokens=100, output_tokens=20, reasoning_tokens=5)


def say(*deltas: str, choice: int = 0, item_id: str = "msg_0") -> list[BackendEvent]:
    return [ModelActive(choice), *(TextDelta(choice, item_id, delta) for delta in deltas)]


def think(*deltas: str, choice: int = 0, part: int = 0) -> list[BackendEvent]:
    return [ModelActive(choice), *(ReasoningDelta(choice, "rs_0", part, delta) for delta in deltas)]


def end(
    reason: FinishReason = FinishReason.STOP, choice: int = 0, usage: Usage = USAGE
) -> list[BackendEvent]:
    return [UsageReported(choice, usage), TurnEnded(choice, reason)]


class ScriptedTurn:
    def __init__(self, script: Script) -> None:
        self._script = script
        self.closes = 0
        #: Batches asked for so far.
        self.reads = 0

    def batches(self) -> Iterator[list[BackendEvent]]:
        for step in self._script:
            self.reads += 1
            if isinstance(step, Exception):
                raise step
            yield step

    def close(self) -> None:
        self.closes += 1


class ScriptedBackend:
    """Every turn plays `script` anew."""

    def __init__(self, script: Script = ()) -> None:
        self.script = script
        self.offered: tuple[Model, ...] | Exception = MODELS
        self.ready = True
        self.prompts: list[Prompt] = []
        self.turns: list[ScriptedTurn] = []

    def start(self) -> None:
        """Nothing to warm up."""

    def open_turn(self, prompt: Prompt, client: Client) -> ScriptedTurn:
        self.prompts.append(prompt)
        self.turns.append(ScriptedTurn(self.script))
        return self.turns[-1]

    def models(self, client: Client) -> tuple[Model, ...]:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered

    def is_ready(self) -> bool:
        return self.ready

    def drain(self, deadline_s: float) -> None:
        """Scripts end by themselves."""

    def close(self) -> None:
        """No processes to stop."""
