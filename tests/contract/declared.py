"""Two tools for a request to declare: `f` takes an integer `a`, `g` anything."""

PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
F = {"name": "f", "description": "Does f.", "parameters": PARAMETERS}
G = {"name": "g"}
TOOLS = [{"type": "function", "function": F}, {"type": "function", "function": G}]
STRICT = [{"type": "function", "function": F | {"strict": True}}, TOOLS[1]]
