"""What can go wrong on the pipe to codex, the stand-in or the real one: nobody hangs, nothing leaks.

A gateway serves many faults: a meddler sits on the pipe of each of its processes, and strikes as a test says.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.conftest import StartPlace
from tests.support.gateway import wait_until
from tests.support.meddled import Plan, when
from tests.support.places import (
    ANSWERED,
    BROKEN,
    BROKEN_OFF,
    LATE,
    LATE_OFF,
    SCRIPT,
    STOPPED,
    WARM,
    Place,
    everywhere,
    try_everywhere,
)
from tests.support.told import Told

pytestmark = pytest.mark.real

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
        pytest.param(when("long", 70, **STARTING), ANSWERED, id="starting-too-long-a-line"),
        pytest.param(when("silence", **STARTING), ANSWERED, id="starting-silence"),
        pytest.param(when("deaf", before="thread/inject_items"), ANSWERED, id="starting-reads-nothing"),
        pytest.param(when("ask_without_listening", **STARTING), ANSWERED, id="starting-asks-unheard"),
        # But once: where the other process does the same, the client is told.
        pytest.param(when("die", **STARTING, every=True), BROKEN, id="everyone-dies"),
        pytest.param(when("silence", **STARTING, every=True), LATE, id="everyone-silent"),
        # A turn that has begun may have cost something: it is not begun again.
        pytest.param(when("die", **STARTED), BROKEN, id="started-dies"),
        pytest.param(when("raw", GARBAGE, **STARTED), BROKEN, id="started-garbage"),
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
        pytest.param(when("freeze", **ENDED), ANSWERED, id="ended-frozen"),
        pytest.param(when("flood", **ENDED), ANSWERED, id="ended-endless-flood"),
    ],
)
def test_a_fault_in_a_turn(warm: list[Place], plan: Plan, told: Told) -> None:
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
        pytest.param(when("die", every=True), BROKEN, id="everyone-dies-at-spawn"),
        pytest.param(when("die", before="initialize", every=True), BROKEN, id="everyone-dies-before-hello"),
        pytest.param(when("silence", every=True), LATE, id="everyone-says-nothing"),
    ],
)
def test_a_fault_at_the_start(fresh: list[Place], plan: Plan, told: Told) -> None:
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
def test_questions_nobody_expects(warm: list[Place], moment: Plan) -> None:
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
        pytest.param(when("flood", **STARTED), [LATE], id="endless-flood"),
        # Whichever comes first: the end of its time, or too much to be held meanwhile.
        pytest.param(when("ask_without_listening", **STARTED), [LATE, BROKEN], id="asks-unheard"),
        pytest.param(when("long", 1000, **STARTED), [BROKEN], id="endless-line"),
    ],
)
def test_others_are_served_meanwhile(warm: list[Place], plan: Plan, told: list[Told]) -> None:
    """Reading what never ends does not stop the worker."""

    def attempt(place: Place) -> Told:
        with place.meddled.arm(plan), ThreadPoolExecutor(1) as executor:
            flooded = executor.submit(place.ask)
            wait_until(lambda: place.meddled.struck)
            began_s = time.monotonic()
            assert place.ask() == ANSWERED
            assert time.monotonic() - began_s < 2
            return flooded.result()

    assert [seen for seen in try_everywhere(warm, attempt) if seen not in told] == []


PILE_MB = 300


@pytest.fixture(scope="module")
def roomy(start_place: StartPlace) -> Place:
    """Where there is time to be flooded."""
    timeouts = dict.fromkeys(("PROXY_RPC_TIMEOUT_MS", "PROXY_INTERRUPT_TIMEOUT_MS"), "4000")
    return start_place("stand-in", **WARM, **timeouts, PROXY_MAX_LINE_MB="8")


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(when("pile", PILE_MB, **STARTING), id="behind-a-call"),
        pytest.param(when("pile_without_listening", PILE_MB, **STARTED), id="behind-an-answer"),
    ],
)
def test_a_flood_does_not_fill_the_memory(roomy: Place, plan: Plan) -> None:
    """What comes while codex owes an answer, or does not take ours, is held within bounds."""
    roomy.meddled.forget_peak()
    before_mb = roomy.meddled.read_peak_mb()
    with roomy.meddled.arm(plan):
        roomy.ask()
        assert roomy.meddled.struck
    assert roomy.meddled.read_peak_mb() - before_mb < PILE_MB / 3
    roomy.recover()


def test_counting_sees_what_is_held(warm: list[Place]) -> None:
    """Or nothing here would tell of a leak."""
    place = warm[0]
    before = place.meddled.settle()
    with place.meddled.gateway.chat([{"say": ["one "]}, {"wait": 60}], stream=True):
        during = place.meddled.count()
    assert [during[name] - before[name] for name in ("fds", "greenlets")] == [1, 1]
    place.recover()
