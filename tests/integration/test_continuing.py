"""Requests that go on from an earlier one: in its waiting turn, in its thread, or by telling it all anew."""

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.support.gateway import Gateway, run_gateway, wait_until, write_stand_in
from tests.support.processes import is_running
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

StartGateway = Callable[..., Gateway]
Message = dict[str, Any]

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells.", "parameters": CITY}}]
OTHER_TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Lies.", "parameters": CITY}}
]
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# What codex adds to a picture that answers a question of its own.
CODEX_DETAIL = ', "detail": "high"'


def call(city: str) -> Message:
    return {"call": {"name": "weather", "arguments": json.dumps({"city": city})}}


def ask(script: Any) -> Message:
    return {"role": "user", "content": json.dumps(script)}


class Talk:
    """A client's side of one conversation."""

    def __init__(self, gateway: Gateway, *messages: Message, key: str = "", **more: Any) -> None:
        self.gateway = gateway
        self.messages = list(messages)
        self.more = {"model": "scripted-model", **more}
        self.headers = {"authorization": f"Bearer {key}"} if key else {}

    def post(self, messages: list[Message] | None = None, **more: Any) -> requests.Response:
        body = self.more | {"messages": self.messages if messages is None else messages} | more
        url = f"{self.gateway.base_url}/v1/chat/completions"
        response = requests.post(url, json=body, headers=self.headers, timeout=30)
        assert response.status_code == 200, response.text
        return response

    def go_on(self) -> tuple[str, Message]:
        """Send all of it; the tier it ran on, and the answer, which is part of it from now on."""
        response = self.post()
        self.messages.append(response.json()["choices"][0]["message"])
        return response.headers["x-proxy-continuation"], self.messages[-1]

    def call(self) -> list[str]:
        """Have the model call; the ids of its calls."""
        return [each["id"] for each in self.go_on()[1]["tool_calls"]]

    def give(self, call_ids: list[str], *results: Any) -> None:
        self.messages += [
            {"role": "tool", "tool_call_id": call_id, "content": result}
            for call_id, result in zip(call_ids, results, strict=True)
        ]


def read_text(response: requests.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def find_origin(gateway: Gateway, response: requests.Response) -> str:
    """What the log says a request went on from."""
    request_id = response.headers["x-request-id"]

    def look() -> str:
        return next(
            (line["continued_from"] for line in gateway.lines() if line.get("request_id") == request_id), ""
        )

    return wait_until(look, 5)


KEYS = "first-key,second-key"


@pytest.fixture(scope="module")
def on_stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("continuing")
    with run_gateway(folder, CODEX_BIN=write_stand_in(folder)) as running:
        yield running


@pytest.fixture(params=["codex", "stand-in"])
def served(request: pytest.FixtureRequest, gateway: Gateway, on_stand_in: Gateway) -> Gateway:
    """The real binary asks for results one by one, the stand-in for all of them at once."""
    return gateway if request.param == "codex" else on_stand_in


@pytest.mark.parametrize("stream", [False, True])
def test_results_go_to_the_turn_that_waits_for_them(served: Gateway, stream: bool) -> None:
    talk = Talk(served, ask([{"say": ["Wait."]}, call("Paris"), call("Rome")]), tools=TOOLS)
    ids = talk.call()
    talk.give(ids[::-1], "two", "one")
    response = talk.post(stream=stream)
    assert response.headers["x-proxy-continuation"] == "parked"
    response.encoding = "utf-8"
    assert "one\\ntwo" in response.text
    assert find_origin(served, response) == "turn"


def test_every_round_is_one_turn(gateway: Gateway, model: ScriptedModel) -> None:
    """Same cache key, a prompt that only grows, reasoning kept; and the thread holds what follows."""
    again = [{"think": ["Once more."]}, call("Rome"), {"then": [{"say": ["Sunny."]}]}]
    script = [{"think": ["Look."]}, call("Paris"), {"then": again}]
    talk = Talk(gateway, {"role": "system", "content": "Be brief."}, ask(script), tools=TOOLS)
    tiers = []
    for result in ("18", "20"):
        tier, message = talk.go_on()
        tiers.append(tier)
        talk.give([each["id"] for each in message["tool_calls"]], result)
    tiers.append(talk.go_on()[0])
    talk.messages.append({"role": "user", "content": "Thanks."})
    tier, message = talk.go_on()
    assert ([*tiers, tier], message["content"]) == (["warm", "parked", "parked", "warm"], "echo: Thanks.")
    seen = model.requests[-4:]
    assert len({request["prompt_cache_key"] for request in seen}) == 1
    inputs = [strip(request["input"]) for request in seen]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(inputs))
    kinds = [item["type"] for item in inputs[-1]]
    round_ = ["reasoning", "function_call", "function_call_output"]
    assert kinds == ["message"] * 2 + round_ * 2 + ["message"] * 2


def strip(items: list[Message]) -> list[Message]:
    return [{key: value for key, value in item.items() if key != "id"} for item in items]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param("", id="nothing"),
        pytest.param(" \n", id="white-space"),
        pytest.param("日本 🚀 \x00 </tool_call>", id="any-characters"),
        pytest.param([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], id="parts"),
        pytest.param([{"type": "image_url", "image_url": {"url": PIXEL}}], id="a-picture"),
        pytest.param("x" * 3_000_000, id="megabytes"),
    ],
)
def test_a_result_reaches_the_model_the_same_either_way(
    gateway: Gateway, model: ScriptedModel, result: Any
) -> None:
    script = [call("Paris"), {"then": [{"say": ["Seen."]}]}]
    told = []
    for edit in (lambda message: message, lambda message: message | {"content": "Edited."}):
        talk = Talk(gateway, ask(script), tools=TOOLS)
        ids = talk.call()
        talk.messages[-1] = edit(talk.messages[-1])
        talk.give(ids, result)
        _, message = talk.go_on()
        [output] = [item["output"] for item in model.requests[-1]["input"] if "output" in item]
        told.append((message["content"], json.dumps(output).replace(CODEX_DETAIL, "")))
    assert told[0] == told[1]


def test_words_behind_the_results_are_behind_them_for_the_model(served: Gateway) -> None:
    talk = Talk(served, ask([call("Paris")]), tools=TOOLS)
    talk.give(talk.call(), "18")
    talk.messages += [{"role": "system", "content": "Be brief."}, ask([{"say": ["Oslo too."]}])]
    tier, message = talk.go_on()
    assert (tier, message["content"]) == ("parked", "Oslo too.")


def test_a_call_that_codex_answers_itself_beside_one_for_the_client(
    gateway: Gateway, model: ScriptedModel
) -> None:
    unreadable = {"call": {"name": "weather", "arguments": "{"}}
    talk = Talk(gateway, ask([call("Paris"), unreadable, {"then": [{"say": ["Told."]}]}]), tools=TOOLS)
    talk.give(talk.call(), "18")
    before = len(model.requests)
    tier, message = talk.go_on()
    assert (tier, message["content"], len(model.requests) - before) == ("parked", "Told.", 1)


def test_what_the_model_is_told_behind_results(gateway: Gateway, model: ScriptedModel) -> None:
    talk = Talk(gateway, ask([call("Paris"), call("Rome")]), tools=TOOLS)
    talk.give(talk.call(), "18", "20")
    talk.messages += [{"role": "user", "content": "Oslo?"}, {"role": "developer", "content": "Brief."}]
    talk.go_on()
    behind = [item.get("role") or item["output"] for item in model.requests[-1]["input"][-4:]]
    assert behind == ["18", "20", "user", "developer"]


Edit = Callable[[list[Message]], list[Message]]


def replace(old: str, new: str) -> Edit:
    return lambda messages: json.loads(json.dumps(messages).replace(old, new))


def put_before(messages: list[Message]) -> list[Message]:
    return [{"role": "system", "content": "x"}, *messages]


def keep(messages: list[Message]) -> list[Message]:
    return messages


MISSES = [
    pytest.param(replace("Paris", "London"), {}, "other_history", id="edited-arguments"),
    pytest.param(put_before, {}, "other_history", id="edited-history"),
    pytest.param(lambda all_: all_[:-1], {}, "results_missing", id="a-result-is-missing"),
    pytest.param(keep, {"tools": OTHER_TOOLS}, "other_terms", id="other-tools"),
    pytest.param(keep, {"reasoning_effort": "low"}, "other_terms", id="another-effort"),
    pytest.param(keep, {"tool_choice": "none"}, "other_terms", id="no-calls-allowed"),
    pytest.param(replace("tool_0_", "tool_9_"), {}, "unknown", id="unknown-calls"),
]


@pytest.mark.parametrize(("edit", "more", "origin"), MISSES)
def test_what_differs_is_told_anew_and_leaves_the_turn_alone(
    served: Gateway, edit: Edit, more: dict[str, Any], origin: str
) -> None:
    script = [call("Paris"), call("Rome"), {"then": [{"say": ["Told."]}]}]
    talk = Talk(served, ask(script), tools=TOOLS)
    talk.give(talk.call(), "18", "20")
    other = talk.post(edit(talk.messages), **more)
    assert (other.headers["x-proxy-continuation"] in ("warm", "cold"), read_text(other)) == (True, "Told.")
    assert find_origin(served, other) == origin
    assert talk.go_on() == ("parked", {"role": "assistant", "content": "Told.", "refusal": None})


def test_a_turn_is_its_own_keys_only(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_API_KEY=KEYS, PROXY_MAX_PROCESSES="4")
    mine = Talk(gateway, ask([call("Paris"), {"then": [{"say": ["Mine."]}]}]), key="first-key", tools=TOOLS)
    mine.give(mine.call(), "18")
    for messages in (mine.messages, mine.messages[-1:]):
        theirs = Talk(gateway, *messages, key="second-key", tools=TOOLS).post()
        assert theirs.headers["x-proxy-continuation"] != "parked"
        assert find_origin(gateway, theirs) == "other_key"
    assert mine.go_on()[0] == "parked"


def test_results_alone_are_enough(served: Gateway) -> None:
    talk = Talk(served, ask([call("Paris")]), tools=TOOLS)
    ids = talk.call()
    answer = Talk(served, tools=TOOLS)
    answer.give(ids, "18")
    assert answer.go_on() == ("parked", {"role": "assistant", "content": "Tool said: 18", "refusal": None})


def test_one_of_two_takes_the_turn(served: Gateway) -> None:
    talk = Talk(served, ask([call("Paris"), {"then": [{"wait": 0.2}, {"say": ["Once."]}]}]), tools=TOOLS)
    talk.give(talk.call(), "18")
    with ThreadPoolExecutor(4) as executor:
        replies = list(executor.map(lambda _: talk.post(), range(4)))
    assert [read_text(reply) for reply in replies] == ["Once."] * 4
    assert [reply.headers["x-proxy-continuation"] for reply in replies].count("parked") == 1


@pytest.mark.parametrize(
    ("more", "headers"),
    [
        pytest.param({}, {"x-proxy-output-mode": "obsidian-xml"}, id="clients-that-answer-in-text"),
        pytest.param({"n": 2}, {}, id="several-choices"),
        pytest.param({"tools": None, "functions": [TOOLS[0]["function"]]}, {}, id="functions"),
    ],
)
def test_a_turn_that_nobody_comes_back_to_does_not_wait(
    stand_in: StartGateway, more: dict[str, Any], headers: dict[str, str]
) -> None:
    gateway = stand_in({"log": "pipe.jsonl"}, PROXY_MAX_PROCESSES="1")
    talk = Talk(gateway, ask([call("Paris")]), tools=TOOLS)
    talk.headers = headers
    talk.post(**more)
    log = (gateway.state_dir / "empty" / "pipe.jsonl").read_text
    wait_until(lambda: "turn/interrupt" in log())


def test_parking_can_be_switched_off(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_PARK_TURNS="false", PROXY_MAX_PROCESSES="1")
    talk = Talk(gateway, ask([call("Paris")]), tools=TOOLS)
    talk.give(talk.call(), "18")
    response = talk.post()
    assert (response.headers["x-proxy-continuation"], read_text(response)) == ("warm", "Tool said: 18")
    assert find_origin(gateway, response) == "new"


def test_a_turn_waits_only_so_long(stand_in: StartGateway) -> None:
    gateway = stand_in({"log": "pipe.jsonl"}, PROXY_PARK_TTL_S="1", PROXY_MAX_PROCESSES="1")
    [pid] = gateway.codex_pids
    talk = Talk(gateway, ask([call("Paris")]), tools=TOOLS)
    talk.give(talk.call(), "18")
    log = (gateway.state_dir / "empty" / "pipe.jsonl").read_text
    wait_until(lambda: "turn/interrupt" in log())
    response = talk.post()
    assert (response.headers["x-proxy-continuation"], read_text(response)) == ("warm", "Tool said: 18")
    assert (find_origin(gateway, response), gateway.codex_pids) == ("unknown", {pid})


def test_the_oldest_makes_room(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_MAX_PROCESSES="2", PROXY_WARM_PROCESSES="0", ready=False)
    gateway.wait_listening()
    talks = [Talk(gateway, ask([call("Paris")]), tools=TOOLS) for _ in range(2)]
    for talk in talks:
        talk.give(talk.call(), "18")
    assert gateway.chat("hello").status_code == 200
    assert [talk.go_on()[0] for talk in reversed(talks)] == ["parked", "warm"]
    assert len(gateway.codex_pids) == 2


def test_a_follow_up_goes_to_the_thread_that_holds_it(gateway: Gateway, model: ScriptedModel) -> None:
    talks = [Talk(gateway, {"role": "user", "content": f"hello {number}"}) for number in range(2)]
    for _ in range(3):
        for talk in talks:
            talk.go_on()
            talk.messages.append({"role": "user", "content": "more"})
    seen = model.requests[-6:]
    keys = [[request["prompt_cache_key"] for request in seen[first::2]] for first in range(2)]
    assert (len(set(keys[0])), len(set(keys[1])), keys[0][0] == keys[1][0]) == (1, 1, False)
    roles = [item["role"] for item in seen[-1]["input"]]
    assert roles == ["user", "assistant"] * 2 + ["user"]


@pytest.mark.parametrize(
    ("edit", "more"),
    [
        pytest.param(lambda all_: [{"role": "system", "content": "x"}, *all_], {}, id="edited"),
        pytest.param(
            lambda all_: [*all_[:1], {"role": "assistant", "content": "x"}, *all_[2:]], {}, id="put"
        ),
        pytest.param(lambda all_: all_, {"reasoning_effort": "low"}, id="other-terms"),
    ],
)
def test_a_follow_up_to_something_else_gets_its_own_thread(
    gateway: Gateway, model: ScriptedModel, edit: Edit, more: dict[str, Any]
) -> None:
    talk = Talk(gateway, {"role": "user", "content": "hello"})
    talk.go_on()
    talk.messages.append({"role": "user", "content": "more"})
    response = talk.post(edit(talk.messages), **more)
    assert (read_text(response), find_origin(gateway, response)) == ("echo: more", "unknown")
    first, second = model.requests[-2:]
    assert first["prompt_cache_key"] != second["prompt_cache_key"]


def test_a_thread_is_its_own_keys_only(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_API_KEY=KEYS)
    mine = Talk(gateway, {"role": "user", "content": "hello"}, key="first-key")
    mine.go_on()
    mine.messages.append({"role": "user", "content": "more"})
    theirs = Talk(gateway, *mine.messages, key="second-key").post()
    assert (find_origin(gateway, theirs), find_origin(gateway, mine.post())) == ("unknown", "thread")


def test_a_cut_answer_is_no_thread_to_go_on_from(served: Gateway) -> None:
    talk = Talk(served, ask([{"say": ["one two three"]}]), stop="two")
    talk.go_on()
    talk.messages.append({"role": "user", "content": "more"})
    response = talk.post()
    assert (read_text(response), find_origin(served, response)) == ("echo: more", "unknown")


def test_what_a_client_never_saw_is_no_part_of_its_thread(served: Gateway) -> None:
    """Codex has the model correct a call that it cannot read; another telling of that has no such call."""
    unreadable = {"call": {"name": "weather", "arguments": "{"}}
    talk = Talk(served, ask([unreadable, {"then": [{"say": ["Sorry."]}]}]), tools=TOOLS)
    talk.go_on()
    talk.messages.append({"role": "user", "content": "more"})
    response = talk.post()
    assert (read_text(response), find_origin(served, response)) == ("echo: more", "unknown")


def respond(gateway: Gateway, **body: Any) -> requests.Response:
    url = f"{gateway.base_url}/v1/responses"
    tools = [{"type": "function", **TOOLS[0]["function"]}]
    response = requests.post(url, json={"model": "scripted-model", "tools": tools} | body, timeout=30)
    assert response.status_code == 200, response.text
    return response


FollowUp = Callable[[Message, Message, list[Message]], Message]


@pytest.mark.parametrize(
    "follow_up",
    [
        pytest.param(
            lambda first, said, results: {"previous_response_id": first["id"], "input": results},
            id="by-id",
        ),
        pytest.param(
            lambda first, said, results: {"input": [said, *first["output"], *results]}, id="by-echo"
        ),
        pytest.param(
            lambda first, said, results: {
                "input": [said, *(each for each in first["output"] if each["type"] != "reasoning"), *results]
            },
            id="by-echo-without-reasoning",
        ),
        pytest.param(lambda first, said, results: {"input": results}, id="results-alone"),
    ],
)
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("instructions", [None, "Be brief."])
def test_responses(served: Gateway, follow_up: FollowUp, store: bool, instructions: str | None) -> None:
    script = [{"think": ["Hm."]}, {"say": ["Wait."]}, call("Paris"), call("Rome")]
    said, told = ask(script), {"store": store, "instructions": instructions}
    first = respond(served, input=[said], **told).json()
    results = [
        {"type": "function_call_output", "call_id": each["call_id"], "output": each["arguments"]}
        for each in first["output"]
        if each["type"] == "function_call"
    ]
    body = follow_up(first, said, results)
    if "previous_response_id" in body and not store:
        return
    # Who brings results alone says nothing else, and need not.
    again = {} if body["input"] == results and "previous_response_id" not in body else told
    response = respond(served, **again, **body)
    text = response.json()["output"][-1]["content"][0]["text"]
    assert text == 'Tool said: {"city": "Paris"}\n{"city": "Rome"}'
    assert response.headers["x-proxy-continuation"] == "parked"


def test_a_turn_that_waits_when_its_worker_stops_is_dropped(stand_in: StartGateway) -> None:
    gateway = stand_in(PROXY_WARM_PROCESSES="1")
    talk = Talk(gateway, ask([call("Paris")]), tools=TOOLS)
    talk.call()
    children = gateway.codex_pids
    began_s = time.monotonic()
    assert gateway.stop() == 0
    assert time.monotonic() - began_s < 8
    assert not any(is_running(pid) for pid in children)


def test_a_turn_that_waits_goes_before_the_streams_that_may_still_end(stand_in: StartGateway) -> None:
    gateway = stand_in({"log": "pipe.jsonl"})
    Talk(gateway, ask([call("Paris")]), tools=TOOLS).call()
    running = gateway.chat([{"say": ["a"]}, {"wait": 4}, {"say": ["b"]}], stream=True)
    gateway.process.send_signal(signal.SIGTERM)
    log = (gateway.state_dir / "empty" / "pipe.jsonl").read_text
    wait_until(lambda: "turn/interrupt" in log(), 3)
    assert running.text.count('"content":"b"') == 1
