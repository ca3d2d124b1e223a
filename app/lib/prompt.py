"""Turns a request into what codex is given: structured history items, never one flattened string."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never

from app.lib.forced_call import build_forced
from app.lib.history import flatten_history, settle_history
from app.lib.json_text import dump_json
from app.lib.optional_nulls import has_optional
from app.lib.request import (
    HistoryItem,
    ImagePart,
    JsonFormat,
    Message,
    Part,
    PastCall,
    PastOutput,
    PastReasoning,
    Role,
    TextPart,
    ToolTransport,
    TurnRequest,
)
from app.lib.strict_schema import to_strict
from app.lib.tool_manifest import build_manifest
from app.lib.tool_registry import ToolSpec

Item = dict[str, Any]

JSON_RULE = "All text you show the user must be {} and nothing else: no words around it, no Markdown fence."
OBJECT_RULE = JSON_RULE.format("one JSON object")
SCHEMA_RULE = JSON_RULE.format("one JSON value that conforms to the JSON schema below")


@dataclass(frozen=True, slots=True)
class Prompt:
    #: What this was made from, also for model, effort and choices.
    request: TurnRequest
    #: Responses-API items, rebuilt key by key: codex injects whatever it is handed.
    items: tuple[Item, ...]
    #: The tools that the model is offered as functions of its own.
    tools: tuple[ToolSpec, ...] = ()
    #: What the answer must conform to.
    output_schema: dict[str, Any] | None = None
    #: Whether words of ours stand behind the history: its thread then holds more than the client told.
    is_amended: bool = False


class JsonMeans(Enum):
    """What is done about a `JsonFormat`."""

    #: The answer is held to its schema.
    ENFORCED = "enforced"
    #: The model is told.
    INSTRUCTED = "instructed"
    #: Nothing: the answer has to be a call.
    NEEDLESS = "needless"


def build_prompt(request: TurnRequest, transport: ToolTransport = ToolTransport.NATIVE) -> Prompt:
    items = build_history(request, transport)
    forced = build_forced(request.tools, request.parallel)
    if forced is not None:
        told = (*items, build_instruction(forced.instruction))
        return Prompt(request, told, (), forced.output_schema, is_amended=True)
    rules, schema = apply_format(request, transport)
    if transport is ToolTransport.NATIVE:
        return Prompt(request, (*items, *rules), request.tools.callable, schema, is_amended=bool(rules))
    manifest = build_manifest(request.tools, request.parallel)
    before = [build_instruction(manifest)] if manifest else []
    return Prompt(request, (*before, *items, *rules), (), schema, is_amended=bool(rules))


def mentions(prompt: Prompt, needles: Collection[str]) -> bool:
    """Whether the client's instructions speak of any of these; what we tell the model does not count."""
    return any(needle in text for text in find_instructions(prompt.request) for needle in needles)


def find_instructions(request: TurnRequest) -> Iterator[str]:
    for item in request.history:
        if isinstance(item, Message) and item.role is Role.DEVELOPER:
            yield from (part.text for part in item.parts if isinstance(part, TextPart))


def choose_means(request: TurnRequest, transport: ToolTransport) -> JsonMeans | None:
    """How the answer is to become JSON; `None` where it need not be."""
    wanted = request.json_format
    if wanted is None:
        return None
    if request.tools.demands_call:
        return JsonMeans.NEEDLESS
    is_held = find_enforced(wanted, request, transport) is not None
    return JsonMeans.ENFORCED if is_held else JsonMeans.INSTRUCTED


def find_enforced(
    wanted: JsonFormat, request: TurnRequest, transport: ToolTransport
) -> dict[str, Any] | None:
    """The schema an answer can be held to; codex declares every one strict."""
    # A model held to a schema could not write the block that calls a tool.
    writes_calls = transport is ToolTransport.SENTINEL and bool(request.tools.callable)
    if wanted.schema is None or writes_calls:
        return None
    if wanted.strict:
        return wanted.schema
    # What may be left out would have to be null, which the client's own schema may not know; and one that
    # names nothing means any object, not the empty one.
    is_full = bool(wanted.schema.get("properties")) and not has_optional(wanted.schema)
    return to_strict(wanted.schema) if is_full else None


def apply_format(
    request: TurnRequest, transport: ToolTransport
) -> tuple[tuple[Item, ...], dict[str, Any] | None]:
    """What to tell the model of the form of its answer, and the schema to hold it to."""
    wanted = request.json_format
    if wanted is None:
        return (), None
    schema = find_enforced(wanted, request, transport)
    if schema is not None:
        return (), schema
    return (build_instruction(build_json_rule(wanted)),), None


def build_json_rule(wanted: JsonFormat) -> str:
    written = None if wanted.schema is None else dump_json(wanted.schema)
    return OBJECT_RULE if written is None else f"{SCHEMA_RULE}\n\n{written}"


def build_history(request: TurnRequest, transport: ToolTransport) -> tuple[Item, ...]:
    history = request.history
    settled: Iterable[HistoryItem] = (
        settle_history(history) if transport is ToolTransport.NATIVE else flatten_history(history)
    )
    return tuple(build_item(item) for item in settled if is_told(item))


def is_told(item: HistoryItem) -> bool:
    """Whether an item says anything: codex takes no empty message, and no model reads a bare summary."""
    match item:
        case Message(_, parts):
            return bool(parts)
        case PastReasoning(encrypted):
            return encrypted is not None
        case _:
            return True


def build_item(item: HistoryItem) -> Item:
    match item:
        case Message():
            return build_message(item)
        case PastCall(call_id, name, arguments):
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case PastOutput(call_id, parts):
            return {"type": "function_call_output", "call_id": call_id, "output": build_output(parts)}
        case PastReasoning(encrypted, summary):
            parts_told = [{"type": "summary_text", "text": text} for text in summary]
            return {"type": "reasoning", "summary": parts_told, "encrypted_content": encrypted}
        case _:
            assert_never(item)


def build_message(message: Message) -> Item:
    return {
        "type": "message",
        "role": message.role.value,
        "content": [build_part(part, message.role) for part in message.parts],
    }


def build_instruction(text: str) -> Item:
    return build_message(Message(Role.DEVELOPER, (TextPart(text),)))


def build_output(parts: tuple[Part, ...]) -> str | list[Item]:
    match parts:
        case ():
            return ""
        case (TextPart(text),):
            return text
        case _:
            return [build_part(part, Role.USER) for part in parts]


def build_part(part: Part, role: Role) -> Item:
    match part:
        case TextPart(text):
            return {"type": "output_text" if role is Role.ASSISTANT else "input_text", "text": text}
        case ImagePart(data_url):
            return {"type": "input_image", "image_url": data_url}
        case _:
            assert_never(part)
