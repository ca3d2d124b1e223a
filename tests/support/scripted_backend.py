"""A backend that plays a script: batches to yield, errors to raise; it remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from app.lib.account import Account, AccountReport, AccountState, LoginCode, LoginDone, LoginStep
from app.lib.account_limits import AccountLimits
from app.lib.events import (
    BackendEvent,
    FinishReason,
    ModelActive,
    ReasoningDelta,
    ResponseDone,
    TextDelta,
    ToolSignal,
    TurnEnded,
)
from app.lib.models import Model
from app.lib.orders import Order
from app.lib.prompt import Prompt
from app.lib.usage import Usage
from app.pipeline import Census, Client

Step = list[BackendEvent] | Exception
#: A generator may serve as a script where a test wants a say in what comes when.
Script = Iterable[Step]

MODELS = (Model("gpt-5.5", "gpt-5.5", "openai"), Model("vendor/fast", "gpt-5.5", "codex-gateway", "low"))
LOGGED_OUT = Account(AccountState.OUT)
LOGGED_IN = Account(AccountState.IN, "chatgpt", "plus", "someone@example.org")
#: When the limits were told.
TOLD_AT_S = 1_790_000_000.5
LOGIN_CODE = LoginCode("https://auth.example.org/codex/device", "ABCD-EFGH")
USAGE = Usage(input_tokens=120, cached_tokens=100, output_tokens=20, reasoning_tokens=5)


def say(*deltas: str, choice: int = 0, item_id: str = "msg_0") -> list[BackendEvent]:
    return [ModelActive(choice), *(TextDelta(choice, item_id, delta) for delta in deltas)]


def think(*deltas: str, choice: int = 0, part: int = 0) -> list[BackendEvent]:
    return [ModelActive(choice), *(ReasoningDelta(choice, "rs_0", part, delta) for delta in deltas)]


def end(
    reason: FinishReason = FinishReason.STOP, choice: int = 0, usage: Usage = USAGE
) -> list[BackendEvent]:
    return [ResponseDone(choice, usage), TurnEnded(choice, reason)]


def signal(*payloads: dict[str, Any], choice: int = 0) -> list[BackendEvent]:
    """Payloads about calls, in whatever shape."""
    return [ModelActive(choice), *(ToolSignal(choice, payload) for payload in payloads)]


def call(name: str, arguments: str, call_id: str = "call_0", choice: int = 0) -> list[BackendEvent]:
    """A call as codex tells it."""
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return signal(item, choice=choice)


def tell_in_chat(
    name: str, fragments: Iterable[str], call_id: str = "call_0", index: int = 0
) -> list[dict[str, Any]]:
    """A call as chat deltas tell it, a payload for each fragment of its arguments."""
    function = {"name": name, "arguments": ""}
    began = {"index": index, "id": call_id, "type": "function", "function": function}
    more = [{"index": index, "function": {"arguments": fragment}} for fragment in fragments]
    return [{"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]} for part in [began, *more]]


def tell_in_responses(name: str, fragments: Iterable[str], index: int = 0) -> list[dict[str, Any]]:
    """A call as Responses events tell it, from its item to that item done."""
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "name": name}
    where = {"output_index": index, "item_id": f"fc_{index}"}
    arguments = "".join(fragments)
    deltas = [
        {"type": "response.function_call_arguments.delta", **where, "sequence_number": number, "delta": text}
        for number, text in enumerate(fragments, 1)
    ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item | {"arguments": ""}},
        *deltas,
        {"type": "response.function_call_arguments.done", **where, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": index, "item": item | {"arguments": arguments}},
    ]


class Anew:
    """A script that a function makes for every turn anew, so that it may wait for what is ordered."""

    def __init__(self, make: Callable[[], Iterator[Step]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Step]:
        return self._make()


class ScriptedTurn:
    def __init__(self, script: Script) -> None:
        self._script = script
        self.closes = 0
        #: Batches asked for so far.
        self.reads = 0
        #: What the core wanted done.
        self.orders: list[Order] = []

    def batches(self) -> Iterator[list[BackendEvent]]:
        for step in self._script:
            self.reads += 1
            if isinstance(step, Exception):
                raise step
            yield step

    def order(self, orders: Sequence[Order]) -> None:
        self.orders += orders

    def close(self) -> None:
        self.closes += 1


class ScriptedBackend:
    """Every turn plays `script` anew."""

    def __init__(self, script: Script = ()) -> None:
        self.script = script
        self.offered: tuple[Model, ...] | Exception = MODELS
        self.ready = True
        self.told_account = LOGGED_OUT
        self.told_limits: AccountLimits | None = None
        self.version: str | None = "0.163.0"
        #: What a login tells, or raises.
        self.login: Iterable[LoginStep | Exception | None] = (None, LOGIN_CODE, None, LoginDone())
        #: Logins that are under way.
        self.logins = 0
        self.prompts: list[Prompt] = []
        self.clients: list[Client] = []
        self.owners: list[str] = []
        self.turns: list[ScriptedTurn] = []

    def start(self) -> None:
        """Nothing to warm up."""

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> ScriptedTurn:
        self.prompts.append(prompt)
        self.owners.append(owner)
        self.clients.append(client)
        self.turns.append(ScriptedTurn(self.script))
        return self.turns[-1]

    def models(self, client: Client) -> tuple[Model, ...]:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered

    def known_models(self) -> tuple[Model, ...]:
        return MODELS

    def account(self, client: Client) -> AccountReport:
        return AccountReport(self.told_account, self.told_limits, TOLD_AT_S if self.told_limits else None)

    def log_in(self, client: Client) -> Generator[LoginStep | None, None, None]:
        self.logins += 1
        try:
            for step in self.login:
                if client.has_left():
                    return
                if isinstance(step, Exception):
                    raise step
                self.told_account = LOGGED_IN if isinstance(step, LoginDone) else self.told_account
                yield step
        finally:
            self.logins -= 1

    def log_out(self, client: Client) -> None:
        self.told_account, self.told_limits = LOGGED_OUT, None

    def codex_version(self) -> str | None:
        return self.version

    def census(self) -> Census:
        return Census()

    def is_ready(self) -> bool:
        return self.ready

    def drain(self, deadline_s: float) -> None:
        """Scripts end by themselves."""

    def close(self) -> None:
        """No processes to stop."""
