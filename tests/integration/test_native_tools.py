"""The client's tools as codex's own: the backend in process, on the real binary and on the stand-in."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest

from app.backend.codex import CodexBackend
from app.backend.tool_names import ToolNames
from app.backend.turn import CodexTurn
from app.lib.errors import BackendUnavailable, InvalidRequest
from app.lib.events import (
    BackendEvent,
    CallRejected,
    FinishReason,
    ResponseDone,
    TextDelta,
    Tick,
    ToolSignal,
    TurnEnded,
    TurnFailed,
)
from app.lib.orders import AskAgain, Order, RefuseCall, StopChoice
from app.lib.prompt import Prompt, build_prompt
from app.lib.request import Message, PastCall, PastOutput, Role, TextPart, TurnRequest
from app.lib.tool_registry import ToolRegistry, ToolSpec
from app.settings import Settings
from tests.support.gateway import wait_until, write_provider, write_stand_in
from tests.support.processes import is_running
from tests.support.scripted_model import ScriptedModel
from tests.support.visitor import Visitor

STOP = FinishReason.STOP
F = ToolSpec("f", "Does f.", {"type": "object", "properties": {"x": {"type": "string"}}})
TOLD = (TextDelta, ToolSignal, CallRejected, TurnEnded, TurnFailed)


class Box:
    """A backend, and the last turn that was opened on it."""

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self.backend = CodexBackend(settings)
        self.backend.start()
        self.log = settings.state_dir / "pipe.jsonl"
        stack.callback(self.backend.close)
        self._stack = stack

    def open(self, prompt: Prompt, client: Visitor | None = None) -> Talk:
        turn = self.backend.open_turn(prompt, client or Visitor(), "")
        self._stack.callback(turn.close)
        return Talk(turn)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """What the stand-in was asked of that method."""
        lines = map(json.loads, self.log.read_text().splitlines())
        asked = (line["msg"] for line in lines if line["from"] == "proxy")
        return [message["params"] for message in asked if message.get("method") == method]


class Talk:
    """A turn, read piece by piece."""

    def __init__(self, turn: CodexTurn) -> None:
        self.turn = turn
        self._batches: Generator[list[BackendEvent], None, None] = turn.batches()
        self._unread: list[BackendEvent] = []

    def read_until(self, *ends: type[BackendEvent], times: int = 1) -> list[BackendEvent]:
        """What is told, up to the event that ends it."""
        out: list[BackendEvent] = []
        while times:
            if not self._unread:
                self._unread = [event for event in next(self._batches) if not isinstance(event, Tick)]
                continue
            event = self._unread.pop(0)
            times -= isinstance(event, ends)
            out += [event] if isinstance(event, TOLD) else []
        return out

    def read_until_silent(self) -> list[BackendEvent]:
        """What is told before a wait passes in which nothing comes."""
        out: list[BackendEvent] = []
        while [*map(type, batch := next(self._batches))] != [Tick]:
            out += [event for event in batch if isinstance(event, TOLD)]
        return out

    def order(self, *orders: Order) -> None:
        self.turn.order(orders)

    def close(self) -> int:
        """End it as a request does; the process it had, once that is back."""
        process = self.turn._process
        assert process
        with closing(self._batches):
            self.turn.close()
        wait_until(lambda: process not in self.turn._context.pool._returning)
        return process.pid


KINDS = [
    pytest.param("codex", marks=pytest.mark.real),
    pytest.param("stand-in"),
    pytest.param("stand-in-one-by-one"),
]


@pytest.fixture
def start(tmp_path: pathlib.Path, model: ScriptedModel) -> Iterator[Callable[..., Box]]:
    with ExitStack() as stack:

        def begin(kind: str, faults: dict[str, Any] | None = None, **environ: str) -> Box:
            fixed = {"PROXY_STATE_DIR": str(tmp_path / "state"), "PROXY_WARM_PROCESSES": "0"}
            fixed["PROXY_COMMIT_AFTER_MS"] = "800"  # a fifth of a second is then a wait
            if kind == "codex":
                fixed["PROXY_CODEX_CONFIG_FILE"] = write_provider(tmp_path, model.base_url)
            else:
                log = {"log": str(tmp_path / "state" / "pipe.jsonl"), "one_by_one": kind.endswith("one")}
                fixed["CODEX_BIN"] = write_stand_in(tmp_path, **(log | (faults or {})))
            return Box(Settings.from_env(fixed | environ), stack)

        yield begin


def build(script: Any, tools: Sequence[ToolSpec] = (F,), **more: Any) -> Prompt:
    said = Message(Role.USER, (TextPart(json.dumps(script)),))
    request = TurnRequest("scripted-model", (said,), tools=ToolRegistry(tools), **more)
    return build_prompt(request)


def call(call_id: str, arguments: str = '{"x": "1"}', name: str = "f") -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments, "call_id": call_id}}


def signal(call_id: str, arguments: str = '{"x": "1"}', name: str = "f") -> ToolSignal:
    payload = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return ToolSignal(0, payload)


def read_text(events: list[BackendEvent], choice: int = 0) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta) and e.choice == choice)


def read_outputs(body: dict[str, Any]) -> list[Any]:
    return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_sent_back_until_they_will_do(
    kind: str, start: Callable[..., Box], model: ScriptedModel
) -> None:
    """Every question of a batch is answered, in whatever order codex asks them; then the process is free."""
    box = start(kind)
    script = [call("c1"), call("c2", "[]"), call("c3"), {"then": [{"say": ["Hm."]}, call("c4")]}]
    talk = box.open(build(script))
    assert talk.read_until(ResponseDone) == [signal("c1"), signal("c2", "[]"), signal("c3")]
    talk.order(*(RefuseCall(0, call_id, f"bad {call_id}") for call_id in ("c1", "c2", "c3")))
    second = talk.read_until(ResponseDone)
    assert (read_text(second), second[-1]) == ("Hm.", signal("c4"))
    if kind == "codex":
        assert read_outputs(model.requests[-1]) == ["bad c1", "bad c2", "bad c3"]
    pid = talk.close()
    after = box.open(build([call("c1"), {"then": [{"say": ["done"]}]}]))
    assert after.read_until(ResponseDone) == [signal("c1")]
    after.order(RefuseCall(0, "c1", "no"))
    assert read_text(after.read_until(TurnEnded)) == "done"
    assert after.close() == pid


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_used_again_is_another_call(kind: str, start: Callable[..., Box]) -> None:
    """What was said of the first is not said of the second: that one stays open for its own word."""
    talk = start(kind).open(build([call("c1"), {"then": [call("c1", "[2]"), {"then": [{"say": ["end"]}]}]}]))
    assert talk.read_until(ResponseDone) == [signal("c1")]
    talk.order(RefuseCall(0, "c1", "bad"))
    assert talk.read_until(ResponseDone) == [signal("c1", "[2]")]
    assert talk.read_until_silent() == []
    talk.order(RefuseCall(0, "c1", "still bad"))
    assert read_text(talk.read_until(TurnEnded)) == "end"


@pytest.mark.real
def test_two_calls_of_one_id_are_both_answered(start: Callable[..., Box], model: ScriptedModel) -> None:
    talk = start("codex").open(build([call("c1"), call("c1", "[2]"), {"then": [{"say": ["end"]}]}]))
    another = ToolSignal(0, {"type": "function_call", "name": "f", "arguments": "[2]"})
    assert talk.read_until(ResponseDone) == [signal("c1"), another]
    talk.order(RefuseCall(0, "c1", "bad"))
    assert read_text(talk.read_until(TurnEnded)) == "end"
    assert read_outputs(model.requests[-1]) == ["bad", "bad"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_codex_corrects_itself_is_told_as_rejected(kind: str, start: Callable[..., Box]) -> None:
    script = [
        call("c1", "{}", "nope"),
        call("c2", '{"x":'),
        call("c3", '"\\ud800"'),
        call("c4", '{"x":1e999}'),
    ]
    talk = start(kind).open(build(script))
    rejected = CallRejected(0)
    assert talk.read_until(ResponseDone) == [rejected, rejected, rejected, signal("c4", '{"x":1e999}')]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_where_no_tools_are_declared(kind: str, start: Callable[..., Box]) -> None:
    talk = start(kind).open(build([call("c1"), {"then": [{"say": ["Sorry."]}]}], ()))
    events = talk.read_until(TurnEnded)
    assert (events[0], read_text(events), events[-1]) == (CallRejected(0), "Sorry.", TurnEnded(0, STOP))


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_asked_again_behind_its_answer(
    kind: str, start: Callable[..., Box], model: ScriptedModel
) -> None:
    box = start(kind)
    script = [{"say": ["a"]}, {"then": [{"say": ["b"]}]}]
    prompt = build(script, effort="low", summary="none")
    schema = {"type": "object", "properties": {"z": {}, "a": {}}}
    talk = box.open(Prompt(prompt.request, prompt.items, prompt.tools, schema))
    assert read_text(talk.read_until(TurnEnded)) == "a"
    talk.order(AskAgain(0, "Once more."))
    again = talk.read_until(TurnEnded)
    assert (read_text(again), again[-1]) == ("b", TurnEnded(0, STOP))
    talk.close()
    if kind == "codex":
        first, second = model.requests[-2:]
        assert second["input"][: len(first["input"])] == first["input"]
        said = {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Once more."}],
        }
        assert {key: second["input"][-1][key] for key in said} == said
        same = ("text", "reasoning", "tools", "prompt_cache_key")
        assert [first[key] for key in same] == [second[key] for key in same]
        assert first["text"]["format"]["schema"] == schema
        assert first["reasoning"]["effort"] == "low"
    else:
        first, second = box.sent("turn/start")
        assert first == second
        assert (first["outputSchema"], first["effort"], first["summary"]) == (schema, "low", "none")


@pytest.mark.parametrize("kind", KINDS)
def test_one_choice_stops_and_the_other_goes_on(kind: str, start: Callable[..., Box]) -> None:
    box = start(kind)
    talk = box.open(build([{"say": ["w "] * 30, "pause_s": 0.02}], choices=2))
    talk.read_until(TextDelta)
    talk.order(StopChoice(0), StopChoice(0))
    events = talk.read_until(TurnEnded)
    assert (read_text(events, 0), events[-1]) == ("", TurnEnded(1, STOP))
    talk.order(StopChoice(1))
    pid = talk.close()
    # Once, and not of the turn that had ended: another one is never answered.
    assert kind == "codex" or len(box.sent("turn/interrupt")) == 1
    after = box.open(build("Hi"))
    assert after.read_until(TurnEnded)[-1] == TurnEnded(0, STOP)
    assert after.close() == pid


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_choice_may_have_a_call_open(kind: str, start: Callable[..., Box]) -> None:
    box = start(kind)
    talk = box.open(build([call("c1"), call("c2")]))
    talk.read_until(ResponseDone)
    talk.order(StopChoice(0))
    assert talk.read_until_silent() == []
    pid = talk.close()
    after = box.open(build("Hi"))
    assert after.read_until(TurnEnded)[-1] == TurnEnded(0, STOP)
    assert after.close() == pid


@pytest.mark.parametrize("kind", KINDS)
def test_a_response_that_breaks_behind_a_call(kind: str, start: Callable[..., Box]) -> None:
    """Codex tells of it only when its questions are answered; nobody else will."""
    box = start(kind, PROXY_STREAM_IDLE_TIMEOUT_MS="800")
    talk = box.open(build([call("c1"), call("c2"), {"drop": 1}]))
    [event] = talk.read_until(TurnFailed)
    assert isinstance(event, TurnFailed)
    assert (type(event.error), event.error.message) == (
        BackendUnavailable,
        "stream disconnected before completion: stream closed before response.completed",
    )


@pytest.mark.real
def test_a_response_that_only_takes_its_time(start: Callable[..., Box], model: ScriptedModel) -> None:
    """It cannot be told from a broken one; but only the question that was open is lost."""
    box = start("codex", PROXY_STREAM_IDLE_TIMEOUT_MS="800")
    talk = box.open(build([call("c1"), {"wait": 1}, call("c2"), {"then": [{"say": ["end"]}]}]))
    assert talk.read_until(ResponseDone) == [signal("c1"), signal("c2")]
    talk.order(RefuseCall(0, "c1", "bad c1"), RefuseCall(0, "c2", "bad c2"))
    assert read_text(talk.read_until(TurnEnded)) == "end"
    assert read_outputs(model.requests[-1]) == ["dynamic tool request failed", "bad c2"]


@pytest.mark.real
def test_what_the_model_is_offered(start: Callable[..., Box], model: ScriptedModel) -> None:
    """Under names that codex takes, and that come back as the client's own, in history as in answers."""
    alias = ToolNames().to_codex("my.tool")
    tools = [ToolSpec("my.tool", "Mine."), ToolSpec("exec_command"), ToolSpec("mcp__a"), F]
    history = (
        Message(Role.USER, (TextPart("Hi"),)),
        PastCall("p1", "my.tool", "{}"),
        PastOutput("p1", (TextPart("ok"),)),
        PastCall("p2", "gone.tool", "{}"),
        PastOutput("p2", (TextPart("ok"),)),
        Message(Role.USER, (TextPart(json.dumps([call("c1", name=alias)])),)),
    )
    request = TurnRequest("scripted-model", history, tools=ToolRegistry(tools))
    talk = start("codex").open(build_prompt(request))
    assert talk.read_until(ResponseDone) == [signal("c1", name="my.tool")]
    body = model.requests[-1]
    aliases = [alias, "fn_exec_command_ca9a47e1", "fn_mcp_a_7295c120", "f"]
    assert [tool["name"] for tool in body["tools"]] == aliases
    assert [tool["description"] for tool in body["tools"]] == [
        "Mine.\n\nElsewhere this tool is called `my.tool`.",
        "Calls exec_command.\n\nElsewhere this tool is called `exec_command`.",
        "Calls mcp__a.\n\nElsewhere this tool is called `mcp__a`.",
        "Does f.",
    ]
    past = [item["name"] for item in body["input"] if item["type"] == "function_call"]
    assert past == [alias, ToolNames().to_codex("gone.tool")]


NEST: dict[str, Any] = {"type": "object"}
for _ in range(62):
    NEST = {"type": "object", "properties": {"a": NEST}}


@pytest.mark.real
def test_no_schema_makes_codex_refuse_the_tools(start: Callable[..., Box], model: ScriptedModel) -> None:
    odd = [{"type": "null"}, {"items": [{}]}, {"properties": {"a": None}}, {"required": "a"}, NEST]
    tools = [ToolSpec(f"t{number}", None, schema) for number, schema in enumerate(odd)]
    talk = start("codex").open(build("Hi", tools))
    assert read_text(talk.read_until(TurnEnded)) == 'echo: "Hi"'
    assert [tool["parameters"] for tool in model.requests[-1]["tools"]] == [
        {"type": "object", "properties": {}}
    ] * len(odd)


def test_an_answer_held_to_a_schema_that_codex_cannot_read(start: Callable[..., Box]) -> None:
    prompt = build("Hi")
    deep = {"type": "object", "properties": {"a": NEST}}
    talk = start("stand-in").open(Prompt(prompt.request, prompt.items, prompt.tools, deep))
    with pytest.raises(InvalidRequest, match="nests deeper than 125 levels"):
        talk.read_until(TurnEnded)


def test_tools_that_codex_refuses_are_told_as_text(
    start: Callable[..., Box], caplog: pytest.LogCaptureFixture
) -> None:
    box = start("stand-in", {"refuse_tools": True})
    talk = box.open(build("Hi", choices=2))
    with caplog.at_level(logging.WARNING, "app.backend.threads"):
        talk.read_until(TurnEnded, times=2)
    talk.close()
    assert [record.getMessage() for record in caplog.records if record.name == "app.backend.threads"] == [
        "codex refused the tools; they are told as text"
    ]
    threads = [
        [tool["name"] for tool in params.get("dynamicTools", [])] for params in box.sent("thread/start")
    ]
    assert threads[:4] == [["f"], ["f"], [], []]
    items = box.sent("thread/inject_items")[0]["items"]
    assert "<tool_call>" in items[0]["content"][0]["text"]


@pytest.mark.parametrize(
    ("kill", "left", "script", "survives"),
    [
        pytest.param("true", True, [{"hang": True}], False, id="left"),
        pytest.param("true", False, [{"hang": True}], True, id="still-there"),
        pytest.param("false", True, [{"hang": True}], True, id="not-asked-for"),
        pytest.param("true", True, [], True, id="left-after-the-end"),
        pytest.param("true", True, [{"hang": True}, StopChoice(0)], True, id="left-with-all-it-wanted"),
    ],
)
def test_a_client_that_leaves_may_cost_the_process(
    kill: str, left: bool, script: Any, survives: bool, start: Callable[..., Box]
) -> None:
    box = start("stand-in", PROXY_KILL_ON_DISCONNECT=kill)
    client = Visitor()
    orders = [step for step in script if isinstance(step, StopChoice)]
    steps = [step for step in script if step not in orders]
    talk = box.open(build([{"say": ["a"]}, *steps], ()), client)
    talk.read_until(TextDelta if script else TurnEnded)
    talk.order(*orders)
    client.left = left
    pid = talk.close()
    assert survives or wait_until(lambda: not is_running(pid))
    assert is_running(pid) is survives


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"threadId": "another", "callId": "c"}, id="of-another-thread"),
        pytest.param({}, id="in-no-known-shape"),
    ],
)
def test_a_question_that_is_not_ours_is_declined(params: dict[str, Any], start: Callable[..., Box]) -> None:
    talk = start("stand-in").open(build([{"request": {"method": "item/tool/call", "params": params}}]))
    answer = json.loads(read_text(talk.read_until(TurnEnded)))
    assert answer["error"] == {"code": -32601, "message": "not available here"}
