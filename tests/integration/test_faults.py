"""What can go wrong on the pipe to codex, the stand-in or the real one: nobody hangs, nothing leaks.

A gateway serves many faults: a meddler sits on the pipe of each of its processes, and strikes as a test says.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from tests.support.gateway import wait_until
from tests.support.places import ANSWERED, SCRIPT, Place, everywhere, run_place, try_everywhere
from tests.support.scripted_model import ScriptedModel
from tests.support.told import Told

pytestmark = pytest.mark.real

STOPPED: Told = (200, "one ", None)
BROKEN: Told = (503, "", "backend_unavailable")
BROKEN_OFF: Told = (200, "one ", "backend_unavailable")
LATE: Told = (504, "", "backend_timeout")
LATE_OFF: Told = (200, "one ", "backend_timeout")

Start = Callable[..., Place]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, model: ScriptedModel) -> Iterator[Start]:
    with ExitStack() as stack:

        def start_place(backend: str, stream: bool = True, **environ: str) -> Place:
            folder = tmp_path_factory.mktemp(backend)
            return stack.enter_context(run_place(folder, backend, model.base_url, stream, **environ))

        yield start_place


@pytest.fixture(scope="module")
def warm(start: Start) -> list[Place]:
    """No more processes than are to be warm: who fails is replaced by the other, no burst leaves spares."""
    environ = {"PROXY_WARM_PROCESSES": "2", "PROXY_MAX_PROCESSES": "2"}
    return [
        start("stand-in", **environ),
        start("stand-in", stream=False, **environ),
        start("real", **environ),
    ]


@pytest.fixture(scope="module")
def fresh(start: Start) -> list[Place]:
    """Every request has a process of its own, from its first line to its last."""
    environ = {"PROXY_WARM_PROCESSES": "0", "PROXY_PROCESS_MAX_TURNS": "1"}
    return [start("stand-in", **environ), start("real", **environ)]


def when(do: str, argument: Any = None, **moment: Any) -> dict[str, Any]:
    return {"do": do, "with": argument, **moment}


STARTING = {"after": "thread/inject_items"}
STARTED = {"after": "turn/start"}
SAYING = {"after": "item/agentMessage/delta"}
ENDED = {"after": "turn/completed"}
GARBAGE = '}{ garbage, "not" json'


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        # A turn that has not begun can begin elsewhere: nobody sees a thing.
        pytest.param(when("die", **STARTING), ANSWERED, id="starting-dies"),
        pytest.param(when("raw", GARBAGE, **STARTING), ANSWERED, id="starting-garbage"),
        pytest.param(when("raw", "[1]", **STARTING), ANSWERED, id="starting-not-a-message"),
        pytest.param(when("half", **STARTING), ANSWERED, id="starting-half-a-line"),
        pytest.param(when("long", 70, **STARTING), ANSWERED, id="starting-too-long-a-line"),
        pytest.param(when("silence", **STARTING), ANSWERED, id="starting-silence"),
        pytest.param(when("freeze", **STARTING), ANSWERED, id="starting-frozen"),
        pytest.param(when("deaf", before="thread/inject_items"), ANSWERED, id="starting-reads-nothing"),
        pytest.param(when("flood", **STARTING), ANSWERED, id="starting-endless-flood"),
        pytest.param(when("ask_without_listening", **STARTING), ANSWERED, id="starting-asks-unheard"),
        # But once: where the other process does the same, the client is told.
        pytest.param(when("die", **STARTING, every=True), BROKEN, id="everyone-dies"),
        pytest.param(when("silence", **STARTING, every=True), LATE, id="everyone-silent"),
        # A turn that has begun may have cost something: it is not begun again.
        pytest.param(when("die", **STARTED), BROKEN, id="started-dies"),
        pytest.param(when("raw", GARBAGE, **STARTED), BROKEN, id="started-garbage"),
        pytest.param(when("half", **STARTED), BROKEN, id="started-half-a-line"),
        pytest.param(when("silence", **STARTED), LATE, id="started-silence"),
        # What was shown stays, and an error follows it.
        pytest.param(when("die", **SAYING), BROKEN_OFF, id="saying-dies"),
        pytest.param(when("raw", GARBAGE, **SAYING), BROKEN_OFF, id="saying-garbage"),
        pytest.param(when("half", **SAYING), BROKEN_OFF, id="saying-half-a-line"),
        pytest.param(when("long", 70, **SAYING), BROKEN_OFF, id="saying-too-long-a-line"),
        pytest.param(when("silence", **SAYING), LATE_OFF, id="saying-silence"),
        pytest.param(when("flood", **SAYING), LATE_OFF, id="saying-endless-flood"),
        # Odd, and no harm.
        pytest.param(when("repeat", 2, **STARTING), ANSWERED, id="answers-thrice"),
        pytest.param(when("repeat", 1, **STARTED), ANSWERED, id="answers-a-turn-twice"),
        pytest.param(when("repeat", 1, **ENDED), ANSWERED, id="ends-twice"),
        pytest.param(when("hold", "turn/start", **STARTING), ANSWERED, id="answers-out-of-order"),
        pytest.param(when("hold", "turn/completed", **STARTED), ANSWERED, id="answers-last"),
        pytest.param(when("reply_to_nobody", [424242, -1, 0], **STARTED), ANSWERED, id="answers-nobody"),
        pytest.param(when("flood", 20_000, **STARTED), ANSWERED, id="flood"),
        pytest.param(when("long", 50, **SAYING), ANSWERED, id="a-line-of-50-mb"),
        # The answer is whole; it is the next request that gets a process which went wrong behind it.
        pytest.param(when("die", **ENDED), ANSWERED, id="ended-dies"),
        pytest.param(when("raw", GARBAGE, **ENDED), ANSWERED, id="ended-garbage"),
        pytest.param(when("half", **ENDED), ANSWERED, id="ended-half-a-line"),
        pytest.param(when("silence", **ENDED), ANSWERED, id="ended-silence"),
        pytest.param(when("freeze", **ENDED), ANSWERED, id="ended-frozen"),
        pytest.param(when("flood", **ENDED), ANSWERED, id="ended-endless-flood"),
    ],
)
def test_a_fault_in_a_turn(warm: list[Place], plan: dict[str, Any], told: Told) -> None:
    def attempt(place: Place) -> Told:
        with place.meddled.arm(plan):
            seen = place.ask()
            wait_until(lambda: place.meddled.struck)
        return seen

    assert try_everywhere(warm, attempt) == everywhere(warm, told)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        pytest.param(when("die"), ANSWERED, id="dies-at-spawn"),
        pytest.param(when("die", before="initialize"), ANSWERED, id="dies-before-hello"),
        pytest.param(when("raw", GARBAGE), ANSWERED, id="garbage-at-spawn"),
        pytest.param(when("half"), ANSWERED, id="half-a-line-at-spawn"),
        pytest.param(when("silence"), ANSWERED, id="says-nothing"),
        pytest.param(when("deaf"), ANSWERED, id="reads-nothing"),
        pytest.param(when("die", every=True), BROKEN, id="everyone-dies-at-spawn"),
        pytest.param(when("die", before="initialize", every=True), BROKEN, id="everyone-dies-before-hello"),
        pytest.param(when("silence", every=True), LATE, id="everyone-says-nothing"),
    ],
)
def test_a_fault_at_the_start(fresh: list[Place], plan: dict[str, Any], told: Told) -> None:
    def attempt(place: Place) -> Told:
        with place.meddled.arm(plan):
            seen = place.ask()
            assert place.meddled.struck
        return seen

    assert try_everywhere(fresh, attempt) == everywhere(fresh, told)


@pytest.mark.parametrize("number", [pytest.param(0, id="stand-in"), pytest.param(1, id="real")])
def test_death_between_any_two_lines(fresh: list[Place], number: int) -> None:
    """Behind each line of a process's life, one after the other, until there are no more."""
    place, seen = fresh[number], []
    while not seen or "turn/completed" not in seen[-1][0]:
        with place.meddled.arm(when("die", after_line=len(seen) + 1)):
            told = place.ask()
            [pid] = place.meddled.struck
        seen.append((place.meddled.read_lines(pid), told))
    assert [told for _, told in seen] == [expect_end(lines) for lines, _ in seen]
    assert len(seen) > 10
    place.recover()


def expect_end(lines: list[str]) -> Told:
    """What a client is told of a process that dies behind these lines."""
    if "turn/start" not in lines or "turn/completed" in lines:
        return ANSWERED
    if "item/started" not in lines:
        return BROKEN
    said = SCRIPT[0]["say"][: lines.count("item/agentMessage/delta")]
    return 200, "".join(said), "backend_unavailable"


QUESTIONS: list[dict[str, Any]] = [
    {"id": 0, "method": "item/commandExecution/requestApproval", "params": {"command": "rm -rf /"}},
    {"id": 1, "method": "item/fileChange/requestApproval", "params": {}},
    {"id": 900_001, "method": "item/tool/call", "params": {}},
    {"id": 900_002, "method": "item/tool/call", "params": {"threadId": "nobody", "callId": "c", "tool": "f"}},
    {"id": 900_003, "method": "item/tool/requestUserInput", "params": {"questions": []}},
    {"id": "a-name", "method": "account/chatgptAuthTokens/refresh", "params": {"reason": "unauthorized"}},
    {"id": 900_004, "method": "never/seen"},
]


@pytest.mark.parametrize(
    "moment", [pytest.param(each, id=each["after"]) for each in (STARTING, STARTED, SAYING)]
)
def test_questions_nobody_expects(warm: list[Place], moment: dict[str, Any]) -> None:
    """Each is declined once, and the turn goes on."""

    def attempt(place: Place) -> Told:
        with place.meddled.arm(when("ask", QUESTIONS, **moment)):
            seen = place.ask()
        wait_until(lambda: len(place.meddled.answers) == len(QUESTIONS))
        declined = {str(answer["id"]) for answer in place.meddled.answers if "error" in answer}
        assert declined == {str(question["id"]) for question in QUESTIONS}
        return seen

    assert try_everywhere(warm, attempt) == everywhere(warm, ANSWERED)


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param(["turn/interrupt"], id="interrupt"),
        pytest.param(["turn/interrupt", "SIGTERM", "EOF"], id="everything"),
    ],
)
def test_a_process_that_does_not_stop(warm: list[Place], ignored: list[str]) -> None:
    """The answer ends where the client wants it to; the process is ended by force."""

    def attempt(place: Place) -> Told:
        with place.meddled.arm(when("ignore", ignored, **STARTED)):
            seen = place.ask([*SCRIPT, {"wait": 60}], stop="two")
            assert place.meddled.struck
        return seen

    assert try_everywhere(warm, attempt) == everywhere(warm, STOPPED)


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        pytest.param(when("flood", **STARTED), LATE, id="endless-flood"),
        pytest.param(when("ask_without_listening", **STARTED), LATE, id="asks-unheard"),
        pytest.param(when("long", 1000, **STARTED), BROKEN, id="endless-line"),
    ],
)
def test_others_are_served_meanwhile(warm: list[Place], plan: dict[str, Any], told: Told) -> None:
    """Reading what never ends does not stop the worker."""

    def attempt(place: Place) -> Told:
        with place.meddled.arm(plan), ThreadPoolExecutor(1) as executor:
            flooded = executor.submit(place.ask)
            wait_until(lambda: place.meddled.struck)
            began_s = time.monotonic()
            assert place.ask() == ANSWERED
            assert time.monotonic() - began_s < 1
            return flooded.result()

    assert try_everywhere(warm, attempt) == everywhere(warm, told)


def test_processes_killed_while_idle(warm: list[Place]) -> None:
    def attempt(place: Place) -> Told:
        for pid in place.meddled.gateway.codex_pids:
            place.meddled.kill_codex(pid)
        return place.ask()

    assert try_everywhere(warm, attempt) == everywhere(warm, ANSWERED)


@pytest.mark.parametrize(
    ("script", "said", "told"),
    [
        pytest.param([{"wait": 60}], "turn/start", BROKEN, id="before-the-first-byte"),
        pytest.param([{"say": ["one "]}, {"wait": 60}], SAYING["after"], BROKEN_OFF, id="inside-the-text"),
    ],
)
def test_a_process_killed_while_owned(warm: list[Place], script: Any, said: str, told: Told) -> None:
    def attempt(place: Place) -> Told:
        with ThreadPoolExecutor(1) as executor:
            asked = executor.submit(place.ask, script)
            place.meddled.kill_codex(wait_until(lambda: place.meddled.find_inside(said)))
            return asked.result()

    assert try_everywhere(warm, attempt) == everywhere(warm, told)


TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "Tells.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_process_killed_while_parked(warm: list[Place], is_killed: bool) -> None:
    """A turn that waits for a tool's result is played again elsewhere, and its answer is the same."""
    script = [{"call": {"name": "f", "arguments": "{}"}}, {"then": SCRIPT}]

    def attempt(place: Place) -> Told:
        gateway = place.meddled.gateway
        called = gateway.chat(script, tools=[TOOL]).json()["choices"][0]["message"]
        parked = wait_until(lambda: place.meddled.find_inside("rawResponse/completed"), 2)
        if is_killed:
            place.meddled.kill_codex(parked)
        result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "a result"}
        messages = [{"role": "user", "content": json.dumps(script)}, called, result]
        response = gateway.chat("", messages=messages, tools=[TOOL])
        assert (response.headers["x-proxy-continuation"] == "parked") is not is_killed
        return response.status_code, response.json()["choices"][0]["message"]["content"], None

    assert try_everywhere(warm, attempt) == everywhere(warm, ANSWERED)


def test_processes_that_never_start_open_a_breaker(warm: list[Place]) -> None:
    """Five in a row: then everyone is told at once that it is not ready; it heals by itself."""
    place = warm[0]
    gateway = place.meddled.gateway
    with place.meddled.arm(when("die", every=True)):
        for pid in gateway.codex_pids:
            place.meddled.kill_codex(pid)
        assert place.ask() == BROKEN
        wait_until(lambda: place.ask() == BROKEN and not is_ready(place))
        began_s = time.monotonic()
        response = gateway.chat(SCRIPT)
        assert time.monotonic() - began_s < 0.5
        assert (response.status_code, response.json()["error"]["code"]) == BROKEN[::2]
        assert int(response.headers["retry-after"]) > 0
        assert len(place.meddled.struck) >= 5
    wait_until(lambda: is_ready(place), 40)
    place.recover()


def is_ready(place: Place) -> bool:
    return requests.get(f"{place.meddled.gateway.base_url}/readyz", timeout=10).status_code == 200


def test_counting_sees_what_is_held(warm: list[Place]) -> None:
    """Or nothing here would tell of a leak."""
    place = warm[0]
    before = place.meddled.settle()
    with place.meddled.gateway.chat([{"say": ["one "]}, {"wait": 60}], stream=True):
        during = place.meddled.count()
    assert [during[name] - before[name] for name in ("fds", "greenlets")] == [1, 1]
    place.recover()
