"""Holds a call's arguments against the client's own schema, at a cost that has a bound.

A check takes at most `MAX_STEPS` steps of up to 1.7 µs, `PATTERNS_S` for its patterns, and a few readings
of the arguments. A schema is first held against that of its draft: `MAX_SCHEMA_STEPS` of 0.3 µs, once.
With a `CheckBudget` for a clock all checks together end when that is spent.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from jsonschema.exceptions import UnknownType, best_match
from referencing.exceptions import Unresolvable

from app.lib.json_text import escape_surrogates
from app.lib.schema_check.budget import to_budget
from app.lib.schema_check.checker import Checker, build_checker, build_meta_checker, find_draft
from app.lib.schema_check.effort import (
    BASE_STEPS,
    MAX_STEPS,
    STEPS_PER_VALUE,
    BadPattern,
    Clock,
    Effort,
    OutOfTime,
    TooMuchWork,
    count_values,
)
from app.lib.schema_check.short_values import to_short

MAX_VALUES = 100_000
MAX_SCHEMA_CHARS = 128 * 1024
MAX_SCHEMA_VALUES = 50_000
MAX_SCHEMA_STEPS = 750_000
MAX_SCHEMAS = 128
MAX_WAYS = 3
MAX_STEP_CHARS = 40
MAX_PATH_CHARS = 200
MAX_MESSAGE_CHARS = 400
# What a schema that is none can make the library raise.
UNUSABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UnknownType)

T = TypeVar("T")


class MismatchKind(Enum):
    #: The arguments break the schema.
    ARGUMENTS = "arguments"
    #: The schema is none, or points to what is not in it; nothing is fetched.
    UNUSABLE_SCHEMA = "unusable_schema"
    #: It would take too long to tell.
    TOO_COSTLY = "too_costly"


@dataclass(frozen=True, slots=True)
class Mismatch:
    kind: MismatchKind
    #: Quotes the arguments: for the client and the model, not for a log.
    message: str


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema to prepare: the same one whoever pays for it."""

    text: str
    effort: Effort = field(compare=False)


TOO_COSTLY = Mismatch(MismatchKind.TOO_COSTLY, "arguments: holding them against the schema takes too long")
SCHEMA_TOO_LONG = Mismatch(MismatchKind.TOO_COSTLY, "schema: it is too long to check arguments against it")


def find_mismatch(schema: dict[str, Any] | None, value: Any, clock: Clock) -> Mismatch | None:
    """The first thing wrong with the arguments of a tool, or with checking them."""
    if schema is None:
        return None
    budget = to_budget(clock)
    if budget.is_spent:
        return TOO_COSTLY
    try:
        with budget.spend() as until_s:
            return check_arguments(schema, value, budget, until_s)
    # Found last, so never kept: how much stack or time is left differs from call to call.
    except (RecursionError, OutOfTime):
        return TOO_COSTLY


def check_arguments(schema: dict[str, Any], value: Any, clock: Clock, until_s: float) -> Mismatch | None:
    checker = attempt(lambda: find_checker(schema, Effort(MAX_SCHEMA_STEPS, clock, until_s)))
    if isinstance(checker, Mismatch):
        return checker
    return attempt(lambda: find_error(checker, value, clock, until_s))


def find_checker(schema: dict[str, Any], effort: Effort) -> Checker | Mismatch:
    # Counted before it is written, written before it is kept: neither may cost what its sender likes.
    if count_values(schema, MAX_SCHEMA_VALUES) >= MAX_SCHEMA_VALUES:
        return SCHEMA_TOO_LONG
    text = json.dumps(schema, sort_keys=True)
    return prepare_schema(SchemaText(text, effort)) if len(text) <= MAX_SCHEMA_CHARS else SCHEMA_TOO_LONG


@functools.lru_cache(maxsize=MAX_SCHEMAS)
def prepare_schema(schema: SchemaText) -> Checker | Mismatch:
    """A schema's checker, or why it has none; kept, since finding out takes milliseconds."""
    return attempt(lambda: build_valid_checker(to_short(json.loads(schema.text)), schema.effort))


def build_valid_checker(schema: Any, effort: Effort) -> Checker | Mismatch:
    return find_schema_error(schema, effort) or build_checker(schema)


def find_schema_error(schema: Any, effort: Effort) -> Mismatch | None:
    errors = build_meta_checker(find_draft(schema)).find_errors(schema, effort)
    return describe_first(errors, MismatchKind.UNUSABLE_SCHEMA, "schema")


def find_error(checker: Checker, value: Any, clock: Clock, until_s: float) -> Mismatch | None:
    count = count_values(value, MAX_VALUES)
    if count >= MAX_VALUES:
        return TOO_COSTLY
    effort = Effort(min(MAX_STEPS, BASE_STEPS + STEPS_PER_VALUE * count), clock, until_s)
    return describe_first(checker.find_errors(to_short(value), effort), MismatchKind.ARGUMENTS, "arguments")


def attempt(check: Callable[[], T]) -> T | Mismatch:
    """What a check says, or why it could not."""
    try:
        return check()
    except TooMuchWork:
        return TOO_COSTLY
    except BadPattern as error:
        detail = f"{str(error)!r} is no pattern that can be used here"
    except Unresolvable as error:
        detail = f"its reference to {getattr(error, 'anchor', error.ref)!r} leads nowhere; nothing is fetched"
    except UNUSABLE:
        detail = "it cannot be used"
    return build_mismatch(MismatchKind.UNUSABLE_SCHEMA, "schema", detail)


def describe_first(errors: Iterable[Any], kind: MismatchKind, root: str) -> Mismatch | None:
    first = next(iter(errors), None)
    if first is None:
        return None
    best = best_match([first]) or first  # of the ways an `anyOf` failed, the one that came closest
    ways = "; ".join(each.message for each in best.context[:MAX_WAYS])
    message = f"{best.message} ({ways})" if ways else best.message
    return build_mismatch(kind, build_path(root, best.absolute_path), message)


def build_mismatch(kind: MismatchKind, path: str, message: str) -> Mismatch:
    return Mismatch(kind, escape_surrogates(f"{path}: {clip(message, MAX_MESSAGE_CHARS)}"))


def build_path(root: str, steps: Iterable[str | int]) -> str:
    """`arguments.items[3].qty`"""
    return clip(root + "".join(map(build_path_step, steps)), MAX_PATH_CHARS)


def build_path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = clip(step, MAX_STEP_CHARS)
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"


def clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
