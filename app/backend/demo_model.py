"""What the demo model says: a Responses request in, the scripted reply out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.backend.demo_arguments import STOP_WORDS, build_arguments, split_words, to_run

_THINKING_WORDS = frozenset({"think", "thinking", "reason", "reasoning", "why"})
_EXACT = re.compile(
    r"\s*(?:please\s+)?(?:say\s+exactly|repeat(?:\s+(?:after\s+me|exactly|this))?)\s*:\s*(.+)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; the arguments are JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One response: an optional thought, then either words or calls."""

    thought: str
    #: Whether the thought is told, as its own summary.
    is_thought_told: bool
    text: str
    calls: tuple[Call, ...]
    input_tokens: int


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    description: str
    schema: Any


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A request's body, read leniently: what has an odd shape is not there."""

    questions: tuple[str, ...]
    instructions: str
    results: tuple[str, ...]
    tools: tuple[_Tool, ...]
    answer_schema: Any
    effort: str

    @property
    def question(self) -> str:
        return self.questions[-1] if self.questions else ""


def decide(body: Mapping[str, Any]) -> Reply:
    """Choose the reply to a Responses request; any JSON object will do."""
    talk = _read_conversation(body)
    tools = _choose_tools(talk, body.get("tool_choice"))
    names = [tool.name for tool in tools]
    text = "" if tools else _compose_text(talk)
    hint = _strip_names(talk.question, names)
    calls = tuple(Call(tool.name, _to_json(build_arguments(tool.schema, hint))) for tool in tools)
    thought = _compose_thought(talk, names) if _should_think(talk) else ""
    is_told = bool(_as_dict(body.get("reasoning")).get("summary"))
    return Reply(thought, is_told, text, calls, estimate_tokens(_all_text(body)))


def estimate_tokens(text: str) -> int:
    """About four bytes a token; no text is no token."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def _read_conversation(body: Mapping[str, Any]) -> _Conversation:
    items = _read_items(body.get("input"))
    asked = [i for i, item in enumerate(items) if item.get("role") == "user"]
    orders = [
        _read_text(item.get("content")) for item in items if item.get("role") in ("developer", "system")
    ]
    answer_format = _as_dict(_as_dict(body.get("text")).get("format"))
    return _Conversation(
        questions=tuple(_read_text(items[i].get("content")) for i in asked),
        instructions=" ".join(filter(None, [_read_text(body.get("instructions")), *orders])),
        results=tuple(_read_results(items, asked[-1] if asked else 0)),
        tools=tuple(_read_tools(body.get("tools"))),
        answer_schema=answer_format.get("schema") if answer_format.get("type") == "json_schema" else None,
        effort=str(_as_dict(body.get("reasoning")).get("effort") or "none"),
    )


def _read_items(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return _dicts(value)


def _read_results(items: list[dict[str, Any]], start: int) -> Iterable[str]:
    names = {
        str(item.get("call_id")): item.get("name") for item in items if item.get("type") == "function_call"
    }
    for item in items[start:]:
        if item.get("type") == "function_call_output":
            name = names.get(str(item.get("call_id"))) or "The tool"
            yield f"{name} answered: “{_cut(_read_text(item.get('output')), 400)}”."


def _read_tools(value: Any) -> Iterable[_Tool]:
    for tool in _dicts(value):
        name = tool.get("name")
        if tool.get("type") == "function" and isinstance(name, str) and name:
            yield _Tool(name, _read_text(tool.get("description")), tool.get("parameters"))


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(part["text"] for part in _dicts(value) if isinstance(part.get("text"), str))


def _all_text(body: Mapping[str, Any]) -> str:
    items = _read_items(body.get("input"))
    keys = ("content", "output", "arguments", "summary")
    return "".join(
        [_read_text(body.get("instructions")), *(_read_text(i.get(k)) for i in items for k in keys)]
    )


def _choose_tools(talk: _Conversation, choice: Any) -> tuple[_Tool, ...]:
    if talk.results or choice == "none" or _EXACT.match(talk.question):
        return ()
    forced = tuple(tool for tool in talk.tools if tool.name == _as_dict(choice).get("name"))
    # A demanded JSON answer outweighs a tool that merely fits.
    guess = talk.answer_schema is None or choice == "required"
    return forced or _named_tools(talk) or (_fitting_tool(talk, choice == "required") if guess else ())


def _named_tools(talk: _Conversation) -> tuple[_Tool, ...]:
    """The tools the question names; a longer name uses up its words, so `get` is not in `get_time`."""
    left, found = to_run(talk.question), set()
    for tool in sorted(talk.tools, key=lambda tool: -len(tool.name)):
        words = split_words(tool.name)
        runs = (
            [] if not words or tool.name.lower() in STOP_WORDS else [to_run(tool.name), f" {''.join(words)} "]
        )
        for run in runs:
            if run in left:
                found.add(tool.name)
                left = left.replace(run, " | ")
    return tuple(tool for tool in talk.tools if tool.name in found)


def _fitting_tool(talk: _Conversation, required: bool) -> tuple[_Tool, ...]:
    asked = _key_words(talk.question)

    def rate(tool: _Tool) -> tuple[int, int]:
        hints = f"{tool.description} {' '.join(_as_dict(_as_dict(tool.schema).get('properties')))}"
        strong, weak = len(asked & _key_words(tool.name)), len(asked & _key_words(hints))
        return (strong, weak) if strong or weak > 1 else (0, 0)

    best = max(talk.tools, key=rate, default=None)
    return (best,) if best and (required or rate(best) > (0, 0)) else ()


def _strip_names(text: str, names: list[str]) -> str:
    """The text without the tools' names, which are no argument."""
    any_name = "|".join(map(re.escape, names))
    return re.sub(rf"\b(?:{any_name})\b", "", text, flags=re.IGNORECASE) if names else text


def _should_think(talk: _Conversation) -> bool:
    asked = talk.question.lower()
    return (
        talk.effort not in ("none", "minimal")
        or "step by step" in asked
        or not _THINKING_WORDS.isdisjoint(split_words(asked))
    )


def _compose_thought(talk: _Conversation, names: list[str]) -> str:
    plan = f"call {' and '.join(names)}" if names else "answer in words"
    if talk.results and not names:
        plan = "put what the tool answered into words"
    return f"The question is “{_cut(talk.question, 80)}”. I will {plan}."


def _compose_text(talk: _Conversation) -> str:
    facts = " ".join(talk.results)
    if talk.answer_schema is not None:
        return _to_json(build_arguments(talk.answer_schema, f"{talk.question} {facts}"))
    if facts:
        return f"{facts} That is what I, the scripted demo model, was told by your tool."
    exact = _EXACT.match(talk.question)
    return exact.group(1) if exact else _compose_greeting(talk)


def _compose_greeting(talk: _Conversation) -> str:
    said = f"you said “{_cut(talk.question, 200)}”" if talk.question else "you said nothing yet"
    text = f"Hello from the gateway's scripted demo model, through the real Codex binary: {said}."
    if before := talk.questions[:-1]:
        turns = (
            "1 earlier turn, which"
            if len(before) == 1
            else f"{len(before)} earlier turns, the first of which"
        )
        text += f" I remember {turns} was “{_cut(before[0], 80)}”."
    if talk.instructions:
        text += f" I was also given instructions: “{_cut(talk.instructions, 80)}”."
    return text


def _key_words(text: str) -> set[str]:
    # A plural asks for the same tool as its singular.
    return {
        word.removesuffix("s") if len(word) > 3 else word
        for word in split_words(text)
        if word not in STOP_WORDS
    }


def _cut(text: str, max_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
