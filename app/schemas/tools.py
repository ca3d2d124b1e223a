"""The tools of a request, in either dialect's shape, and which of them it wants called."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import marshmallow as ma
from marshmallow import fields

from app.lib.schema_check.budget import CheckBudget
from app.lib.sentinel import MAX_NAME_CHARS
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec
from app.lib.tool_validation import MismatchKind, find_mismatch

Path = tuple[int | str, ...]

# Wider than OpenAI's own rule: clients of MCP servers send dots, slashes and colons.
NAME = re.compile(rf"[\w.:/@-]{{1,{MAX_NAME_CHARS}}}")
NAME_RULE = f"Must be 1 to {MAX_NAME_CHARS} letters, digits or any of _ . : / @ -."
# Codex leaves a line nested deeper than 127 without any reply; what is put around a schema needs some too.
MAX_SCHEMA_LEVELS = 100
MAX_SCHEMA_VALUES = 20_000
CONTAINERS = (dict, list)
DEPTH_RULE = f"Must not be nested deeper than {MAX_SCHEMA_LEVELS} levels."
SIZE_RULE = f"Must not hold more than {MAX_SCHEMA_VALUES} values."
# A schema seen first takes about 2 ms; those that are left over are judged with the first call of their tool.
USABLE_S = 0.02
#: What else a tool may say: the types it may have, and how to say so.
FIELDS: dict[str, tuple[type, str]] = {
    "description": (str, "Must be a string or null."),
    "parameters": (dict, "Must be a JSON schema object or null."),
    "strict": (bool, "Must be true, false or null."),
}
MODES = {"none": ChoiceMode.NONE, "auto": ChoiceMode.AUTO, "required": ChoiceMode.REQUIRED}
ALLOWED_MODES = ("auto", "required")
CHOICE_RULE = "Must be none, auto, required, or an object that names a function or allowed_tools."
CALL_RULE = "Must be none, auto, or an object with the name of a function."


@dataclass(frozen=True, slots=True)
class WebSearch:
    """The one hosted tool there is: codex's own."""

    kind: str


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    #: In the order of the request.
    tools: tuple[ToolSpec | WebSearch, ...] = ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool for tool in self.tools if isinstance(tool, ToolSpec))

    @property
    def web_search(self) -> bool:
        return any(isinstance(tool, WebSearch) for tool in self.tools)


class ReadBy(fields.Field[Any]):
    """A field one function reads, which raises `ValidationError` keyed by the place of what is wrong."""

    def __init__(self, read: Callable[[Any], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._read = read

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> Any:
        return self._read(value)


def read_tools(value: Any) -> tuple[ToolSpec, ...]:
    """`tools`: the flat shape of Responses, the nested one of chat, or a mixture (D4).

    Read anew for each request: a hundred take half a millisecond.
    """
    return read_numbered([*enumerate(read_list(value))])


def read_declared(value: Any) -> DeclaredTools:
    """`tools` of a dialect that knows codex's own web search."""
    tools = read_list(value)
    specs = iter(read_numbered([(index, raw) for index, raw in enumerate(tools) if not is_web_search(raw)]))
    return DeclaredTools(
        tuple(WebSearch(raw["type"]) if is_web_search(raw) else next(specs) for raw in tools)
    )


def read_numbered(tools: list[tuple[int, Any]]) -> tuple[ToolSpec, ...]:
    """Functions with their places in the request."""
    specs = tuple(read_tool(raw, index) for index, raw in tools)
    validate_usable(specs, tools)
    return specs


def read_functions(value: Any) -> tuple[ToolSpec, ...]:
    """Chat's `functions`, from before there were `tools`."""
    return tuple(read_spec(read_object(raw, index), index) for index, raw in enumerate(read_list(value)))


def read_tool(raw: Any, index: int) -> ToolSpec:
    tool = read_object(raw, index)
    require_function(tool, index)
    if tool.get("function") is None:
        return read_spec(tool, index)
    nested = read_object(tool["function"], index, "function")
    # What a client says beside `function` counts first.
    beside = {key: tool[key] for key in ("name", *FIELDS) if tool.get(key) is not None}
    return read_spec(nested | beside, index, "function")


def read_spec(raw: dict[str, Any], *path: int | str) -> ToolSpec:
    name = read_name(raw, *path)
    for key, (kind, rule) in FIELDS.items():
        if raw.get(key) is not None and not isinstance(raw[key], kind):
            raise complain(rule, *path, key)
    validate_extent(raw.get("parameters"), *path, "parameters")
    return ToolSpec(name, raw.get("description"), raw.get("parameters"), raw.get("strict"))


def read_tool_choice(value: Any) -> ToolChoice:
    """`tool_choice` of both dialects."""
    match value:
        case str() if value in MODES:
            return ToolChoice(MODES[value])
        case {"type": "allowed_tools"}:
            return read_allowed_tools(value)
        case {"type": _} if is_web_search(value):
            return ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset(), names_search=True)
        case {"type": _}:
            return ToolChoice(ChoiceMode.NAMED, read_reference(value))
        case _:
            raise complain(CHOICE_RULE)


def read_function_call(value: Any) -> ToolChoice:
    """Chat's `function_call`, the choice that goes with `functions`."""
    match value:
        case "none" | "auto":
            return ToolChoice(MODES[value])
        case dict():
            return ToolChoice(ChoiceMode.NAMED, read_name(value))
        case _:
            raise complain(CALL_RULE)


def read_allowed_tools(value: dict[str, Any]) -> ToolChoice:
    nested = value.get("allowed_tools")
    path: Path = () if nested is None else ("allowed_tools",)
    allowed = value if nested is None else read_object(nested, *path)
    if allowed.get("mode") not in ALLOWED_MODES:
        raise complain(f"Must be one of: {', '.join(ALLOWED_MODES)}.", *path, "mode")
    tools = read_list(allowed.get("tools"), *path, "tools")
    if not tools:
        raise complain("Must not be empty.", *path, "tools")
    functions = [(index, raw) for index, raw in enumerate(tools) if not is_web_search(raw)]
    names = (read_reference(raw, *path, "tools", index) for index, raw in functions)
    return ToolChoice(
        MODES[allowed["mode"]], allowed=frozenset(names), names_search=len(functions) < len(tools)
    )


def read_reference(raw: Any, *path: int | str) -> str:
    """The name in a mention of a tool, flat or nested."""
    tool = read_object(raw, *path)
    require_function(tool, *path)
    if tool.get("function") is None:
        return read_name(tool, *path)
    return read_name(read_object(tool["function"], *path, "function"), *path, "function")


def choose_tools(tools: DeclaredTools, choice: ToolChoice | None, param: str = "tool_choice") -> ToolRegistry:
    """The tools of a request and what it lets the model call of them."""
    if choice is not None:
        validate_choice(choice, tools, param)
    return ToolRegistry(tools.specs, choice)


def validate_choice(choice: ToolChoice, tools: DeclaredTools, param: str = "tool_choice") -> None:
    """A choice has to be one the declared tools leave."""
    names = {spec.name for spec in tools.specs}
    wanted = [choice.name] if choice.mode is ChoiceMode.NAMED else choice.allowed or ()
    unknown = next((name for name in wanted if name not in names), None)
    if unknown is not None:
        raise complain(f"`{unknown}` is not among the declared tools.", param)
    if choice.names_search and not tools.web_search:
        raise complain("A web search is not among the declared tools.", param)
    if choice.mode is ChoiceMode.REQUIRED and not names and not tools.web_search:
        raise complain("No tools are declared.", param)


def validate_usable(specs: tuple[ToolSpec, ...], tools: list[tuple[int, Any]]) -> None:
    """A strict tool's schema has to be one: no call could ever hold against another."""
    budget = CheckBudget(time.thread_time, USABLE_S)
    for spec, (index, raw) in zip(specs, tools, strict=True):
        found = find_mismatch(spec.parameters, {}, budget) if spec.strict else None
        if found and found.kind is MismatchKind.UNUSABLE_SCHEMA:
            nested = () if raw.get("function") is None else ("function",)
            raise complain(f"Cannot be used: {found.message}.", index, *nested, "parameters")


def validate_extent(schema: dict[str, Any] | None, *path: int | str) -> None:
    """A schema has limits to its depth and its size."""
    layer: list[dict[str, Any] | list[Any]] = [schema or {}]
    total = 0
    for _ in range(MAX_SCHEMA_LEVELS):
        total += sum(map(len, layer))
        if total > MAX_SCHEMA_VALUES:
            raise complain(SIZE_RULE, *path)
        children = (each.values() if isinstance(each, dict) else each for each in layer)
        layer = [child for each in children for child in each if isinstance(child, CONTAINERS)]
        if not layer:
            return
    raise complain(DEPTH_RULE, *path)


def require_function(tool: dict[str, Any], *path: int | str) -> None:
    kind = tool.get("type")
    if kind == "function":
        return
    other = f"; tools of type `{kind[:40]}` are not served here" if isinstance(kind, str) else ""
    raise complain(f"Must be function{other}.", *path, "type")


def is_web_search(tool: Any) -> bool:
    """Whether a tool is the one that codex can run by itself, in any of its spellings."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith("web_search")


def read_name(raw: dict[str, Any], *path: int | str) -> str:
    name = raw.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise complain(NAME_RULE, *path, "name")
    return name


def read_object(raw: Any, *path: int | str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise complain("Must be an object.", *path)
    return raw


def read_list(raw: Any, *path: int | str) -> list[Any]:
    if not isinstance(raw, list):
        raise complain("Must be a list.", *path)
    return raw


def complain(message: str, *path: int | str) -> ma.ValidationError:
    """An error at a place: `complain("No.", 3, "name")` is `{3: {"name": ["No."]}}`."""
    messages: Any = [message]
    for step in reversed(path):
        messages = {step: messages}
    return ma.ValidationError(messages)
