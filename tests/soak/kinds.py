"""The kinds of clients: what each asks, and what it must be told."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.soak.answers import Answer, Choice, Item
from tests.soak.door import Departure
from tests.soak.ledger import Deed
from tests.soak.talk import Chat, DroppedError, Expected, Responses, Talk

FILLER = "Nichts ist älter als die Zeitung von gestern. 昨日の新聞 👋🏽 "
#: As many as a gateway of ours serves and queues, and some more.
CROWD = 16
ONE_CROWD = threading.Lock()


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    #: How often it comes, beside the others.
    weight: int
    play: Callable[[Talk], object]


def put(talk: Talk, nonce: str, script: list[Item], expected: Expected, **more: Any) -> Answer:
    """Ask the model to play a script."""
    return talk.ask(nonce, [talk.dialect.say("user", json.dumps(script))], expected, **more)


def expect_text(*texts: str, reasoning: str = "") -> Expected:
    return Expected(tuple(Choice(text, reasoning) for text in texts))


def build_deltas(nonce: str, number: int) -> list[str]:
    """Each one different, so that none can be lost, doubled or moved unseen."""
    return [f"{nonce}:{index} " for index in range(number)]


def ask_plainly(talk: Talk) -> None:
    nonce = talk.make_nonce()
    deltas = [f"{nonce} ", "Wörld 👋🏽 ", f"{talk.rng.random()}"]
    put(talk, nonce, [{"say": deltas}], expect_text("".join(deltas)))


def ask_slowly(talk: Talk) -> None:
    nonce = talk.make_nonce()
    deltas = build_deltas(nonce, talk.rng.randrange(5, 30))
    put(talk, nonce, [{"wait": 0.1}, {"say": deltas, "pause_s": 0.05}], expect_text("".join(deltas)))


def ask_at_length(talk: Talk) -> None:
    nonce = talk.make_nonce()
    deltas = build_deltas(nonce, talk.rng.randrange(2000, 4000))
    put(talk, nonce, [{"say": deltas}], expect_text("".join(deltas)))


def ask_for_reasons(talk: Talk) -> None:
    nonce = talk.make_nonce()
    thoughts = build_deltas(nonce, 20)
    expected = expect_text(f"So: {nonce}", reasoning="".join(thoughts))
    more = {"reasoning": {"summary": "auto"}} if isinstance(talk.dialect, Responses) else {}
    put(talk, nonce, [{"think": thoughts}, {"say": ["So: ", nonce]}], expected, **more)


def ask_for_choices(talk: Talk) -> None:
    talk.dialect = Chat()
    nonce, number = talk.make_nonce(), talk.rng.randrange(2, 5)
    deltas = build_deltas(nonce, 50)
    put(talk, nonce, [{"say": deltas}], expect_text(*["".join(deltas)] * number), n=number)


def follow_up(talk: Talk) -> None:
    """Some questions in a row: repeated, or by the id of the last response."""
    for _ in range(talk.rng.randrange(2, 5)):
        ask_plainly(talk)


def follow_up_twice(talk: Talk) -> None:
    """Two clients go on from the same answer at once."""
    ask_plainly(talk)
    play_at_once(follow_up, [talk.fork(), talk.fork()])


def follow_up_on_another_past(talk: Talk) -> None:
    """What was said before is told otherwise: that is what the model has to be told then."""
    follow_up(talk)
    rewrite_past(talk)
    follow_up(talk)


def rewrite_past(talk: Talk) -> None:
    talk.items[0] = talk.dialect.say("user", f"{talk.make_nonce()} {FILLER}")
    talk.previous_id = None


def play_at_once(play: Callable[[Talk], None], talks: list[Talk]) -> None:
    with ThreadPoolExecutor(len(talks)) as executor:
        for future in [executor.submit(play, talk) for talk in talks]:
            future.result()


def ask_with_history(talk: Talk) -> None:
    """Some 100 kB, all of which the model has to be told."""
    for _ in range(25):
        nonce = talk.make_nonce()
        for role in ("user", "assistant"):
            talk.items.append(talk.dialect.say(role, f"{nonce} {FILLER * 26}"))
    follow_up(talk)


def build_calls(nonce: str, number: int) -> list[Item]:
    arguments = [json.dumps({"city": f"{nonce} 東京 {index}"}, ensure_ascii=False) for index in range(number)]
    return [{"call": {"name": "look", "arguments": text}} for text in arguments]


def expect_calls(calls: list[Item], text: str = "") -> Expected:
    return Expected((Choice(text, "", tuple(("look", call["call"]["arguments"]) for call in calls)),))


def ask_for_calls(talk: Talk) -> Answer:
    """One or two calls, for the client to answer."""
    nonce = talk.make_nonce()
    calls = build_calls(nonce, talk.rng.randrange(1, 3))
    script = [{"say": [nonce, " looks."]}, *calls]
    return put(talk, nonce, script, expect_calls(calls, f"{nonce} looks."), tools=talk.dialect.tools)


def give_results(talk: Talk, called: Answer) -> None:
    """The model tells the results, which nobody knew before."""
    nonce = talk.make_nonce()
    results = [f"{nonce} {index}: {talk.rng.random()}" for index, _ in enumerate(called.call_ids)]
    items = list(map(talk.dialect.tell_result, called.call_ids, results))
    talk.ask(nonce, items, expect_text("Tool said: " + "\n".join(results)), tools=talk.dialect.tools)


def use_tools(talk: Talk) -> None:
    called = ask_for_calls(talk)
    time.sleep(talk.rng.choice((0, 0, 0.1, 0.5)))
    give_results(talk, called)


def use_tools_for_rounds(talk: Talk) -> None:
    """A call, and with its result another one, several times; then the answer."""
    nonce, rounds = talk.make_nonce(), talk.rng.randrange(2, 5)
    calls = [build_calls(f"{nonce} {index}", 1)[0] for index in range(rounds)]
    script: list[Item] = [{"say": [nonce, " is done."]}]
    for call in reversed(calls):
        script = [call, {"then": script}]
    tools = talk.dialect.tools
    called = put(talk, nonce, script, expect_calls(calls[:1]), tools=tools)
    for expected in [*(expect_calls([call]) for call in calls[1:]), expect_text(f"{nonce} is done.")]:
        newer = talk.make_nonce()
        result = talk.dialect.tell_result(called.call_ids[0], f"{newer} {FILLER}")
        called = talk.ask(newer, [result], expected, tools=tools)


def use_tools_late(talk: Talk) -> None:
    """The results come when nobody waits for them any more."""
    called = ask_for_calls(talk)
    time.sleep(talk.rng.uniform(1, 4))
    give_results(talk, called)


def use_tools_twice(talk: Talk) -> None:
    """Two clients go on from the same calls at once, each with results of its own."""
    called = ask_for_calls(talk)
    play_at_once(lambda fork: give_results(fork, called), [talk.fork(), talk.fork()])


def use_tools_on_another_past(talk: Talk) -> None:
    """The results come for the very calls, behind another beginning."""
    ask_plainly(talk)
    called = ask_for_calls(talk)
    rewrite_past(talk)
    give_results(talk, called)


def use_tools_and_speak(talk: Talk) -> None:
    """The results, and another question behind them: that one is answered."""
    called, nonce = ask_for_calls(talk), talk.make_nonce()
    items = [talk.dialect.tell_result(call_id, f"{nonce} {FILLER}") for call_id in called.call_ids]
    question = talk.dialect.say("user", json.dumps([{"say": ["Then ", nonce]}]))
    talk.ask(nonce, [*items, question], expect_text(f"Then {nonce}"), tools=talk.dialect.tools)


def leave_midway(talk: Talk) -> None:
    nonce = talk.make_nonce()
    deltas = build_deltas(nonce, 100)
    script = json.dumps([{"say": deltas, "pause_s": 0.05}])
    departure = Departure(after_bytes=talk.rng.randrange(1, 3000))
    talk.leave(nonce, [talk.dialect.say("user", script)], "".join(deltas), departure)


def leave_early(talk: Talk) -> None:
    nonce = talk.make_nonce()
    script = json.dumps([{"wait": 5}, {"say": [nonce]}])
    departure = Departure(after_s=talk.rng.uniform(0, 0.5))
    talk.leave(nonce, [talk.dialect.say("user", script)], nonce, departure)


#: What upstream does, and the code that it is told by.
UPSTREAM_ERRORS: tuple[tuple[Item, str], ...] = (
    ({"http": 503, "error": {"code": "server_is_overloaded"}}, "backend_unavailable"),
    ({"http": 429, "error": {"message": "slow down"}}, "rate_limit_exceeded"),
    ({"http": 400, "error": {"message": "no", "code": "odd_prompt"}}, "odd_prompt"),
    ({"fail": {"code": "context_length_exceeded", "message": "no"}}, "context_length_exceeded"),
    ({"drop": True}, "backend_unavailable"),
)


def fail_upstream(talk: Talk) -> None:
    nonce = talk.make_nonce()
    step, code = talk.rng.choice(UPSTREAM_ERRORS)
    put(talk, nonce, [{"usage": {}}, step, {"say": [nonce]}], Expected((), code))


def fail_upstream_midway(talk: Talk) -> None:
    """The stream says what came, and then that it broke."""
    nonce = talk.make_nonce()
    # Apart, however busy the machine is: what comes together with its end is a status.
    script: list[Item] = [{"say": [nonce]}, {"wait": 1}, {"drop": True}]
    put(talk, nonce, script, Expected((Choice(nonce),), "backend_unavailable"), stream=True)


def crowd(talk: Talk) -> None:
    """More at once than can be served: each is answered, or told to come back."""
    if not ONE_CROWD.acquire(blocking=False):
        return
    try:
        with talk.ledger.doing(Deed.CROWD), ThreadPoolExecutor(CROWD) as executor:
            list(executor.map(ask_in_a_crowd, [talk.fork() for _ in range(CROWD)]))
    finally:
        ONE_CROWD.release()


def ask_in_a_crowd(talk: Talk) -> None:
    nonce = talk.make_nonce()
    try:
        put(talk, nonce, [{"wait": 0.3}, {"say": [nonce]}], expect_text(nonce))
    except DroppedError:
        return  # it is noted; the others go on


KINDS = (
    Kind("plain", 8, ask_plainly),
    Kind("slow", 8, ask_slowly),
    Kind("long: 2,000 to 4,000 deltas", 3, ask_at_length),
    Kind("with reasoning", 4, ask_for_reasons),
    Kind("2 to 4 choices", 4, ask_for_choices),
    Kind("follow-ups", 5, follow_up),
    Kind("follow-ups, two at once", 3, follow_up_twice),
    Kind("follow-ups, the past rewritten", 3, follow_up_on_another_past),
    Kind("follow-ups of 100 kB", 3, ask_with_history),
    Kind("tools, one round", 8, use_tools),
    Kind("tools, several rounds", 6, use_tools_for_rounds),
    Kind("tools, results come late", 2, use_tools_late),
    Kind("tools, results never come", 2, ask_for_calls),
    Kind("tools, results come twice", 4, use_tools_twice),
    Kind("tools, results and a question", 3, use_tools_and_speak),
    Kind("tools, the past rewritten", 3, use_tools_on_another_past),
    Kind("the client leaves mid-stream", 5, leave_midway),
    Kind("the client leaves before the first byte", 5, leave_early),
    Kind("an upstream error", 4, fail_upstream),
    Kind("an upstream error mid-stream", 3, fail_upstream_midway),
    Kind("a crowd of 16", 1, crowd),
)
