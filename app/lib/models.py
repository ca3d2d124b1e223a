"""Model ids: what is on offer, and what a client's spelling of one means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.lib.errors import UnknownModel

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
SPEC = re.compile(r"([^\s=]+)(?:=([^\s=:]+)(?::(\w*))?)?")


@dataclass(frozen=True, slots=True)
class Model:
    """A model as clients name it, and what codex runs for it."""

    id: str
    target: str
    owned_by: str
    effort: str | None = None


def parse_model(spec: str) -> Model:
    """Read an operator's `id`, `alias=target` or `alias=target:effort`."""
    found = SPEC.fullmatch(spec)
    if not found or (found[3] and found[3] not in EFFORTS):
        raise ValueError(spec)
    id_, target, effort = found.groups()
    return Model(id_, target or id_, "codex-gateway", effort or None)


def find_model(models: Iterable[Model], id_: str) -> Model:
    """The model an id means; any id may end in an effort (`gpt-5.5-low`)."""
    by_id = {model.id: model for model in models}
    if id_ in by_id:
        return by_id[id_]
    base, effort = split_effort(id_)
    if base in by_id:
        return replace(by_id[base], id=id_, effort=effort)
    raise UnknownModel(f"The model `{id_}` does not exist.", param="model")


def find_base(models: Iterable[Model], id_: str) -> str | None:
    """The id that is on offer where `id_` is asked for; `None` where it is no model's."""
    known = {model.id for model in models}
    return next((each for each in (id_, split_effort(id_)[0]) if each in known), None)


def split_effort(id_: str) -> tuple[str, str]:
    """An id and the effort it ends in; empty ones where it ends in none."""
    base, _, effort = id_.rpartition("-")
    return (base, effort) if effort in EFFORTS else ("", "")
