"""A call that `tool_choice` demands: asked for as an answer in JSON, and read back as a call.

Codex lets the model choose always, so such a turn offers no tools: the answer itself is the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from app.lib.json_text import (
    Parsed,
    dump_json,
    dump_written,
    parse_json,
    parse_written,
    repair_json,
    strip_fence,
)
from app.lib.optional_nulls import drop_nulls
from app.lib.schema_check.budget import CheckBudget, to_budget
from app.lib.schema_check.effort import Clock, count_values
from app.lib.sentinel import ProblemKind, ToolCallProblem, judge_call
from app.lib.strict_schema import MAX_VALUES, to_strict
from app.lib.tool_calls import TextCall
from app.lib.tool_manifest import build_tool
from app.lib.tool_registry import ToolRegistry, ToolSpec

ONE_TOOL = """\
This answer is a call of the client's tool `{name}`. Write the JSON object of its arguments, and nothing else:

- The object conforms to the `parameters` below.
- Put no text before or after it, and no Markdown fence around it."""
SEVERAL_TOOLS = """\
This answer is a call of the client's tools. Write a JSON object of exactly this form, and nothing else:

{form}

- `name` is one of the names below; `arguments` is an object that conforms to the `parameters` of that tool.
- {count}
- Put no text before or after the object, and no Markdown fence around it."""
ONE_FORM = '{"call":{"name":"tool_name","arguments":{"key":"value"}}}'
MANY_FORM = '{"calls":[{"name":"tool_name","arguments":{"key":"value"}}]}'
ONE_CALL = "Call exactly one tool."
MANY_CALLS = (
    "Call at least one tool. Several calls that do not need each other's results may stand in the list."
)
NULLS = "- Where a property is not required, `null` leaves it out."


@dataclass(frozen=True, slots=True)
class ForcedCall:
    #: A developer message for the end of the prompt.
    instruction: str
    #: What the answer is held to; `None` where the model is only told.
    output_schema: dict[str, Any] | None


def build_forced(registry: ToolRegistry, parallel: bool) -> ForcedCall | None:
    """What a turn is given whose answer has to be a call; `None` where none is demanded."""
    if not registry.demands_call:
        return None
    specs = registry.callable
    schema = build_one_schema(specs[0]) if len(specs) == 1 else build_several_schema(specs, parallel)
    return ForcedCall(build_instruction(specs, parallel, held=schema is not None), schema)


def build_instruction(specs: tuple[ToolSpec, ...], parallel: bool, held: bool) -> str:
    form, count = (MANY_FORM, MANY_CALLS) if parallel else (ONE_FORM, ONE_CALL)
    one = len(specs) == 1
    rules = ONE_TOOL.format(name=specs[0].name) if one else SEVERAL_TOOLS.format(form=form, count=count)
    # The client's own schema: it asks for more than what the answer is held to.
    tools = filter(None, (dump_json(build_tool(spec)) for spec in specs))
    return "\n".join([rules, *([NULLS] if held else []), "", "Tool:" if one else "Tools:", *tools])


def build_one_schema(spec: ToolSpec) -> dict[str, Any] | None:
    return to_strict(spec.parameters or {})


def build_several_schema(specs: tuple[ToolSpec, ...], parallel: bool) -> dict[str, Any] | None:
    # Counted together, before each of many takes as long as a single one may.
    if count_values([spec.parameters for spec in specs], MAX_VALUES) >= MAX_VALUES:
        return None
    schemas = [build_one_schema(spec) for spec in specs]
    definitions: dict[str, Any] = {}
    ways = []
    for index, (spec, schema) in enumerate(zip(specs, schemas, strict=True)):
        if schema is None:
            return None
        name = {"type": "string", "enum": [spec.name]}
        ways.append(build_object(name=name, arguments=move_schema(schema, f"tool{index}", definitions)))
    call = {"anyOf": ways}
    root = (
        build_object(calls={"type": "array", "items": call, "minItems": 1})
        if parallel
        else build_object(call=call)
    )
    # Once more, since the whole has limits too.
    return to_strict(root | {"$defs": definitions})


def build_object(**properties: dict[str, Any]) -> dict[str, Any]:
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **closed}


def move_schema(schema: dict[str, Any], name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A strict schema for a place below another root; what refers to its own root moves to `definitions`."""
    moved = move_refs(schema, name)
    if moved == schema:
        return schema
    definitions.update({f"{name}_{key}": each for key, each in moved.pop("$defs", {}).items()})
    definitions[name] = moved
    return {"$ref": f"#/$defs/{name}"}


def move_refs(node: Any, name: str) -> Any:
    """A copy whose references lead to the definitions of that name."""
    match node:
        case {"$ref": str(ref)}:
            return {
                "$ref": f"#/$defs/{name}" if ref == "#" else ref.replace("#/$defs/", f"#/$defs/{name}_", 1)
            }
        case dict():
            return {key: move_refs(each, name) for key, each in node.items()}
        case list():
            return [move_refs(each, name) for each in node]
        case _:
            return node


def read_forced(
    text: str, registry: ToolRegistry, parallel: bool, clock: Clock
) -> tuple[TextCall, ...] | ToolCallProblem:
    """The calls that such an answer spells, or why it has to be asked for again."""
    answer = unwrap_answer(text, registry)
    specs = registry.callable
    budget = to_budget(clock)
    spelled = (
        spell_one(answer, specs[0], budget) if len(specs) == 1 else spell_several(answer, registry, budget)
    )
    if not spelled:
        return build_unreadable(specs, parallel)
    return judge_all(spelled if parallel else spelled[:1], registry, budget)


def judge_all(
    spelled: list[TextCall], registry: ToolRegistry, clock: Clock
) -> tuple[TextCall, ...] | ToolCallProblem:
    verdicts = [judge_call(call.name, call.arguments, registry, clock) for call in spelled]
    refused = [verdict.problem for verdict in verdicts if verdict.problem and verdict.call is None]
    if refused:
        return replace(refused[0], fatal=True)
    return tuple(verdict.call for verdict in verdicts if verdict.call)


def unwrap_answer(text: str, registry: ToolRegistry) -> str:
    """The answer without a fence, and mended where no tool is strict: nothing has held the model to JSON."""
    answer = strip_fence(text.strip())
    mended = None if registry.any_strict or parse_json(answer) else repair_json(answer)
    return mended or answer


def spell_one(answer: str, spec: ToolSpec, budget: CheckBudget) -> list[TextCall]:
    match parse_json(answer):
        case Parsed(dict()):
            return [TextCall(spec.name, write_arguments(answer, spec, budget))]
        case _:
            return []


def spell_several(answer: str, registry: ToolRegistry, budget: CheckBudget) -> list[TextCall]:
    """The calls in either form, or a call by itself; none of them where one cannot be read."""
    match parse_written(answer):
        case Parsed({"calls": list(entries)}):
            calls = [spell_entry(entry, registry, budget) for entry in entries]
        case Parsed({"call": entry}) | Parsed(entry):
            calls = [spell_entry(entry, registry, budget)]
        case _:
            return []
    return [call for call in calls if call] if all(calls) else []


def spell_entry(entry: Any, registry: ToolRegistry, budget: CheckBudget) -> TextCall | None:
    match entry:
        # Arguments under another key must not get lost.
        case {"name": str(name), **rest} if "arguments" in rest or not rest:
            return TextCall(name, write_arguments(rest.get("arguments"), registry.get(name), budget))
        case _:
            return None


def write_arguments(arguments: Any, spec: ToolSpec | None, budget: CheckBudget) -> str:
    """The arguments as text: verbatim where they are text without a null too many."""
    if not isinstance(arguments, str):
        return "" if arguments is None else dump_written(slim_down(arguments, spec, budget)) or ""
    parsed = parse_written(arguments)
    if parsed is None:
        return arguments
    slim = slim_down(parsed.value, spec, budget)
    return arguments if slim is parsed.value else dump_written(slim) or arguments


def slim_down(value: Any, spec: ToolSpec | None, budget: CheckBudget) -> Any:
    """The arguments without nulls that only stand for absence, while there is time to look for them."""
    if spec is None or budget.is_spent:
        return value
    with budget.spend():
        return drop_nulls(value, spec.parameters)


def build_unreadable(specs: tuple[ToolSpec, ...], parallel: bool) -> ToolCallProblem:
    one = specs[0].name if len(specs) == 1 else None
    form = MANY_FORM if parallel else ONE_FORM
    meant = f"the JSON object of the arguments of `{one}`" if one else f"a JSON object of the form {form}"
    message = f"The answer has to be {meant}, and nothing else."
    return ToolCallProblem(ProblemKind.UNREADABLE, message, one, fatal=True)
