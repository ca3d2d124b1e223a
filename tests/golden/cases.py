"""The turns whose answers are kept as goldens: a request, what the model does, and how the gateway is set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.lib.errors import BackendUnavailable
from app.lib.events import FinishReason, ReasoningDone, SearchAction, SearchDone, SearchKind
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport
from app.lib.stop_policy import StopMode
from app.settings import Settings
from tests.support.scripted_backend import Step, call, end, say, signal, think

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
QUESTIONS: dict[str, dict[str, Any]] = {
    CHAT: {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hi"}]},
    # What is stored is the business of other tests.
    RESPONSES: {"model": "gpt-5.5", "input": "Hi", "store": False},
}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    script: Sequence[Step]
    #: What the request says besides a model and a question.
    asks: dict[str, Any] = field(default_factory=dict)
    #: What only a request for a stream may say.
    stream_asks: dict[str, Any] = field(default_factory=dict)
    #: What the header asks for, if it is sent.
    mode: OutputMode | None = None
    #: The settings that are not as they come.
    settings: dict[str, Any] = field(default_factory=dict)
    #: The endpoint that is asked.
    path: str = CHAT

    @property
    def question(self) -> dict[str, Any]:
        return QUESTIONS[self.path]

    def build_settings(self) -> Settings:
        return Settings(**self.settings, log_level="ERROR")


def in_both_modes(case: Case) -> Iterator[Case]:
    return (replace(case, name=f"{case.name}-{mode.value}", mode=mode) for mode in OutputMode)


def declare(name: str, *keys: str) -> dict[str, Any]:
    properties = {key: {"type": "string"} for key in keys}
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


def as_tools(*functions: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": function} for function in functions]


WEATHER, TIME = declare("get_weather", "city"), declare("getTimeInfo")
TOOLS = {"tools": as_tools(WEATHER, TIME)}
NAMED = {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
BLOCKS_WANTED = {
    "messages": [
        {"role": "system", "content": "Call tools as <use_tool> blocks."},
        {"role": "user", "content": "Find it."},
    ]
}
SEARCH = (
    "<use_tool>\n<name>localSearch</name>\n<query>piano & 日本</query>\n"
    '<salientTerms>["piano"]</salientTerms>\n</use_tool>'
)
READ = "<use_tool>\n<name>readNote</name>\n<notePath>Plans/Q3.md</notePath>\n</use_tool>"
PARIS, OSLO = '{"city": "Paris"}', '{"city": "Oslo <&>"}'
ALL = {"stop_mode": StopMode.ALL}
SENTINEL = {"tool_transport": ToolTransport.SENTINEL}
USAGE_WANTED = {"stream_options": {"include_usage": True}}
GONE = BackendUnavailable("The model is gone.")


def spell(name: str, arguments: str) -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def add(text: str) -> dict[str, Any]:
    """A call's arguments in pieces, as a chat backend tells them."""
    return {
        "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}]
    }


BEGIN = {
    "choices": [
        {
            "index": 0,
            "delta": {"tool_calls": [{"index": 0, "id": "call_0", "function": {"name": "get_weather"}}]},
        }
    ]
}

ANSWERS = [
    Case("text", [say("Hel", "lo, 日本 🎹"), say(" & bye."), end()]),
    Case("text-usage", [say("Hi"), end()], stream_asks=USAGE_WANTED),
    Case("text-nothing", [end()]),
    Case("text-two-items", [say("One. "), say("Two.", item_id="msg_1"), end()]),
    Case("reasoning", [think("Hm", "m."), think("So.", part=1), say("Yes."), end()]),
    Case("ignored-params", [say("Hi"), end()], {"temperature": 0, "seed": 7, "max_tokens": 100}),
    Case("choices-two", [say("b", choice=1), say("a"), end(choice=1), end()], {"n": 2}, USAGE_WANTED),
]
ENDS = [
    Case("stop-sequence", [say("One, two, EN", "D three."), end()], {"stop": ["END"]}),
    Case("length-by-backend", [say("cut o"), end(FinishReason.LENGTH)]),
    Case("length-by-max-tokens", [say("12345678", "90ab"), end()], {"max_tokens": 2}),
    Case("content-filter", [say("I can"), end(FinishReason.CONTENT_FILTER)]),
]
ERRORS = [
    Case("error-before-first-byte", [GONE]),
    Case("error-after-first-byte", [say("Hel"), GONE]),
    Case("error-events-just-stop", [say("Hel")]),
    *in_both_modes(Case("error-inside-a-block", [say("Look: ", SEARCH[:30]), GONE], BLOCKS_WANTED)),
    *in_both_modes(Case("error-behind-a-block", [say(f"Look: {SEARCH}"), GONE], BLOCKS_WANTED, settings=ALL)),
    *in_both_modes(
        Case("error-in-one-choice", [say("a"), say(SEARCH, choice=1), GONE], BLOCKS_WANTED | {"n": 2})
    ),
]
STRUCTURED = [
    Case("call", [say("Let me look."), call("get_weather", PARIS), end()], TOOLS),
    Case("call-alone", [call("get_weather", OSLO), end()], TOOLS),
    Case("call-without-arguments", [call("getTimeInfo", ""), end()], TOOLS),
    Case("call-in-fragments", [signal(BEGIN, add('{"city"'), add(': "Paris'), add('"}')), end()], TOOLS),
    Case("call-reasoned", [think("Hm."), call("get_weather", PARIS), end()], TOOLS, USAGE_WANTED),
    Case(
        "calls-several",
        [
            say("Both. "),
            call("get_weather", PARIS)
            + call("getTimeInfo", "", "call_1")
            + call("get_weather", OSLO, "call_2"),
            end(),
        ],
        TOOLS,
    ),
    Case(
        "calls-several-all",
        [call("get_weather", PARIS) + call("getTimeInfo", "", "call_1"), end()],
        TOOLS,
        settings=ALL,
    ),
    Case(
        "calls-not-parallel",
        [call("get_weather", PARIS) + call("get_weather", OSLO, "call_1"), end()],
        TOOLS | {"parallel_tool_calls": False},
    ),
    Case(
        "call-in-choice-1",
        [say("Sunny."), call("get_weather", PARIS, choice=1), end(choice=1), end()],
        TOOLS | {"n": 2},
        USAGE_WANTED,
    ),
    Case("functions", [say("Hm. "), call("get_weather", PARIS), end()], {"functions": [WEATHER, TIME]}),
    Case(
        "functions-several",
        [call("getTimeInfo", "") + call("get_weather", PARIS, "call_1"), end()],
        {"functions": [WEATHER, TIME]},
    ),
    Case("forced-named", [say(*'{"city": "Paris"}'), end()], TOOLS | NAMED),
    Case(
        "forced-required",
        [
            say('{"calls":[{"name":"get_weather","arguments":{"city":"Paris"}},'),
            say('{"name":"getTimeInfo","arguments":{}}]}'),
            end(),
        ],
        TOOLS | {"tool_choice": "required"},
    ),
]
TEXTUAL = [
    Case("block", [say("Let me look. ", *SEARCH), say(" tail"), end()], BLOCKS_WANTED),
    Case("block-alone", [say(SEARCH), end()], BLOCKS_WANTED),
    Case("block-never-closed", [say("Look: ", SEARCH[:40]), end()], BLOCKS_WANTED),
    Case("blocks-first", [say(f"{SEARCH}\n{READ}\n"), say("tail"), end()], BLOCKS_WANTED),
    Case("blocks-all", [say(f"{SEARCH}\n{READ}\n"), say("tail"), end()], BLOCKS_WANTED, settings=ALL),
    Case(
        "block-in-choice-1",
        [say("None."), say(f"Look: {SEARCH}", choice=1), end()],
        BLOCKS_WANTED | {"n": 2},
    ),
    Case("sentinel", [say("Sure. ", *spell("get_weather", PARIS), " tail"), end()], TOOLS, settings=SENTINEL),
    Case(
        "sentinel-several",
        [say(f"{spell('get_weather', PARIS)}\n{spell('getTimeInfo', '{}')}"), end()],
        TOOLS,
        settings=SENTINEL,
    ),
    Case(
        "sentinel-functions",
        [say(spell("get_weather", PARIS)), end()],
        {"functions": [WEATHER]},
        settings=SENTINEL,
    ),
    Case("sentinel-while-native", [say(spell("get_weather", PARIS)), end()], TOOLS),
]
SINGLE = [
    Case("block-without-tools", [say(f"Copilot writes {SEARCH} and waits."), end()]),
    Case("block-by-tools", [say(f"{SEARCH} tail"), end()], TOOLS),
    Case("call-by-tools", [say("Let me look."), call("get_weather", PARIS), end()], TOOLS),
    Case(
        "call-cumulative",
        [signal(BEGIN, add('{"city"'), add(': "Paris"}')), end()],
        TOOLS,
        settings={"cumulative_arguments": True},
    ),
    Case(
        "block-under-choice-none", [say(spell("get_weather", PARIS)), end()], TOOLS | {"tool_choice": "none"}
    ),
]
FLAT = {"tools": [{"type": "function", **WEATHER, "strict": True}, {"type": "function", **TIME}]}
ENCRYPTED = {"include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"}}
THOUGHT = ReasoningDone(0, "rs_0", ("Hm.",), "gAAA")
SEARCHED = SearchDone(0, "ws_0", SearchAction(SearchKind.SEARCH, "sky"))
IN_RESPONSES = [
    Case("text", [say("Hel", "lo, 日本 🎹"), say(" & bye."), end()], {"instructions": "Be brief."}),
    Case("text-nothing", [end()]),
    Case("text-two-items", [say("One. "), say("Two.", item_id="msg_1"), end()]),
    Case("reasoning", [think("Hm", "m."), think("So.", part=1), [THOUGHT], say("Yes."), end()]),
    Case("reasoning-encrypted", [think("Hm."), [THOUGHT], say("Yes."), end()], ENCRYPTED),
    Case("ignored-params", [say("Hi"), end()], {"temperature": 0, "user": "me", "max_output_tokens": 100}),
    Case("length-by-backend", [say("cut o"), end(FinishReason.LENGTH)]),
    Case("length-by-max-tokens", [say("12345678", "90ab"), end()], {"max_output_tokens": 2}),
    Case("content-filter", [say("I can"), end(FinishReason.CONTENT_FILTER)]),
    Case("error-before-first-byte", [GONE]),
    Case("error-after-first-byte", [say("Hel"), GONE]),
    Case("call", [think("Hm."), say("Let me look."), call("get_weather", PARIS), end()], FLAT),
    Case("call-without-arguments", [call("getTimeInfo", ""), end()], TOOLS),
    Case(
        "calls-several",
        [say("Both. "), call("get_weather", PARIS) + call("getTimeInfo", "", "call_1"), end()],
        FLAT,
    ),
    Case(
        "forced-named",
        [say(*PARIS), end()],
        FLAT | {"tool_choice": {"type": "function", "name": "get_weather"}},
    ),
    Case("block-is-text", [say("Let me look. ", *SEARCH), end()], {"instructions": "Write <use_tool>."}),
    Case("sentinel", [say("Sure. ", *spell("get_weather", PARIS), " tail"), end()], TOOLS, settings=SENTINEL),
    Case("sentinel-while-native", [say(spell("get_weather", PARIS)), end()], TOOLS),
    Case("strict-failure", [say("Hm. "), say(spell("get_weather", "[]")), end()], FLAT),
    Case(
        "web-search",
        [[SEARCHED], say("Blue."), end()],
        {"tools": [{"type": "web_search"}]},
        settings={"allows_web_search": True},
    ),
]
CASES = [
    *ANSWERS,
    *ENDS,
    *ERRORS,
    *(each for case in STRUCTURED + TEXTUAL for each in in_both_modes(case)),
    *SINGLE,
    *(replace(case, name=f"responses-{case.name}", path=RESPONSES) for case in IN_RESPONSES),
]
