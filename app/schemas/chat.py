"""The body of a chat completion, read into a request."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.request import ImagePart, Message, Part, Role, TextPart, TurnRequest

# Accepted, since clients send them unasked, and named in `x-proxy-ignored-params`.
IGNORED = (
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
)
IMAGE_TYPES = ("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp")
ROLES = {
    "system": Role.DEVELOPER,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    turn: TurnRequest
    stream: bool
    include_usage: bool
    ignored: tuple[str, ...]

    @property
    def declares_tools(self) -> bool:
        """Whether the client expects calls of its own tools; what else looks like one is then text."""
        return "tools" in self.ignored or "functions" in self.ignored


class Messages(fields.Field[tuple[Message, ...]]):
    """The conversation; walked by hand, since a nested schema per message costs ten times as much."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> tuple[Message, ...]:
        if not isinstance(value, list) or not value:
            raise ma.ValidationError("Must be a non-empty list of messages.")
        messages = tuple(read_message(raw, index) for index, raw in enumerate(value))
        if not any(message.parts for message in messages):
            raise ma.ValidationError("Must say something.")
        return messages


def read_message(raw: Any, index: int) -> Message:
    if not isinstance(raw, dict):
        raise ma.ValidationError({index: ["Must be an object."]})
    role = ROLES.get(raw["role"]) if isinstance(raw.get("role"), str) else None
    if role is None:
        raise ma.ValidationError({index: {"role": [f"Must be one of: {', '.join(ROLES)}."]}})
    try:
        return Message(role, read_content(raw.get("content"), role))
    except ma.ValidationError as error:
        raise ma.ValidationError({index: {"content": error.messages}}) from error


def read_content(content: Any, role: Role) -> tuple[Part, ...]:
    match content:
        case str():
            return (TextPart(content),)
        case None if role is Role.ASSISTANT:
            return ()
        case list() if content:
            return tuple(read_part(part, index, role) for index, part in enumerate(content))
        case _:
            raise ma.ValidationError("Must be a string or a non-empty list of parts.")


def read_part(part: Any, index: int, role: Role) -> Part:
    kind = part.get("type") if isinstance(part, dict) else None
    allowed = PARTS[role]
    if not isinstance(kind, str) or kind not in allowed:
        raise ma.ValidationError({index: {"type": [f"Must be one of: {', '.join(allowed)}."]}})
    return allowed[kind](part, index)


def read_text_part(part: dict[str, Any], index: int) -> Part:
    key = part["type"]  # both kinds keep their words under their own name
    if not isinstance(part.get(key), str):
        raise ma.ValidationError({index: {key: ["Must be a string."]}})
    return TextPart(part[key])


def read_image_part(part: dict[str, Any], index: int) -> Part:
    match part.get("image_url"):
        case {"url": str(url)} | str(url) if is_image(url):
            return ImagePart(url)
        case _:
            message = "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched."
            raise ma.ValidationError({index: {"image_url": [message]}})


def is_image(url: str) -> bool:
    """Codex would put a remark of its own in the place of what it cannot decode."""
    head, _, data = url.partition(";base64,")
    if head not in IMAGE_TYPES or not data:
        return False
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return True


PartReader = Callable[[dict[str, Any], int], Part]
PARTS: dict[Role, dict[str, PartReader]] = {
    Role.DEVELOPER: {"text": read_text_part},
    Role.USER: {"text": read_text_part, "image_url": read_image_part},
    Role.ASSISTANT: {"text": read_text_part, "refusal": read_text_part},
}


class StrictBoolean(fields.Field[bool]):
    """Just true and false: a client that sends "no" or 0 means something it should be told about."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> bool:
        if not isinstance(value, bool):
            raise ma.ValidationError("Not a valid boolean.")
        return value


class ReasoningSchema(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))


class StreamOptionsSchema(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    include_usage = StrictBoolean(load_default=False, allow_none=True)


class ChatSchema(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    model = fields.String(required=True, validate=validate.Length(1, 256))
    messages = Messages(required=True)
    stream = StrictBoolean(load_default=False, allow_none=True)
    stream_options = fields.Nested(StreamOptionsSchema, load_default=dict, allow_none=True)
    n = fields.Integer(load_default=1, allow_none=True, strict=True)
    reasoning = fields.Nested(ReasoningSchema, load_default=dict, allow_none=True)
    reasoning_effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    logprobs = StrictBoolean(
        load_default=False,
        allow_none=True,
        validate=validate.NoneOf([True], error="Codex gives no log probabilities."),
    )

    def __init__(self, max_choices: int) -> None:
        super().__init__()
        self.fields["n"].validators = [validate.Range(1, max_choices)]

    @ma.post_load(pass_original=True)
    def build(self, data: dict[str, Any], original: dict[str, Any], **kwargs: Any) -> ChatRequest:
        effort = data["reasoning_effort"] or (data["reasoning"] or {}).get("effort")
        turn = TurnRequest(data["model"], data["messages"], effort, data["n"] or 1)
        return ChatRequest(
            turn=turn,
            stream=bool(data["stream"]),
            include_usage=bool((data["stream_options"] or {}).get("include_usage")),
            ignored=tuple(name for name in IGNORED if original.get(name) is not None),
        )
