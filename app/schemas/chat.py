"""The body of a chat completion, read into a request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.prompt import JsonMeans, choose_means
from app.lib.request import TurnRequest
from app.lib.tool_registry import ToolRegistry
from app.schemas.chat_messages import read_messages
from app.schemas.output_format import read_response_format
from app.schemas.shared import BodySchema, Data, ReasoningSchema, RequestRules, SparseSchema, StrictBoolean
from app.schemas.tools import (
    DeclaredTools,
    ReadBy,
    choose_tools,
    complain,
    read_function_call,
    read_functions,
    read_tool_choice,
    read_tools,
)

# Accepted, since clients send them unasked, and named in `x-proxy-ignored-params`.
IGNORED = {
    "frequency_penalty",
    "logit_bias",
    "metadata",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "safety_identifier",
    "seed",
    "service_tier",
    "store",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
}
#: The names of one limit; the first that is given counts.
LIMITS = ("max_completion_tokens", "max_tokens")
#: What of a format is not as the client may expect.
FORMAT_NOTES = {
    JsonMeans.INSTRUCTED: ("response_format=instructed",),
    JsonMeans.NEEDLESS: ("response_format",),
}
NO_AUDIO = "Audio is not served here."
MAX_STOPS = 4
MAX_STOP_CHARS = 1000
STOPS_RULE = f"Must be a string or a list of at most {MAX_STOPS}."
STOP_RULE = f"Must be a string of 1 to {MAX_STOP_CHARS:,} characters."


@dataclass(frozen=True, slots=True)
class ChatRules(RequestRules):
    max_choices: int = 5


@dataclass(frozen=True, slots=True)
class ChatRequest:
    turn: TurnRequest
    stream: bool
    include_usage: bool
    #: Whether the client expects calls of its own tools; what else looks like one is then text.
    declares_tools: bool
    #: Whether it knows just `functions`, from before there were `tools`.
    legacy: bool
    ignored: tuple[str, ...]


def read_stop(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (read_one_stop(value),)
    if not isinstance(value, list) or len(value) > MAX_STOPS:
        raise complain(STOPS_RULE)
    return tuple(read_one_stop(text, index) for index, text in enumerate(value))


def read_one_stop(text: Any, *path: int | str) -> str:
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_STOP_CHARS:
        raise complain(STOP_RULE, *path)
    return text


def read_modalities(value: Any) -> bool:
    """Whether something else than text is asked for, too."""
    if not isinstance(value, list):
        raise complain("Must be a list.")
    if "audio" in value:
        raise complain(NO_AUDIO)
    return any(each != "text" for each in value)


class StreamOptionsSchema(SparseSchema):
    include_usage = StrictBoolean(load_default=False, allow_none=True)


class ChatSchema(BodySchema):
    model = fields.String(required=True, validate=validate.Length(1, 256))
    messages = ReadBy(read_messages, required=True)
    stream = StrictBoolean(load_default=False, allow_none=True)
    stream_options = fields.Nested(StreamOptionsSchema, load_default=None, allow_none=True)
    n = fields.Integer(load_default=1, allow_none=True, strict=True)
    reasoning = fields.Nested(ReasoningSchema, load_default=None, allow_none=True)
    reasoning_effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    tools = ReadBy(read_tools, load_default=None)
    functions = ReadBy(read_functions, load_default=None)
    tool_choice = ReadBy(read_tool_choice, load_default=None)
    function_call = ReadBy(read_function_call, load_default=None)
    parallel_tool_calls = StrictBoolean(load_default=None)
    response_format = ReadBy(read_response_format, load_default=None)
    stop = ReadBy(read_stop, load_default=None)
    max_tokens = fields.Integer(load_default=None, strict=True, validate=validate.Range(1))
    max_completion_tokens = fields.Integer(load_default=None, strict=True, validate=validate.Range(1))
    modalities = ReadBy(read_modalities, load_default=None)
    audio = fields.Raw(load_default=None, validate=validate.OneOf((), error=NO_AUDIO))
    logprobs = StrictBoolean(
        load_default=False,
        allow_none=True,
        validate=validate.NoneOf([True], error="Codex gives no log probabilities."),
    )

    def __init__(self, rules: ChatRules) -> None:
        super().__init__(rules)
        self._rules = rules
        self.fields["n"].validators = [validate.Range(1, rules.max_choices)]

    def build(self, data: Data, original: Data) -> ChatRequest:
        turn = build_turn(data, self._rules)
        named = {name for name in original.keys() & IGNORED if original[name] is not None}
        return ChatRequest(
            turn=turn,
            stream=bool(data["stream"]),
            include_usage=bool((data["stream_options"] or {}).get("include_usage")),
            declares_tools=bool(turn.tools),
            legacy=is_legacy(data),
            ignored=tuple(sorted(named.union(find_notes(data, turn, self._rules)))),
        )


def build_turn(data: Data, rules: ChatRules) -> TurnRequest:
    reasoning = data["reasoning"] or {}
    return TurnRequest(
        data["model"],
        data["messages"],
        effort=data["reasoning_effort"] or reasoning.get("effort"),
        choices=data["n"] or 1,
        summary=reasoning.get("summary") or "auto",
        tools=build_registry(data),
        parallel=is_parallel(data, rules),
        json_format=data["response_format"],
        stop=data["stop"] or (),
        max_tokens=find_limit(data) if rules.enforces_max_tokens else None,
    )


def build_registry(data: Data) -> ToolRegistry:
    """The tools and what may be called of them; `tools` and their choice count first."""
    specs = (*(data["tools"] or ()), *(data["functions"] or ()))
    param = "function_call" if data["tool_choice"] is None else "tool_choice"
    return choose_tools(DeclaredTools(specs), data[param], param)


def is_legacy(data: Data) -> bool:
    return bool(data["functions"]) and not data["tools"]


def is_parallel(data: Data, rules: ChatRules) -> bool:
    if is_legacy(data):
        return False  # `function_call` has room for one
    return rules.choose_parallel(data["parallel_tool_calls"])


def find_limit(data: Data) -> int | None:
    return next((data[name] for name in LIMITS if data[name] is not None), None)


def find_notes(data: Data, turn: TurnRequest, rules: ChatRules) -> Iterator[str]:
    """What is given and has not quite, or not at all, the effect it has elsewhere."""
    is_limited = rules.enforces_max_tokens and not turn.tools.demands_call
    for place, name in enumerate(name for name in LIMITS if data[name] is not None):
        yield f"{name}=estimated" if is_limited and place == 0 else name
    if turn.stop and turn.tools.demands_call:
        yield "stop"
    means = choose_means(turn, rules.transport)
    if means is not None:
        yield from FORMAT_NOTES.get(means, ())
    if data["modalities"]:
        yield "modalities"
    if data["parallel_tool_calls"] not in (None, turn.parallel):
        yield "parallel_tool_calls"
