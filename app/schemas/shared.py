"""What the bodies of both dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from app.lib.models import EFFORTS
from app.lib.request import ToolTransport

SUMMARIES = ("auto", "concise", "detailed", "none")


@dataclass(frozen=True, slots=True)
class RequestRules:
    """What the operator leaves to a client."""

    enforces_max_tokens: bool = True
    #: Whether one answer may hold several calls; `None`: the request says.
    parallel: bool | None = None
    transport: ToolTransport = ToolTransport.NATIVE

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


class ReasoningSchema(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    effort = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(EFFORTS))
    summary = fields.String(load_default=None, allow_none=True, validate=validate.OneOf(SUMMARIES))
