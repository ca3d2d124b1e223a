"""What the bodies of both dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.request import ToolTransport

Data = dict[str, Any]

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


class SparseSchema(ma.Schema):
    """Loads as any schema does, up to the first fault; but most fields are absent, and these cost nothing."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._absent = {name: field.load_default for name, field in self.load_fields.items()}

    def load(self, data: Any, **_: Any) -> Any:
        if not isinstance(data, dict):
            raise ma.ValidationError(self.error_messages["type"])
        given = dict(self._absent)
        for name, field in self.load_fields.items():
            if name in data or field.required:
                try:
                    given[name] = field.deserialize(data.get(name, ma.missing), name, data)
                except ma.ValidationError as error:
                    raise ma.ValidationError({name: error.messages}) from error
        return given


class BodySchema(SparseSchema):
    """A body of either dialect, whose lists are counted before they are read."""

    def __init__(self, rules: RequestRules) -> None:
        super().__init__()
        messages, tools = ("messages", "input", "instructions"), ("tools", "functions")
        self._most = dict.fromkeys(messages, rules.max_messages) | dict.fromkeys(tools, rules.max_tools)

    def load(self, data: Any, **_: Any) -> Any:
        self._count(data)
        return self.build(super().load(data), data)

    def build(self, data: Data, original: Data) -> Any:
        """What the body means, of its fields as they were read and as they came."""
        raise NotImplementedError

    def _count(self, data: Data) -> None:
        for name, most in self._most.items():
            items = data.get(name)
            if isinstance(items, list) and (len(items) > most or count_items(items) > most):
                rule = f"Must not have more than {most:,} items, the parts of each counted."
                raise ma.ValidationError({name: [rule]})


def count_items(items: list[Any]) -> int:
    """How many there are, with what messages are made of."""
    lists = (item.get(name) for item in items if isinstance(item, dict) for name in PARTS)
    return len(items) + sum(len(parts) for parts in lists if isinstance(parts, list))


class ReasoningSchema(SparseSchema):
    effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    summary = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(SUMMARIES))
