"""What a response object repeats of its request."""

from __future__ import annotations

from typing import Any, assert_never

from app.lib.prompt import Item, build_item
from app.lib.request import HistoryItem, TurnRequest
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolSpec
from app.schemas.tools import DeclaredTools, WebSearch

#: Said of every request as it came, or as it is where the client left it out.
DEFAULTS: dict[str, Any] = {
    "previous_response_id": None,
    "instructions": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
#: What clients send of any kind at all must not make the response one that they cannot read.
NUMBERS: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
KINDS: dict[str, type] = {
    "max_tool_calls": int,
    "safety_identifier": str,
    "prompt_cache_key": str,
    "service_tier": str,
}
#: Known to codex alone.
OWN_EFFORTS = ("ultra",)
#: The ones that an answer may be of; `auto` is none.
TIERS = ("default", "flex", "scale", "priority")


def build_echo(
    original: dict[str, Any],
    turn: TurnRequest,
    tools: DeclaredTools,
    instructions: tuple[HistoryItem, ...],
) -> dict[str, Any]:
    given = {name: pick(original, name, default) for name, default in DEFAULTS.items()}
    reasoning, text = original.get("reasoning") or {}, original.get("text") or {}
    return given | {
        "instructions": build_instructions(given["instructions"], instructions),
        "service_tier": given["service_tier"] if given["service_tier"] in TIERS else "default",
        "tools": [build_tool(tool) for tool in tools.tools],
        "tool_choice": build_choice(turn.tools.choice),
        "parallel_tool_calls": turn.parallel,
        "reasoning": {
            "effort": None if turn.effort in OWN_EFFORTS else turn.effort,
            "summary": find_summary(reasoning),
        },
        "text": {"format": build_format(text.get("format"))} | pick_verbosity(text),
    }


def build_instructions(given: Any, items: tuple[HistoryItem, ...]) -> str | list[Item] | None:
    """Built anew where they are items: a client's own may hold anything, at any depth."""
    return given if isinstance(given, str | None) else [build_item(item) for item in items]


def pick(original: dict[str, Any], name: str, default: Any) -> Any:
    value = original.get(name)
    return default if value is None or not is_fit(name, value) else value


def is_fit(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name in ("store", "background")
    if name in NUMBERS:
        lowest, highest = NUMBERS[name]
        return isinstance(value, int | float) and lowest <= value <= highest
    return isinstance(value, KINDS.get(name, object))


def find_summary(reasoning: dict[str, Any]) -> str | None:
    asked = reasoning.get("summary") or reasoning.get("generate_summary")
    return None if asked == "none" else asked


def pick_verbosity(text: dict[str, Any]) -> dict[str, Any]:
    verbosity = text.get("verbosity")
    return {"verbosity": verbosity} if verbosity in ("low", "medium", "high") else {}


def build_format(raw: dict[str, Any] | None) -> dict[str, Any]:
    if raw is None or raw["type"] != "json_schema":
        return {"type": "text" if raw is None else raw["type"]}
    told = {
        "type": "json_schema",
        "name": raw.get("name") or "answer",
        "schema": raw.get("schema") or {},
        "strict": raw.get("strict"),
    }
    # Where a tool's may be null, a format's description may only be missing.
    return told if raw.get("description") is None else told | {"description": raw["description"]}


def build_tool(tool: ToolSpec | WebSearch) -> dict[str, Any]:
    """A tool in the flat shape, whichever it came in."""
    match tool:
        case WebSearch(kind):
            return {"type": kind}
        case ToolSpec(name, description, parameters, strict):
            about = {"description": description, "parameters": parameters, "strict": strict}
            return {"type": "function", "name": name, **about}
        case _:
            assert_never(tool)


def build_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode is ChoiceMode.NAMED:
        return {"type": "function", "name": choice.name}
    if choice.allowed is None:
        return str(choice.mode.value)
    functions = [{"type": "function", "name": name} for name in sorted(choice.allowed)]
    search = [{"type": "web_search"}] if choice.names_search else []
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": [*functions, *search]}
