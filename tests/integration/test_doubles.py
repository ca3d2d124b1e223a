"""The doubles against the real binary: the same script gives a gateway the same notifications to read."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import codex_cli_bin
import pytest

from tests.support.driver import Driver, Message, start_stand_in
from tests.support.scripted_model import ScriptedModel

CONFIG = """
model = "demo"
model_provider = "scripted"
web_search = "disabled"
project_doc_max_bytes = 0
check_for_update_on_startup = false
include_permissions_instructions = false
include_apps_instructions = false
include_environment_context = false
include_collaboration_mode_instructions = false
[analytics]
enabled = false
[skills]
include_instructions = false
[features]
unbounded_connection_retries = false
shell_tool = false
unified_exec = false
multi_agent = false
goals = false
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather of a city.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    {"type": "function", "name": "exec_command", "description": "", "inputSchema": {}},
]
MODEL_ITEMS = ("agentMessage", "reasoning", "dynamicToolCall")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def codex(tmp_path: Path, model: ScriptedModel) -> Iterator[Driver]:
    """The real binary, with nothing but the scripted model behind it."""
    (tmp_path / "config.toml").write_text(CONFIG.format(base_url=model.base_url))
    home = dict.fromkeys(("HOME", "CODEX_HOME", "CODEX_SQLITE_HOME"), str(tmp_path))
    env = {"PATH": os.environ["PATH"], **home}
    with Driver([str(codex_cli_bin.bundled_codex_path()), "app-server"], env) as driver:
        yield driver


def answer_sunny(message: Message) -> Message:
    text = f"sunny in {message['params']['arguments']['city']}"
    return {"result": {"contentItems": [{"type": "inputText", "text": text}], "success": True}}


def play(driver: Driver, script: Any, answer: Callable[[Message], Message] = answer_sunny) -> list[Message]:
    """Run a turn to its end, answering its tool calls as they come; what was read."""
    driver.initialize()
    driver.start_turn(script, TOOLS)
    while True:
        message = driver.read_until(lambda message: "method" in message)
        if message["method"] == "turn/completed":
            return driver.seen
        if "id" in message:
            driver.write({"id": message["id"], **answer(message)})


def is_essential(message: Message) -> bool:
    item = message["params"].get("item", {})
    if message["method"] == "rawResponseItem/completed":
        return bool(item.get("role", "assistant") == "assistant")
    if message["method"] in ("item/started", "item/completed"):
        return item["type"] in MODEL_ITEMS
    return message["method"] in ESSENTIALS


def pick(*names: str) -> Callable[[Message], Message]:
    return lambda fields: {name: fields[name] for name in names}


def pick_item(params: Message) -> Message:
    """All an item says but ids, times, what codex adds for itself, and a parser's own words."""
    added = ("id", "internal_chat_message_metadata_passthrough", "durationMs")
    item = {key: value for key, value in params["item"].items() if key not in added}
    unreadable = "failed to parse function arguments: "
    if str(item.get("output", "")).startswith(unreadable):
        item["output"] = unreadable
    return item


def pick_error(error: Message | None) -> Message | None:
    if error is None:
        return None
    return {**error, "message": re.sub(r"url: \S+", "url: …", error["message"])}


ESSENTIALS: dict[str, Callable[[Message], Any]] = {
    "item/started": pick_item,
    "item/completed": pick_item,
    "item/agentMessage/delta": pick("delta"),
    "item/reasoning/summaryTextDelta": pick("delta", "summaryIndex"),
    "item/tool/call": pick("callId", "namespace", "tool", "arguments"),
    "rawResponseItem/completed": pick_item,
    "rawResponse/completed": pick("usage", "usageMetadata"),
    "thread/tokenUsage/updated": lambda params: pick("total", "last")(params["tokenUsage"]),
    "account/rateLimits/updated": lambda params: pick("primary", "secondary")(params["rateLimits"]),
    "error": lambda params: (pick_error(params["error"]), params["willRetry"]),
    "turn/completed": lambda params: (params["turn"]["status"], pick_error(params["turn"]["error"])),
}


def read_lanes(messages: list[Message]) -> dict[str, list[Any]]:
    """What a gateway reads, in order; a lane for each call apart, as codex runs tools beside the stream."""
    lanes: dict[str, list[Any]] = {"stream": []}
    for message in messages:
        if "method" in message and is_essential(message):
            fields = ESSENTIALS[message["method"]](message["params"])
            lane = lanes.setdefault(find_lane(message["params"]), [])
            lane.append((message["method"], fields))
    return lanes


def find_lane(params: Message) -> str:
    item = params.get("item", {"type": None})
    by_type = {"dynamicToolCall": item.get("id"), "function_call_output": item.get("call_id")}
    return str(by_type.get(item["type"]) or params.get("callId") or "stream")


def build_call(city: str, call_id: str, name: str = "get_weather") -> Message:
    return call_with(f'{{"city": "{city}"}}', call_id, name)


def call_with(arguments: str, call_id: str, name: str = "get_weather") -> Message:
    return {"call": {"name": name, "arguments": arguments, "call_id": call_id}}


PRIMARY = {
    "x-codex-primary-used-percent": "42.5",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "1800000000",
}
SECONDARY = {name.replace("primary", "secondary"): value for name, value in PRIMARY.items()}
SORRY = {"then": [{"say": ["Sorry."]}]}
SCRIPTS = [
    pytest.param("Say hi 日本語 🚀", id="echo"),
    pytest.param([{"say": ["w0 ", "", "w1"]}], id="say"),
    pytest.param([{"repeat": {"say": ["x", "y"], "times": 5}}], id="repeat"),
    pytest.param([{"think": ["Consider", "ing"]}, {"say": ["42"]}], id="think-say"),
    pytest.param([{"say_whole": "at once"}], id="say-whole"),
    pytest.param([{"say": ["a"]}, {"say": ["b"], "pause_s": 0.01}], id="two-messages"),
    pytest.param([], id="nothing-said"),
    pytest.param([{"usage": {"input_tokens": 7, "cached_tokens": 0}}, {"say": ["a"]}], id="usage"),
    pytest.param([{"limits": PRIMARY | SECONDARY}, {"say": ["a"]}], id="limits"),
    pytest.param([{"limits": SECONDARY}, {"say": ["a"]}, {"drop": 1}], id="limits-drop"),
    pytest.param([{"limits": PRIMARY}, {"fail": {"code": "slow_down", "message": "m"}}], id="limits-fail"),
    pytest.param(
        [{"limits": PRIMARY}, build_call("A", "c1"), {"then": [{"limits": SECONDARY}, {"say": ["."]}]}],
        id="limits-sparse",
    ),
    pytest.param([{"limits": PRIMARY}, build_call("A", "c1"), {"then": [{"say": ["."]}]}], id="limits-once"),
    pytest.param(
        [
            {
                "http": 429,
                "error": {"type": "usage_limit_reached", "plan_type": "plus"},
                "headers": PRIMARY | SECONDARY,
            }
        ],
        id="limits-used-up",
    ),
    pytest.param([{"http": 400, "error": {"message": "bad", "code": "c"}}], id="http-400"),
    pytest.param([{"http": 401, "error": {"message": "bad key"}}], id="http-401"),
    pytest.param([{"http": 404, "error": {"message": "model not found"}}], id="http-404"),
    pytest.param([{"http": 429, "error": {"message": "slow down"}}], id="http-429"),
    pytest.param(
        [{"http": 429, "error": {"type": "usage_limit_reached", "plan_type": "plus"}}], id="usage-limit"
    ),
    pytest.param([{"http": 500, "error": {"message": "oops"}}], id="http-500"),
    pytest.param([{"http": 503}], id="http-503"),
    pytest.param([{"http": 503, "error": {"code": "server_is_overloaded"}}], id="overloaded"),
    pytest.param(
        [{"say": ["a"]}, {"fail": {"code": "rate_limit_exceeded", "message": "later"}}], id="rate-limit"
    ),
    pytest.param([{"fail": {"code": "insufficient_quota", "message": "m"}}], id="quota"),
    pytest.param([{"fail": {"code": "invalid_prompt", "message": "m"}}], id="invalid-prompt"),
    pytest.param([{"fail": {"code": "server_error", "message": "m"}}], id="server-error"),
    pytest.param([{"say": ["cut of"]}, {"incomplete": "max_output_tokens"}], id="incomplete"),
    pytest.param([{"say": ["a"]}, {"incomplete": "content_filter"}], id="content-filter"),
    pytest.param([{"say": ["partial"]}, {"drop": 1}], id="drop"),
    pytest.param([{"say": ["part"], "open": True}, {"drop": 1}], id="drop-inside-message"),
    pytest.param([{"drop": 1}], id="drop-at-once"),
    pytest.param([build_call("Paris", "c1")], id="call"),
    pytest.param([build_call("Paris", "c1"), {"then": [{"say": ["Nice."]}]}], id="call-then"),
    pytest.param(
        [build_call("A", "c1"), {"then": [build_call("B", "c2"), {"then": [{"say": ["."]}]}]}], id="rounds"
    ),
    pytest.param([build_call("Paris", "c1"), build_call("Rome", "c2")], id="two-calls"),
    pytest.param([build_call("Paris", "c1", "nope")], id="unknown-tool"),
    pytest.param([build_call("Paris", "c1", "exec_command")], id="hidden-tool"),
    pytest.param([build_call("Paris", "c1", "nope"), build_call("Rome", "c2")], id="unknown-tool-and-call"),
    pytest.param([call_with('{"city": ', "c1"), SORRY], id="half-arguments"),
    pytest.param([call_with("", "c1"), SORRY], id="no-arguments"),
    pytest.param([call_with('{"city": NaN}', "c1"), SORRY], id="arguments-with-nan"),
    pytest.param([call_with('{"city": "\\ud800"}', "c1"), SORRY], id="arguments-with-half-a-character"),
    pytest.param([call_with("[" * 128 + "]" * 128, "c1"), SORRY], id="arguments-too-deep"),
    pytest.param([build_call("Paris", "c1"), {"drop": 1}], id="drop-after-call"),
]


@pytest.mark.real
@pytest.mark.parametrize("script", SCRIPTS)
def test_stand_in_tells_what_codex_tells(script: Any, codex: Driver) -> None:
    with start_stand_in(one_by_one=True) as stand_in:
        assert read_lanes(play(stand_in, script)) == read_lanes(play(codex, script))


@pytest.mark.real
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            {"result": {"contentItems": [{"type": "inputText", "text": "bad"}], "success": False}},
            id="failed",
        ),
        pytest.param({"result": {"contentItems": [], "success": True}}, id="nothing-in-it"),
        pytest.param({"error": {"code": -32601, "message": "not available here"}}, id="declined"),
        pytest.param({"result": {}}, id="invalid"),
    ],
)
def test_what_becomes_of_an_answer(answer: Message, codex: Driver) -> None:
    script = [build_call("Paris", "c1"), build_call("Rome", "c2"), {"then": [{"say": ["Nice."]}]}]
    with start_stand_in(one_by_one=True) as stand_in:
        told = [read_lanes(play(driver, script, lambda _: answer)) for driver in (stand_in, codex)]
    assert told[0] == told[1]


@pytest.mark.real
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param({"name": "mcp"}, id="reserved"),
        pytest.param({"name": "mcp__a"}, id="reserved-beginning"),
        pytest.param({"name": "a.b"}, id="dot"),
        pytest.param({"name": ""}, id="no-name"),
        pytest.param({"name": "x" * 129}, id="too-long"),
        pytest.param({"name": "get_weather"}, id="twice"),
        pytest.param({"name": "mcp_"}, id="taken"),
    ],
)
def test_which_tools_are_refused(tool: Message, codex: Driver) -> None:
    tools = [TOOLS[0], TOOLS[0] | tool]
    params = {"ephemeral": True, "environments": [], "dynamicTools": tools}
    with start_stand_in() as stand_in:
        for driver in (stand_in, codex):
            driver.initialize()
        told = [driver.call("thread/start", params).get("error") for driver in (stand_in, codex)]
    assert told[0] == told[1]


def end_by_interrupt(driver: Driver, script: Any, first: str) -> list[Message]:
    """Interrupt a turn at the first message of a method; what was read."""
    driver.initialize()
    turn = driver.start_turn(script, TOOLS)
    driver.read_until(lambda message: message.get("method") == first)
    driver.send("turn/interrupt", turn)
    driver.read_until(lambda message: message.get("method") == "turn/completed")
    return driver.seen


@pytest.mark.real
@pytest.mark.parametrize(
    "script", [[{"say": ["w "] * 200, "pause_s": 0.05}], [{"say": ["w "]}, {"wait": 60}]]
)
def test_an_interrupt_closes_the_upstream_stream(script: Any, codex: Driver, model: ScriptedModel) -> None:
    first = "item/agentMessage/delta"
    with start_stand_in() as stand_in:
        told = [read_lanes(end_by_interrupt(driver, script, first)) for driver in (stand_in, codex)]
    assert [lanes["stream"][-1] for lanes in told] == [("turn/completed", ("interrupted", None))] * 2
    assert model.wait_for(lambda model: model.open_streams == 0)
    assert (len(model.requests), model.closed_early) == (1, 1)


@pytest.mark.real
def test_an_interrupt_cancels_a_pending_call(codex: Driver) -> None:
    script = [build_call("Paris", "c1")]
    with start_stand_in() as stand_in:
        told = [
            read_lanes(end_by_interrupt(driver, script, "item/tool/call")) for driver in (stand_in, codex)
        ]
    assert told[0]["c1"] == told[1]["c1"]
