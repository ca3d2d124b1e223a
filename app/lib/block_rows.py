"""Spellings of calls in text, a row each: what opens a block, what ends it, how it is read."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.lib import sentinel, use_tool
from app.lib.block_lead import BLOCK, TOOL_CALL_STEPS, USE_TOOL_STEPS, Lead
from app.lib.schema_check.effort import Clock, stand_still
from app.lib.sentinel import ProblemKind, ToolCallProblem, judge_block, judge_call
from app.lib.tool_calls import ParsedTextBlock, TextCall
from app.lib.tool_registry import NO_TOOLS, ToolRegistry

#: The row of the gateway's own manifest.
TOOL_CALL = "tool_call"
UNKNOWN = "A `<use_tool>` block names a tool that is not to be called."
XML_SPACE = " \t\r\n"
# Arguments of several megabytes are within what a call may carry by the other transport.
TOOL_CALL_MAX_CHARS = 16 * 1024 * 1024
USE_TOOL_LEAD = Lead(USE_TOOL_STEPS)
TOOL_CALL_LEAD = Lead(TOOL_CALL_STEPS)
#: The same where also a block that is none has to be read to its end.
ANY_TOOL_CALL_LEAD = Lead(TOOL_CALL_STEPS, otherwise=BLOCK)
# What may end a block whose pattern does not say: brackets, and the line.
ANY_CLOSER = (")", "]", "}", ">", "\n")


@dataclass(frozen=True, slots=True)
class Reading:
    """A call in a held text, at `text[start:end]`."""

    start: int
    end: int
    call: TextCall
    #: What is wrong with it, though not enough to refuse it.
    problem: ToolCallProblem | None = None
    repaired: bool = False


#: What a row makes of a held text: a call, a problem with it, or nothing.
Outcome = Reading | ToolCallProblem | None


@dataclass(frozen=True, slots=True)
class BlockRow:
    name: str
    opener: str
    closers: tuple[str, ...]
    #: Reads the text from its opener to one of its closers; `None` if that is no block, or not yet.
    read: Callable[[str], Outcome]
    #: One of these must follow the opener; empty: anything may.
    follow: str = ""
    #: Whether the first closer ends the block for good or ill, or just may.
    is_decided_at_once: bool = True
    #: What has to follow the opener; only where the first closer decides.
    lead: Lead | None = None
    #: The most that is held of such a block; `None`: what the gate holds of any.
    max_chars: int | None = None


class RowSet:
    """The rows a gate knows, compiled."""

    def __init__(self, rows: Iterable[BlockRow]) -> None:
        self.rows = {f"row{number}": row for number, row in enumerate(rows)}
        refuse_twins(row.opener for row in self.rows.values())
        openers = [f"(?P<{group}>{build_opener_pattern(row)})" for group, row in self.rows.items()]
        beginnings = "|".join(filter(None, map(build_beginning_pattern, self.rows.values()))) or "(?!)"
        #: Finds the first opener, or at the very end what could still become one.
        self.opener = re.compile("|".join([*openers, rf"(?P<beginning>(?:{beginnings})\Z)"]))
        #: Finds what matters inside a block: a closer, or an opener like its own.
        self.inner = {group: re.compile(build_inner_pattern(row)) for group, row in self.rows.items()}


def refuse_twins(openers: Iterable[str]) -> None:
    """Where an opener begins another, how the stream is cut would decide which of them it is."""
    for shorter, longer in itertools.pairwise(sorted(openers)):
        if longer.startswith(shorter):
            raise ValueError(f"the openers {shorter!r} and {longer!r} cannot be told apart")


def build_opener_pattern(row: BlockRow) -> str:
    return re.escape(row.opener) + (f"[{re.escape(row.follow)}]" if row.follow else "")


def build_beginning_pattern(row: BlockRow) -> str:
    """Every beginning of the opener that is not yet all of it, nested: `a(?:b(?:c)?)?`."""
    letters = row.opener if row.follow else row.opener[:-1]
    return functools.reduce(lambda rest, letter: f"{re.escape(letter)}(?:{rest})?", letters[::-1], "")


def build_inner_pattern(row: BlockRow) -> str:
    closers = "|".join(re.escape(closer) for closer in row.closers)
    return f"(?P<closer>{closers})|(?P<opener>{build_opener_pattern(row)})"


def build_use_tool_row(
    names: Collection[str] | None = None,
    registry: ToolRegistry = NO_TOOLS,
    clock: Clock = stand_still,
) -> BlockRow:
    """`<use_tool>` blocks; with `names`, only those that call one of them.

    A call of a tool in the registry that is strict has to hold.
    """

    def read(block: str) -> Outcome:
        call = use_tool.parse_use_tool(block)
        if call is None:
            return None
        if names is not None and call.name not in names:
            return ToolCallProblem(ProblemKind.UNKNOWN_TOOL, UNKNOWN, None, fatal=False)
        return find_strict_problem(call) or Reading(0, len(block), call)

    def find_strict_problem(call: TextCall) -> ToolCallProblem | None:
        spec = registry.get(call.name)
        if spec is None or not spec.strict:
            return None
        return judge_call(call.name, call.arguments, registry, clock).problem

    return BlockRow(
        "use_tool", use_tool.OPENER, (use_tool.CLOSER,), read, follow=f"{XML_SPACE}>", lead=USE_TOOL_LEAD
    )


def build_tool_call_row(registry: ToolRegistry, clock: Clock, is_asked_for: bool = True) -> BlockRow:
    """`<tool_call>` blocks, judged by the tools a request declares.

    Where the model is not asked for them, one that names no declared tool is just text about such blocks.
    """

    def read(block: str) -> Outcome:
        verdict = judge_block(block, registry, clock)
        if verdict.call is None:
            return verdict.problem if is_asked_for or not verdict.problem else excuse(verdict.problem)
        return Reading(0, len(block), verdict.call, verdict.problem, verdict.repaired)

    # Asked for, what cannot be read may have been meant for a strict tool, and then has to fail.
    lead = ANY_TOOL_CALL_LEAD if is_asked_for and registry.any_strict else TOOL_CALL_LEAD
    closers = (sentinel.CLOSER,)
    return BlockRow(TOOL_CALL, sentinel.OPENER, closers, read, lead=lead, max_chars=TOOL_CALL_MAX_CHARS)


def excuse(problem: ToolCallProblem) -> ToolCallProblem:
    """A problem that is none of a declared tool fails nothing."""
    is_of_tool = problem.name is not None and problem.kind is not ProblemKind.UNKNOWN_TOOL
    return problem if is_of_tool else replace(problem, fatal=False)


#: A block, or the contract's keys for one: indexStart, indexEnd, name, argsText.
Match = ParsedTextBlock | Mapping[str, Any]
Matcher = Callable[[str], Iterable[Match]]


@dataclass(frozen=True, slots=True)
class TextPattern:
    """One more spelling of calls in text: the matcher finds the complete blocks of a text.

    With an opener, a stream is held back from there until a closer ends something the matcher knows;
    without one, only finished texts are matched.
    """

    name: str
    matcher: Matcher
    opener: str | None = None
    closer: str | None = None

    def __post_init__(self) -> None:
        if self.opener and self.closer and not is_apart(self.opener, self.closer):
            raise ValueError(f"{self.name}: its opener and its closer cannot be told apart")

    def match(self, text: str) -> list[ParsedTextBlock]:
        """The matcher's blocks, in order; what cannot be one is left out."""
        blocks = filter(None, (read_match(match, len(text)) for match in self.matcher(text) or ()))
        return sorted(blocks, key=lambda block: block.index_start)

    def to_row(self) -> BlockRow | None:
        if not self.opener:
            return None
        closers = [self.closer] if self.closer else ANY_CLOSER
        apart = tuple(closer for closer in closers if is_apart(self.opener, closer))
        return BlockRow(self.name, self.opener, apart, self._read, is_decided_at_once=False)

    def _read(self, text: str) -> Outcome:
        blocks = self.match(text)
        if not blocks:
            return None
        first = blocks[0]
        return Reading(first.index_start, first.index_end, TextCall(first.name, first.args_text))


def is_apart(opener: str, closer: str) -> bool:
    """Whether a stream, however it is cut, shows which of the two it is: the same one completes first."""
    return closer not in opener[1:-1] and opener not in closer


def read_match(match: object, length: int) -> ParsedTextBlock | None:
    """A match as a block, if it is one within a text of that length."""
    if isinstance(match, ParsedTextBlock):
        match = match.to_dict()
    match match:
        case {"indexStart": int(start), "indexEnd": int(end), "name": str(name), "argsText": str(arguments)}:
            is_block = bool(name) and 0 <= start < end <= length
            return ParsedTextBlock(start, end, name, arguments) if is_block else None
        case _:
            return None
