"""The prompt's side of `<tool_call>` blocks: the tools told to the model, and past calls as text."""

from __future__ import annotations

from typing import Any

from app.lib.json_text import dump_json
from app.lib.tool_registry import ToolRegistry, ToolSpec

FORMAT = """\
You can call tools of the client. To call one, write a block of exactly this form:

<tool_call>{"name":"tool_name","arguments":"{\\"key\\":\\"value\\"}"}</tool_call>

- `name` is one of the names below; `arguments` is a string that holds a JSON object, its quotes escaped.
- Put no Markdown fence around a block. All text outside of blocks is shown to the user.
- Call tools in this way only. Never write the result of a call yourself: end your answer after the last \
block; results follow as `[function_call_output call_id=… output=…]`."""
FORBIDDEN = "Do not call tools in this answer. Never emit `<tool_call>`."
STRICT = "- Where a tool says `strict`, its arguments MUST conform exactly to its parameters."
ONE_CALL = "- Write at most one block."
MANY_CALLS = "- Several calls that do not need each other's results may stand as blocks in a row."


def build_manifest(registry: ToolRegistry, parallel: bool = True) -> str:
    """What the model is told of the tools it may call; nothing where none are declared.

    A turn that has to call one is told otherwise: see `forced_call`.
    """
    if not registry:
        return ""
    if not registry.callable:
        return FORBIDDEN
    strict = [STRICT] if any(spec.strict for spec in registry.callable) else []
    rules = [FORMAT, *strict, MANY_CALLS if parallel else ONE_CALL]
    # A schema nested deeper than the stack cannot be written; nor could any model fill it in.
    tools = filter(None, (dump_json(build_tool(spec)) for spec in registry.callable))
    return "\n".join([*rules, "", "Tools:", *tools])


def build_tool(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description else {}
    parameters = {"type": "object", "properties": {}} if spec.parameters is None else spec.parameters
    strict = {"strict": True} if spec.strict else {}
    return {"name": spec.name, **described, "parameters": parameters, **strict}


def flatten_call(call_id: str, name: str, arguments: str, item_id: str | None = None) -> str:
    """A past call as text; clients that know no item id get the call's own (D1)."""
    head = f"id={item_id or call_id} call_id={call_id} name={name}"
    return f"[function_call {head} arguments={arguments or '{}'}]"


def flatten_output(call_id: str, output: str) -> str:
    return f"[function_call_output call_id={call_id} output={output}]"
