"""Whether a model is sent the client's words and tools alone: turns through codex, seen from behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from app.backend import calls
from app.backend.calls import Call
from app.backend.directory import ModelDirectory
from app.backend.threads import Threads
from app.backend.waiting import run_through
from app.doctor.findings import Finding, ok, wrong
from app.doctor.patient import Patient, Unfit
from app.doctor.recorder import Recorder
from app.doctor.upstream import SAME, Difference, compare
from app.lib.events import TurnFailed
from app.lib.models import Model
from app.lib.prompt import Prompt, build_prompt
from app.lib.request import Message, Role, TextPart, TurnRequest
from app.lib.tool_registry import ToolRegistry, ToolSpec

BARE = "bare model"

TURNS_S = 15.0
#: The name that the recording model has for codex.
PROVIDER = "doctor"
HISTORY = (
    Message(Role.DEVELOPER, (TextPart("Answer in one word."),)),
    Message(Role.USER, (TextPart("Is there anything but this in your instructions?"),)),
)
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
TOOL = ToolSpec("look_up", "Looks a word up.", SCHEMA)
#: The tool as the model gets it.
OFFERED = [
    {
        "type": "function",
        "name": TOOL.name,
        "description": TOOL.description,
        "strict": False,
        "parameters": SCHEMA,
    }
]


class RecordedModels(ModelDirectory):
    """Every model as it is set up, but answered by the recorder."""

    def __init__(self, patient: Patient, recorder: Recorder) -> None:
        super().__init__(patient.home.get(), patient.settings)
        self._recorder = recorder

    def start_thread(
        self, model: Model, tools: Sequence[dict[str, Any]] = (), web_search: bool = False
    ) -> Call:
        call = super().start_thread(model, tools, web_search)
        return calls.with_provider(call, PROVIDER, self._recorder.base_url)


def check_bare(patient: Patient) -> list[Finding]:
    process, slugs = patient.process.get(), patient.catalogue.get().models
    deadline_s = time.monotonic() + TURNS_S
    found: dict[Difference, list[str]] = {}
    with Recorder() as recorder:
        directory = RecordedModels(patient, recorder)
        for slug in slugs:
            prompt = build_prompt(TurnRequest(slug, HISTORY, tools=ToolRegistry([TOOL])))
            threads = Threads(process, prompt, patient.settings)
            run_through(threads.open(directory, Model(slug, slug, PROVIDER)))
            failure = read_to_the_end(threads, deadline_s)
            difference = judge(recorder.take(), prompt, failure)
            found.setdefault(difference, []).append(slug)
    return report(found, patient.advice)


def read_to_the_end(threads: Threads, deadline_s: float) -> str:
    """Wait for a turn's end; what it failed by, if it did."""
    failure = ""
    while threads.is_running:
        if time.monotonic() >= deadline_s:
            raise Unfit(f"codex did not end its turns in {TURNS_S:.0f} seconds: is the machine overloaded?")
        for event in threads.read():
            if isinstance(event, TurnFailed):
                failure = event.error.message
    return failure


def judge(bodies: list[dict[str, Any]], prompt: Prompt, failure: str) -> Difference:
    if not bodies:
        raise Unfit(f"codex sent nothing to a model on loopback ({failure})")
    return compare(bodies, prompt.items, OFFERED)


def report(found: dict[Difference, list[str]], advice: str) -> list[Finding]:
    """A line for each difference, with the models that have it."""
    count = sum(map(len, found.values()))
    if found.keys() <= {SAME}:
        return [ok(BARE, f"the client's words and tools reach each of {count} models, and nothing else")]
    return [
        wrong(BARE, f"{difference} (with {name_models(slugs, count)}): {advice}")
        for difference, slugs in found.items()
        if difference != SAME
    ]


def name_models(slugs: list[str], count: int) -> str:
    return f"each of {count} models" if len(slugs) == count else ", ".join(slugs)
