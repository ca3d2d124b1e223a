"""The steps as the stand-in plays them: each a function of the turn, a generator where it takes time."""

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.support import script
from tests.support.script import Failure, Step
from tests.support.stand_in_wire import build_error, build_limits, encode

if TYPE_CHECKING:
    from tests.support.stand_in_turn import Turn

Play = Iterator[float]  # yields the seconds until it wants to go on
Player = Callable[["Turn", Step], Play | None]

FOREVER = float("inf")
DELTAS_AT_ONCE = 1000
LOOK_AGAIN_S = 0.05
NO_USAGE = dict.fromkeys(script.DEFAULT_USAGE, 0)
STREAM_ENDS: dict[str, Callable[[Any], Failure]] = {
    "fail": script.explain_failed,
    "incomplete": script.explain_incomplete,
    "drop": lambda _: script.DROPPED,
}


class UpstreamFailedError(Exception):
    """The response ended in a failure that fails the turn."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.wire = build_error(failure)


def say(turn: "Turn", step: Step) -> Play:
    item = turn.start_message()
    deltas = [delta for delta in step.value if delta]  # codex drops empty ones
    pause_s = step.options.get("pause_s", 0)
    size = 1 if pause_s else DELTAS_AT_ONCE
    for start in range(0, len(deltas), size):
        if start:
            yield pause_s
        turn.write_deltas(item["id"], deltas[start : start + size])
    if not step.options.get("open"):
        turn.finish_message(item, "".join(deltas))


def say_whole(turn: "Turn", step: Step) -> None:
    turn.finish_message(turn.start_message(), step.value)


def think(turn: "Turn", step: Step) -> None:
    item_id = f"rs_{os.urandom(8).hex()}"
    item = {"type": "reasoning", "id": item_id, "summary": [], "content": []}
    turn.notify_item("started", item)
    turn.notify("item/reasoning/summaryPartAdded", itemId=item_id, summaryIndex=0)
    for delta in step.value:
        turn.notify("item/reasoning/summaryTextDelta", itemId=item_id, delta=delta, summaryIndex=0)
    text = "".join(step.value)
    turn.notify_item("completed", {**item, "summary": [text]})
    summary = [{"type": "summary_text", "text": text}]
    turn.add_item({**item, "summary": summary, "content": None, "encrypted_content": "ZW5jcnlwdGVk"})


def wait(turn: "Turn", step: Step) -> Play:
    yield step.value


def set_usage(turn: "Turn", step: Step) -> None:
    turn.usage = script.build_usage(step.value)


def search(turn: "Turn", step: Step) -> None:
    item = {"type": "webSearch", "id": f"ws_{os.urandom(8).hex()}", "results": None}
    turn.notify_item("started", {**item, "query": "", "action": {"type": "other"}})
    turn.notify_item("completed", {**item, "query": step.value.get("query", ""), "action": step.value})
    turn.add_item({"type": "web_search_call", "id": item["id"], "status": "completed", "action": step.value})


def tell_limits(turn: "Turn", step: Step) -> None:
    turn.limits = step.value


def call(turn: "Turn", step: Step) -> None:
    item = {
        "type": "function_call",
        "id": f"fc_{os.urandom(8).hex()}",
        "name": step.value["name"],
        "arguments": step.value["arguments"],
        "call_id": step.value.get("call_id") or f"call_{os.urandom(8).hex()}",
    }
    turn.add_call(item)


def fail_http(turn: "Turn", step: Step) -> None:
    failure = script.explain_http(step)
    # codex tells the limits of a 429 only when it is the account's own limit
    if failure is script.USAGE_LIMIT:
        turn.host.notify("account/rateLimits/updated", build_limits(step.options.get("headers", {})))
    raise UpstreamFailedError(failure)


def fail_stream(turn: "Turn", step: Step) -> None:
    turn.host.notify("account/rateLimits/updated", build_limits(turn.limits))
    raise UpstreamFailedError(STREAM_ENDS[step.name](step.value))


def stop_incomplete(turn: "Turn", step: Step) -> None:
    # seen on 0.163: a response cut for its length counts in `total`, and `last` is all zeros
    if step.value == "max_output_tokens":
        turn.report_usage(last=script.build_usage(NO_USAGE))
        raise UpstreamFailedError(script.explain_incomplete(step.value))
    fail_stream(turn, step)


def fail_turn(turn: "Turn", step: Step) -> None:
    raise UpstreamFailedError(Failure(step.value["message"], step.value["codexErrorInfo"]))


def retry(turn: "Turn", step: Step) -> None:
    failure = Failure(step.value, {"responseStreamDisconnected": {"httpStatusCode": None}})
    error = build_error(failure, script.DROPPED.message)
    turn.notify("error", error=error, willRetry=True)


def die(turn: "Turn", step: Step) -> None:
    turn.host.die(step.value)


def write_raw(turn: "Turn", step: Step) -> None:
    turn.host.write(step.value.encode(errors="replace") + b"\n")


def write_half(turn: "Turn", step: Step) -> None:
    turn.host.write(step.value.encode(errors="replace"))


def write_huge(turn: "Turn", step: Step) -> None:
    """One line of exactly that many bytes, its end included."""
    head, tail = encode({"method": "stand_in/huge", "params": {"pad": ""}})[:-3], b'"}}\n'
    turn.host.write(head + b"x" * (step.value - len(head) - len(tail)) + tail)


def hang(turn: "Turn", step: Step) -> Play:
    while True:
        yield FOREVER


def request(turn: "Turn", step: Step) -> Play:
    answer = yield from turn.ask(step.value["method"], step.value.get("params", {}))
    yield from say(turn, Step("say", [json.dumps(answer)]))


def notify_unknown(turn: "Turn", step: Step) -> None:
    for number in range(step.value):
        turn.notify(f"stand_in/unknown/{number}", number=number)


def reply_twice(turn: "Turn", step: Step) -> None:
    turn.host.repeat_reply()


def stop_reading(turn: "Turn", step: Step) -> None:
    turn.host.stop_reading()


def babble(turn: "Turn", step: Step) -> Play:
    """Write this to stderr, so many times; then wait, if told, until somebody has cut it to so many bytes."""
    text = memoryview(step.value.encode() * step.options.get("times", 1))
    while text:
        text = text[os.write(2, text) :]
    while os.fstat(2).st_size > step.options.get("until_cut", FOREVER):
        yield LOOK_AGAIN_S
    yield step.options.get("pause_s", 0)


STEPS: dict[str, Player] = {
    "say": say,
    "say_whole": say_whole,
    "think": think,
    "wait": wait,
    "usage": set_usage,
    "limits": tell_limits,
    "call": call,
    "search": search,
    "http": fail_http,
    "fail": fail_stream,
    "incomplete": stop_incomplete,
    "drop": fail_stream,
    "error": fail_turn,
    "retry": retry,
    "die": die,
    "raw": write_raw,
    "half": write_half,
    "huge": write_huge,
    "hang": hang,
    "request": request,
    "unknown_notification": notify_unknown,
    "reply_twice": reply_twice,
    "stop_reading": stop_reading,
    "babble": babble,
}
