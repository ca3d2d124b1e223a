"""What the bodies of both dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.request import ToolTransport

#: What of a message is a list of its own.
PARTS = ("content", "tool_calls", "output", "summary")
SUMMARIES = ("auto", "concise", "detailed", "none")


@dataclass(frozen=True, slots=True)
class RequestRules:
    """What the operator leaves to a client."""

    enforces_max_tokens: bool = True
    #: Whether one answer may hold several calls; `None`: the request says.
    parallel: bool | None = None
    transport: ToolTransport = ToolTransport.NATIVE
    #: How much of it one request may bring; reading holds up the worker.
    max_messages: int = 10_000
    max_tools: int = 1_000

    def choose_parallel(self, asked: bool | None) -> bool:
        return asked is not False if self.parallel is None else self.parallel


class StrictBoolean(fields.Field[bool]):
    """Just true and false: a client that sends "no" or 0 means something it should be told about."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> bool:
        if not isinstance(value, bool):
            raise ma.ValidationError("Not a valid boolean.")
        return value


class BodySchema(ma.Schema):
    """A body of either dialect, whose lists are counted before they are read."""

    def __init__(self, rules: RequestRules) -> None:
        super().__init__()
        messages, tools = ("messages", "input", "instructions"), ("tools", "functions")
        self._most = dict.fromkeys(messages, rules.max_messages) | dict.fromkeys(tools, rules.max_tools)

    @ma.pre_load
    def count(self, data: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        for name, most in self._most.items():
            items = data.get(name)
            if isinstance(items, list) and (len(items) > most or count_items(items) > most):
                rule = f"Must not have more than {most:,} items, the parts of each counted."
                raise ma.ValidationError({name: [rule]})
        return data


def count_items(items: list[Any]) -> int:
    """How many there are, with what messages are made of."""
    lists = (item.get(name) for item in items if isinstance(item, dict) for name in PARTS)
    return len(items) + sum(len(parts) for parts in lists if isinstance(parts, list))


class ReasoningSchema(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    summary = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(SUMMARIES))
