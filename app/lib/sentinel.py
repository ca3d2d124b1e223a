"""Judges a tool call: the block of text that spells it, its name, its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.lib.json_text import dump_written, escape_surrogates, parse_json, parse_written, repair_json
from app.lib.schema_check.budget import to_budget
from app.lib.schema_check.effort import Clock
from app.lib.tool_calls import TextCall
from app.lib.tool_registry import ToolRegistry, ToolSpec
from app.lib.tool_validation import Mismatch, MismatchKind, clip, find_mismatch

OPENER = "<tool_call>"
CLOSER = "</tool_call>"
MAX_NAME_CHARS = 256  # as long as a declared one can be


class ProblemKind(Enum):
    #: No JSON, or not the JSON of a call.
    UNREADABLE = "unreadable"
    UNKNOWN_TOOL = "unknown_tool"
    #: Declared, but `tool_choice` does not let it be called.
    NOT_ALLOWED = "not_allowed"
    MISMATCH = "mismatch"
    UNUSABLE_SCHEMA = "unusable_schema"
    TOO_COSTLY = "too_costly"


@dataclass(frozen=True, slots=True)
class ToolCallProblem:
    kind: ProblemKind
    #: Quotes the call: for the client and the model, not for a log.
    message: str
    #: The tool's name, if it could be read; a longer one than any declared is cut.
    name: str | None
    #: Whether the turn has to fail (D5); otherwise the call goes out all the same, or its block stays text.
    fatal: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    call: TextCall | None
    problem: ToolCallProblem | None = None
    #: Whether the call is not word for word what the model wrote.
    repaired: bool = False


KINDS = {
    MismatchKind.ARGUMENTS: ProblemKind.MISMATCH,
    MismatchKind.UNUSABLE_SCHEMA: ProblemKind.UNUSABLE_SCHEMA,
    MismatchKind.TOO_COSTLY: ProblemKind.TOO_COSTLY,
}


@dataclass(frozen=True, slots=True)
class Spelling:
    """A call as the model wrote it."""

    name: str
    #: Whatever stands there; text if the model kept to the format.
    arguments: Any
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    text: str
    value: Any
    repaired: bool = False


def judge_block(block: str, registry: ToolRegistry, clock: Clock) -> Verdict:
    """Read one complete `<tool_call>…</tool_call>` and judge the call it spells."""
    spelling = read_block(block)
    if spelling is None:
        message = "A `<tool_call>` block does not hold a JSON object with `name` and `arguments`."
        problem = ToolCallProblem(ProblemKind.UNREADABLE, message, None, registry.any_strict)
        return Verdict(None, problem)
    return judge_spelling(spelling, registry, clock)


def judge_call(name: str, arguments: str, registry: ToolRegistry, clock: Clock) -> Verdict:
    """Judge a call that came as one, not as text."""
    return judge_spelling(Spelling(name, arguments), registry, clock)


def judge_spelling(spelling: Spelling, registry: ToolRegistry, clock: Clock) -> Verdict:
    name = spelling.name
    spec = registry.get(name)
    if spec is None:
        # It may have been meant for a strict tool.
        return refuse(name, ProblemKind.UNKNOWN_TOOL, "no such tool is declared", registry.any_strict)
    if not registry.allows(name):
        return refuse(name, ProblemKind.NOT_ALLOWED, "`tool_choice` does not allow it", False)
    arguments = read_exactly(spelling) if spec.strict else read_kindly(spelling)
    if arguments is None:
        reason = "its block is no JSON" if spelling.repaired else "its arguments are no JSON text"
        return refuse(name, ProblemKind.UNREADABLE, reason, bool(spec.strict))
    return judge_arguments(arguments, spec, clock)


def judge_arguments(arguments: Arguments, spec: ToolSpec, clock: Clock) -> Verdict:
    call = TextCall(spec.name, escape_surrogates(arguments.text))
    mismatch = find_misfit(arguments.value, spec, clock)
    if mismatch is None:
        return Verdict(call, None, arguments.repaired)
    refusal = refuse(spec.name, KINDS[mismatch.kind], mismatch.message, bool(spec.strict))
    return refusal if spec.strict else Verdict(call, refusal.problem, arguments.repaired)


def find_misfit(value: Any, spec: ToolSpec, clock: Clock) -> Mismatch | None:
    if not isinstance(value, dict):
        return Mismatch(MismatchKind.ARGUMENTS, "arguments: they are not an object")
    if not spec.strict and to_budget(clock).is_spent:  # it goes out in any case
        return None
    return find_mismatch(spec.parameters, value, clock)


def read_block(block: str) -> Spelling | None:
    text = block.removeprefix(OPENER).removesuffix(CLOSER)
    exact = parse_written(text)
    parsed = exact or parse_written(repair_json(text) or "")
    match parsed and parsed.value:
        # Arguments under another key must not get lost.
        case {"name": str(name), **rest} if name and ("arguments" in rest or not rest):
            return Spelling(name, rest.get("arguments"), repaired=exact is None)
        case _:
            return None


def read_exactly(spelling: Spelling) -> Arguments | None:
    text = spelling.arguments
    parsed = parse_json(text) if isinstance(text, str) and not spelling.repaired else None
    return Arguments(text, parsed.value) if parsed else None


def read_kindly(spelling: Spelling) -> Arguments | None:
    """The arguments after one attempt to repair what is no JSON text (D5a)."""
    match spelling.arguments:
        case None:
            return Arguments("{}", {}, repaired=True)
        case str(text) if not text.strip():
            return Arguments("{}", {}, repaired=True)
        case str(text):
            return read_text(text, spelling.repaired)
        case value:
            return write_value(value)


def read_text(text: str, repaired: bool) -> Arguments | None:
    if exact := parse_json(text):
        return Arguments(text, exact.value, repaired)
    mended = repair_json(text) or ""
    parsed = parse_json(mended)
    return Arguments(mended, parsed.value, repaired=True) if parsed else None


def write_value(value: Any) -> Arguments | None:
    text = dump_written(value)
    return None if text is None else Arguments(text, value, repaired=True)


def refuse(name: str, kind: ProblemKind, reason: str, fatal: bool) -> Verdict:
    shown = escape_surrogates(clip(name, MAX_NAME_CHARS))
    return Verdict(None, ToolCallProblem(kind, f"Call of `{shown}`: {reason}.", shown, fatal))
