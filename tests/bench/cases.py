"""The kinds of request whose CPU is measured, each beside the floor's answer of the same bytes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.continuations import TOOL
from tests.bench.load import (
    CHAT,
    RESPONSES,
    TEN_TOOLS,
    build_calling_script,
    build_chat,
    build_conversation,
    build_history,
    build_responses,
    build_script,
)

MESSAGE_CHARS = 2_000
HISTORIES = (1, 50, 500)
DELTAS = (1, 100, 1_000, 10_000)
KB, MB = 1_000, 1_000_000
ARGUMENTS = {1 * KB: "1 KB", 100 * KB: "100 KB", 1 * MB: "1 MB", 5 * MB: "5 MB"}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request, and how often it is sent in a round."""

    what: str
    requests: int
    #: The request's body, by the model.
    build: Callable[[str], bytes]
    path: str = CHAT
    #: Those of a stream, which the floor writes one by one; none where the cost is not that of frames.
    deltas: int = 1
    pause_s: float = 0.0
    goal: float | None = None


def build_text_case(
    what: str, deltas: int, requests: int, pause_s: float = 0.0, goal: float | None = None
) -> Case:
    script = build_script(deltas, **({"pause_s": pause_s} if pause_s else {}))
    build = functools.partial(build_chat, script=script, stream=True)
    return Case(what, requests, build, CHAT, deltas, pause_s, goal)


def build_history_case(messages: int, requests: int) -> Case:
    def build(model: str) -> bytes:
        told = build_history(messages - 1, MESSAGE_CHARS)
        return build_conversation(model, [*told, {"role": "user", "content": build_script(1)}], stream=True)

    size = f"{messages * MESSAGE_CHARS // KB:,} KB"
    return Case(f"one-delta stream, history of {messages} messages, {size}", requests, build, deltas=0)


def build_call_case(size: int, requests: int) -> Case:
    build = functools.partial(build_chat, script=build_calling_script(size), stream=True, tools=[TOOL])
    return Case(f"stream of a tool call, arguments of {ARGUMENTS[size]}", requests, build, CHAT, deltas=0)


SAY_ONE = build_script(1)
# A hundred a round: as many turns as a codex process serves, so that each round pays for one replacement.
DELTA_CASES = {
    1: build_text_case("one-delta stream", 1, 100, goal=1.8),
    100: build_text_case("100-delta stream, ready together", 100, 100, goal=1.0),
    1_000: build_text_case("1,000-delta stream, ready together", 1_000, 20),
    10_000: build_text_case("10,000-delta stream, ready together", 10_000, 3),
}
CASES = (
    build_text_case("100-delta stream, 1 ms apart (floor too)", 100, 8, pause_s=0.001),
    Case("non-stream, one delta", 100, functools.partial(build_chat, script=SAY_ONE, stream=False)),
    Case(
        "one-delta stream, ten tools declared",
        100,
        functools.partial(build_chat, script=SAY_ONE, stream=True, tools=TEN_TOOLS),
    ),
    Case(
        "one-delta stream, `/v1/responses`",
        100,
        functools.partial(build_responses, script=SAY_ONE, stream=True, store=False),
        RESPONSES,
    ),
    Case(
        "one-delta stream, `/v1/responses`, stored",
        100,
        functools.partial(build_responses, script=SAY_ONE, stream=True),
        RESPONSES,
    ),
    Case(
        "100-delta stream, `/v1/responses`, ready together",
        50,
        functools.partial(build_responses, script=build_script(100), stream=True, store=False),
        RESPONSES,
        deltas=100,
    ),
    Case(
        "non-stream, one delta, `/v1/responses`",
        100,
        functools.partial(build_responses, script=SAY_ONE, stream=False, store=False),
        RESPONSES,
    ),
)
HISTORY_CASES = {number: build_history_case(number, 100 if number < 100 else 20) for number in HISTORIES}
CALL_CASES = {
    size: build_call_case(size, requests) for size, requests in zip(ARGUMENTS, (50, 20, 5, 2), strict=True)
}
CODEX_CASES = (
    build_text_case("one-delta stream, real codex", 1, 50),
    build_text_case("100-delta stream, real codex", 100, 20),
)
