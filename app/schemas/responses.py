"""The body of a Responses request, read into a turn and into what the response repeats of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.prompt import JsonMeans, choose_means
from app.lib.request import (
    HistoryItem,
    JsonFormat,
    Message,
    PastCall,
    PastOutput,
    Role,
    TextPart,
    TurnRequest,
)
from app.lib.tool_registry import ChoiceMode
from app.schemas.output_format import read_text_format
from app.schemas.response_echo import build_echo
from app.schemas.response_input import InputItem, read_input
from app.schemas.shared import SUMMARIES, BodySchema, Data, ReasoningSchema, RequestRules, StrictBoolean
from app.schemas.tools import (
    DeclaredTools,
    ReadBy,
    choose_tools,
    complain,
    read_declared,
    read_list,
    read_object,
    read_tool_choice,
)

# Accepted, since clients send them unasked, and named in `x-proxy-ignored-params`.
IGNORED = {
    "context_management",
    "frequency_penalty",
    "max_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "stream_options",
    "temperature",
    "top_p",
    "user",
}
# Chat's, which clients send here by mistake.
FOREIGN = {"functions", "max_completion_tokens", "max_tokens", "messages", "n", "response_format", "stop"}
ENCRYPTED = "reasoning.encrypted_content"
# What else clients ask to have included; only these are named: a header takes no client's own words.
UNINCLUDED = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
)
NO_LOGPROBS = "Codex gives no log probabilities."
#: What of a format is not as the client may expect.
FORMAT_NOTES = {
    JsonMeans.INSTRUCTED: ("text.format=instructed",),
    JsonMeans.NEEDLESS: ("text.format",),
}
MAX_METADATA = 16
SEARCH_RULE = "Codex's own web search is off here; the operator turns it on with PROXY_ALLOW_WEB_SEARCH=true."


@dataclass(frozen=True, slots=True)
class ResponsesRules(RequestRules):
    allows_web_search: bool = False


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    #: All but its history, which may begin in responses that were stored.
    turn: TurnRequest
    #: This request's own input.
    items: tuple[InputItem, ...]
    instructions: tuple[HistoryItem, ...]
    stream: bool
    store: bool
    background: bool
    previous_response_id: str | None
    includes_encrypted: bool
    #: What the response repeats of the request.
    echo: dict[str, Any]
    ignored: tuple[str, ...]

    @property
    def echoed_calls(self) -> int:
        return sum(isinstance(item, PastCall) for item in self.items)

    def build_turn(self, earlier: tuple[HistoryItem, ...], items: tuple[HistoryItem, ...]) -> TurnRequest:
        """The turn behind what went before; instructions are never carried over."""
        return replace(
            self.turn,
            history=(*self.instructions, *earlier, *items),
            brings_results_only=self.brings_results_only,
        )

    @property
    def brings_results_only(self) -> bool:
        """Whether what the results belong to is left to us."""
        is_said = self.instructions or self.previous_response_id
        return not is_said and all(isinstance(item, PastOutput) for item in self.items)


@dataclass(frozen=True, slots=True)
class TextSettings:
    raw: dict[str, Any]
    format: JsonFormat | None


def read_instructions(value: Any) -> tuple[HistoryItem, ...]:
    if isinstance(value, str):
        return (Message(Role.DEVELOPER, (TextPart(value),)),) if value else ()
    return tuple(item for item in read_input(value) if isinstance(item, Message))


def read_text(value: Any) -> TextSettings:
    raw = read_object(value)
    try:
        wanted = None if raw.get("format") is None else read_text_format(raw["format"])
    except ma.ValidationError as error:
        raise ma.ValidationError({"format": error.messages}) from error
    return TextSettings(raw, wanted)


def read_include(value: Any) -> tuple[str, ...]:
    wanted = tuple(read_list(value))
    for index, each in enumerate(wanted):
        if not isinstance(each, str):
            raise complain("Must be a string.", index)
        if each == "message.output_text.logprobs":
            raise complain(NO_LOGPROBS, index)
    return wanted


def read_metadata(value: Any) -> dict[str, str]:
    raw = read_object(value)
    if len(raw) > MAX_METADATA or not all(isinstance(each, str) for each in raw.values()):
        raise complain(f"Must be at most {MAX_METADATA} pairs of strings.")
    return raw


def refuse(what: str) -> ReadBy:
    """A field that only null goes with."""

    def read(_: Any) -> Any:
        raise complain(f"{what} are not served here.")

    return ReadBy(read, load_default=None)


class ResponseReasoningSchema(ReasoningSchema):
    #: From before there was `summary`.
    generate_summary = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(SUMMARIES))


class ResponsesSchema(BodySchema):
    model = fields.String(required=True, validate=validate.Length(1, 256))
    input = ReadBy(read_input, load_default=None)
    instructions = ReadBy(read_instructions, load_default=None)
    stream = StrictBoolean(load_default=False, allow_none=True)
    store = StrictBoolean(load_default=True, allow_none=True)
    background = StrictBoolean(load_default=False, allow_none=True)
    previous_response_id = fields.String(load_default=None, allow_none=True, validate=validate.Length(1, 256))
    reasoning = fields.Nested(ResponseReasoningSchema, load_default=None, allow_none=True)
    reasoning_effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    tools = ReadBy(read_declared, load_default=None)
    tool_choice = ReadBy(read_tool_choice, load_default=None)
    parallel_tool_calls = StrictBoolean(load_default=None)
    text = ReadBy(read_text, load_default=None)
    max_output_tokens = fields.Integer(load_default=None, strict=True, validate=validate.Range(1))
    include = ReadBy(read_include, load_default=None)
    metadata = ReadBy(read_metadata, load_default=None)
    truncation = fields.String(
        load_default=None, allow_none=True, validate=validate.OneOf(("auto", "disabled"))
    )
    top_logprobs = fields.Integer(
        load_default=None, allow_none=True, strict=True, validate=validate.Range(0, 0, error=NO_LOGPROBS)
    )
    conversation = refuse("Conversations")
    prompt = refuse("Stored prompts")

    def __init__(self, rules: ResponsesRules) -> None:
        super().__init__(rules)
        self._rules = rules

    def build(self, data: Data, original: Data) -> ResponsesRequest:
        validate_whole(data, original)
        turn = build_turn(data, self._rules)
        named = {name for name in original.keys() & (IGNORED | FOREIGN) if original[name] is not None}
        return ResponsesRequest(
            turn=turn,
            items=data["input"] or (),
            instructions=data["instructions"] or (),
            stream=bool(data["stream"]),
            store=data["store"] is not False,
            background=bool(data["background"]),
            previous_response_id=data["previous_response_id"],
            includes_encrypted=ENCRYPTED in (data["include"] or ()),
            echo=build_echo(original, turn, data["tools"] or DeclaredTools(), data["instructions"] or ()),
            ignored=tuple(sorted(named.union(find_notes(data, turn, self._rules)))),
        )


def validate_whole(data: Data, original: Data) -> None:
    """What no field can tell alone."""
    if data["input"] is None and data["previous_response_id"] is None:
        hint = " `messages` belong to /v1/chat/completions." if "messages" in original else ""
        raise complain(f"Missing data for required field.{hint}", "input")
    if data["background"] and data["store"] is False:
        raise complain("A background response has to be stored: leave `store` out.", "background")


def build_turn(data: Data, rules: ResponsesRules) -> TurnRequest:
    reasoning = data["reasoning"] or {}
    declared: DeclaredTools = data["tools"] or DeclaredTools()
    if declared.web_search and not rules.allows_web_search:
        raise complain(SEARCH_RULE, "tools")
    tools = choose_tools(declared, data["tool_choice"])
    return TurnRequest(
        data["model"],
        (),
        effort=reasoning.get("effort") or data["reasoning_effort"],
        # Without a wish for a summary OpenAI gives none.
        summary=reasoning.get("summary") or reasoning.get("generate_summary") or "none",
        tools=tools,
        parallel=rules.choose_parallel(data["parallel_tool_calls"]),
        json_format=data["text"].format if data["text"] else None,
        max_tokens=data["max_output_tokens"] if rules.enforces_max_tokens else None,
        web_search=declared.web_search and tools.choice.allows_search and not tools.demands_call,
    )


def find_notes(data: Data, turn: TurnRequest, rules: ResponsesRules) -> Iterator[str]:
    """What is given and has not quite, or not at all, the effect it has elsewhere."""
    if data["max_output_tokens"] is not None:
        is_limited = rules.enforces_max_tokens and not turn.tools.demands_call
        yield "max_output_tokens=estimated" if is_limited else "max_output_tokens"
    if turn.tools.choice.mode is ChoiceMode.REQUIRED and not turn.tools.callable:
        yield "tool_choice"  # codex may be allowed a search; it cannot be made to
    means = choose_means(turn, rules.transport)
    if means is not None:
        yield from FORMAT_NOTES.get(means, ())
    if data["truncation"] == "auto":
        yield "truncation"
    if data["parallel_tool_calls"] not in (None, turn.parallel):
        yield "parallel_tool_calls"
    if data["text"] and data["text"].raw.get("verbosity") is not None:
        yield "text.verbosity"
    asked = (each for each in data["include"] or () if each != ENCRYPTED)
    yield from (f"include={each}" if each in UNINCLUDED else "include" for each in asked)
