"""Tools and choices in every shape clients send."""

from __future__ import annotations

import time
from typing import Any

import marshmallow as ma
import pytest

from app.lib.errors import InvalidRequest
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolSpec
from app.schemas.loading import load_body
from app.schemas.tools import (
    CALL_RULE,
    CHOICE_RULE,
    DEPTH_RULE,
    MAX_SCHEMA_LEVELS,
    MAX_SCHEMA_VALUES,
    NAME_RULE,
    SIZE_RULE,
    DeclaredTools,
    ReadBy,
    WebSearch,
    read_declared,
    read_function_call,
    read_functions,
    read_tool_choice,
    read_tools,
    validate_choice,
)

PARAMETERS = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
FULL = {"name": "search", "description": "Find.", "parameters": PARAMETERS, "strict": True}
SPEC = ToolSpec("search", "Find.", PARAMETERS, True)
SEARCH = {"type": "web_search_preview"}
NOW = {"type": "function", "name": "now"}


class Body(ma.Schema):
    class Meta:
        unknown = ma.EXCLUDE

    tools = ReadBy(read_tools, load_default=())
    functions = ReadBy(read_functions, load_default=())
    tool_choice = ReadBy(read_tool_choice)
    function_call = ReadBy(read_function_call)


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param({"type": "function", **FULL}, SPEC, id="flat"),
        pytest.param({"type": "function", "function": FULL}, SPEC, id="nested"),
        pytest.param(
            {"type": "function", "function": FULL, "strict": False},
            ToolSpec("search", "Find.", PARAMETERS, False),
            id="said-beside-function",
        ),
        pytest.param({"type": "function", "function": None, **FULL}, SPEC, id="no-function"),
        pytest.param(NOW, ToolSpec("now"), id="only-a-name"),
        pytest.param(
            {**NOW, "description": None, "parameters": None, "strict": None}, ToolSpec("now"), id="nulls"
        ),
        pytest.param({**NOW, "parameters": {}}, ToolSpec("now", None, {}), id="empty-schema"),
        pytest.param({**NOW, "cache_control": {}, "defer_loading": True}, ToolSpec("now"), id="unknown-keys"),
        *(
            pytest.param({**NOW, "name": name}, ToolSpec(name), id=f"name-{name[:20]}")
            for name in ("a", "mcp__github__search", "server.tool", "ns:tool/v1", "a-b@2", "größe", "x" * 256)
        ),
    ],
)
def test_read_tools(tool: dict[str, Any], expected: ToolSpec) -> None:
    assert read_tools([NOW, tool]) == (ToolSpec("now"), expected)


def test_no_tools() -> None:
    assert (read_tools([]), read_functions([])) == ((), ())


def test_legacy_functions() -> None:
    assert read_functions([FULL, {"name": "now"}]) == (SPEC, ToolSpec("now"))


TYPES = "Must be function; tools of type `{}` are not served here."


@pytest.mark.parametrize(
    ("tools", "path", "message"),
    [
        pytest.param({}, "tools", "Must be a list.", id="an-object"),
        pytest.param("now", "tools", "Must be a list.", id="text"),
        pytest.param([NOW, "now"], "tools[1]", "Must be an object.", id="a-name"),
        pytest.param([NOW, {"name": "x"}], "tools[1].type", "Must be function.", id="no-type"),
        pytest.param([{"type": 5}], "tools[0].type", "Must be function.", id="a-type-of-no-text"),
        pytest.param([NOW, {"type": "web_search"}], "tools[1].type", TYPES.format("web_search"), id="hosted"),
        pytest.param([{"type": "x" * 99}], "tools[0].type", TYPES.format("x" * 40), id="a-long-type"),
        pytest.param(
            [{"type": "function", "function": "now"}],
            "tools[0].function",
            "Must be an object.",
            id="function",
        ),
        pytest.param([{"type": "function"}], "tools[0].name", NAME_RULE, id="no-name"),
        pytest.param(
            [NOW] * 3 + [{"type": "function", "function": {}}],
            "tools[3].function.name",
            NAME_RULE,
            id="nested",
        ),
        *(
            pytest.param([{**NOW, "name": name}], "tools[0].name", NAME_RULE, id=id_)
            for name, id_ in (
                ("", "empty-name"),
                ("a b", "space-in-a-name"),
                ("a\n", "line-break-in-a-name"),
                ("<a>", "tag-in-a-name"),
                ("\ud800", "half-a-character-in-a-name"),
                ("x" * 257, "long-name"),
                (5, "name-of-no-text"),
                (["a"], "list-of-names"),
            )
        ),
        pytest.param(
            [{**NOW, "description": 5}], "tools[0].description", "Must be a string or null.", id="description"
        ),
        pytest.param(
            [{**NOW, "parameters": []}],
            "tools[0].parameters",
            "Must be a JSON schema object or null.",
            id="parameters",
        ),
        pytest.param(
            [{**NOW, "strict": "yes"}], "tools[0].strict", "Must be true, false or null.", id="strict"
        ),
        pytest.param(
            [{"type": "function", "function": {**FULL, "strict": 1}}],
            "tools[0].function.strict",
            "Must be true, false or null.",
            id="strict-nested",
        ),
    ],
)
def test_bad_tools(tools: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_body(Body(), {"tools": tools})
    assert (raised.value.message, raised.value.param) == (f"{path}: {message}", path)


@pytest.mark.parametrize(
    ("functions", "path", "message"),
    [
        pytest.param({}, "functions", "Must be a list.", id="an-object"),
        pytest.param([FULL, 5], "functions[1]", "Must be an object.", id="a-number"),
        pytest.param([{}], "functions[0].name", NAME_RULE, id="no-name"),
    ],
)
def test_bad_functions(functions: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_body(Body(), {"functions": functions})
    assert (raised.value.message, raised.value.param) == (f"{path}: {message}", path)


def nest(levels: int, innermost: Any) -> dict[str, Any]:
    """A schema of so many objects and lists in turn around the innermost value."""
    value = innermost
    for level in range(levels - 1):
        value = {"a": 1, "anyOf": value} if level % 2 else [value, 1]
    return {"type": "object", "not": value}


@pytest.mark.parametrize("innermost", [1, "text", None])
def test_the_deepest_schema(innermost: Any) -> None:
    schema = nest(MAX_SCHEMA_LEVELS, innermost)
    assert read_tools([{**NOW, "parameters": schema}]) == (ToolSpec("now", None, schema),)


def fill(values: int) -> dict[str, Any]:
    """A schema of so many values, below each other and beside each other."""
    half = values // 2 - 2
    return {"enum": [[1] * half, 5], "const": [1] * (values - half - 4)}


def test_the_largest_schema() -> None:
    schema = fill(MAX_SCHEMA_VALUES)
    assert read_tools([{**NOW, "parameters": schema}]) == (ToolSpec("now", None, schema),)


def refuse_everywhere(schema: dict[str, Any], rule: str) -> None:
    bodies = {
        "tools[0].parameters": {"tools": [{**NOW, "parameters": schema}]},
        "tools[1].function.parameters": {
            "tools": [NOW, {"type": "function", "function": FULL | {"parameters": schema}}]
        },
        "functions[0].parameters": {"functions": [{"name": "now", "parameters": schema}]},
    }
    for path, body in bodies.items():
        with pytest.raises(InvalidRequest) as raised:
            load_body(Body(), body)
        assert (raised.value.message, raised.value.param) == (f"{path}: {rule}", path)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(nest(MAX_SCHEMA_LEVELS, {}), id="an-empty-object-too-many"),
        pytest.param(nest(MAX_SCHEMA_LEVELS, []), id="an-empty-list-too-many"),
        pytest.param(nest(100_000, 1), id="deeper-than-the-stack"),
    ],
)
def test_schemas_that_are_too_deep(schema: dict[str, Any]) -> None:
    refuse_everywhere(schema, DEPTH_RULE)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(fill(MAX_SCHEMA_VALUES + 1), id="a-value-too-many"),
        pytest.param({"properties": {str(index): {} for index in range(400_000)}}, id="many-properties"),
    ],
)
def test_schemas_that_are_too_large(schema: dict[str, Any]) -> None:
    refuse_everywhere(schema, SIZE_RULE)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        pytest.param(
            {"$ref": "http://x/y"},
            "schema: its reference to 'http://x/y' leads nowhere; nothing is fetched",
            id="a-reference-that-leads-out",
        ),
        pytest.param({"required": "a"}, "schema.required: 'a' is not of type 'array'", id="no-schema"),
    ],
)
def test_a_strict_tool_needs_a_schema_that_can_be_used(schema: dict[str, Any], reason: str) -> None:
    tool = {**NOW, "parameters": schema}
    nested = {"type": "function", "function": {**FULL, "parameters": schema}}
    for path, raw in (("tools[1]", {**tool, "strict": True}), ("tools[1].function", nested)):
        with pytest.raises(InvalidRequest) as raised:
            load_body(Body(), {"tools": [NOW, raw]})
        at = f"{path}.parameters"
        assert (raised.value.message, raised.value.param) == (f"{at}: Cannot be used: {reason}.", at)
    assert read_tools([tool]) == (ToolSpec("now", None, schema),)


def test_many_strict_schemas_do_not_add_up() -> None:
    """Measured: 0.03 s for what would take 1.7 s; those left over are judged with a call."""
    tools = [{**NOW, "strict": True, "parameters": {"title": f"n{i}", "not": {}}} for i in range(1000)]
    began_s = time.thread_time()
    assert len(read_tools([*tools, {**NOW, "strict": True, "parameters": {"required": 5}}])) == 1001
    assert time.thread_time() - began_s < 0.3


def test_a_search_beside_functions() -> None:
    """It is told apart, and whatever is wrong is told by its place in the request."""
    assert read_declared([SEARCH, NOW]) == DeclaredTools((WebSearch("web_search_preview"), ToolSpec("now")))
    assert read_declared([NOW]) == DeclaredTools((ToolSpec("now"),))
    for tools, path in (
        ([SEARCH, {"type": "function"}], {1: {"name": [NAME_RULE]}}),
        ([SEARCH, NOW, {"type": "mcp"}], {2: {"type": [TYPES.format("mcp")]}}),
    ):
        with pytest.raises(ma.ValidationError) as raised:
            read_declared(tools)
        assert raised.value.messages == path


def allowed(mode: str, *tools: Any) -> dict[str, Any]:
    return {"mode": mode, "tools": list(tools)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("none", ToolChoice(ChoiceMode.NONE), id="none"),
        pytest.param("auto", ToolChoice(), id="auto"),
        pytest.param("required", ToolChoice(ChoiceMode.REQUIRED), id="required"),
        pytest.param(
            {"type": "function", "function": {"name": "now"}}, ToolChoice(ChoiceMode.NAMED, "now"), id="chat"
        ),
        pytest.param(
            {"type": "function", "name": "now"}, ToolChoice(ChoiceMode.NAMED, "now"), id="responses"
        ),
        pytest.param(
            {
                "type": "allowed_tools",
                "allowed_tools": allowed("auto", {"type": "function", "function": {"name": "now"}}),
            },
            ToolChoice(allowed=frozenset(("now",))),
            id="allowed-of-chat",
        ),
        pytest.param(
            {"type": "allowed_tools", **allowed("required", NOW, {**NOW, "name": "a"})},
            ToolChoice(
                ChoiceMode.REQUIRED,
                allowed=frozenset(
                    (
                        "now",
                        "a",
                    )
                ),
            ),
            id="allowed-of-responses",
        ),
        pytest.param(
            {"type": "allowed_tools", **allowed("auto", SEARCH, NOW)},
            ToolChoice(allowed=frozenset(("now",)), names_search=True),
            id="allowed-search",
        ),
        pytest.param(
            SEARCH, ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset(), names_search=True), id="search"
        ),
    ],
)
def test_read_tool_choice(value: Any, expected: ToolChoice) -> None:
    assert read_tool_choice(value) == expected


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        pytest.param("any", "tool_choice", CHOICE_RULE, id="a-word"),
        pytest.param(5, "tool_choice", CHOICE_RULE, id="a-number"),
        pytest.param({}, "tool_choice", CHOICE_RULE, id="no-type"),
        pytest.param({"type": "function"}, "tool_choice.name", NAME_RULE, id="no-name"),
        pytest.param(
            {"type": "function", "function": {}}, "tool_choice.function.name", NAME_RULE, id="no-nested-name"
        ),
        pytest.param(
            {"type": "function", "function": "now"}, "tool_choice.function", "Must be an object.", id="text"
        ),
        pytest.param({"type": "mcp"}, "tool_choice.type", TYPES.format("mcp"), id="hosted"),
        pytest.param({"type": None}, "tool_choice.type", "Must be function.", id="null-type"),
        pytest.param(
            {"type": "allowed_tools", "allowed_tools": []},
            "tool_choice.allowed_tools",
            "Must be an object.",
            id="allowed-list",
        ),
        pytest.param(
            {"type": "allowed_tools", "allowed_tools": allowed("none", NOW)},
            "tool_choice.allowed_tools.mode",
            "Must be one of: auto, required.",
            id="allowed-mode",
        ),
        pytest.param(
            {"type": "allowed_tools", "mode": "auto"},
            "tool_choice.tools",
            "Must be a list.",
            id="none-listed",
        ),
        pytest.param(
            {"type": "allowed_tools", **allowed("auto")}, "tool_choice.tools", "Must not be empty.", id="none"
        ),
        pytest.param(
            {"type": "allowed_tools", **allowed("auto", NOW, {"type": "mcp"})},
            "tool_choice.tools[1].type",
            TYPES.format("mcp"),
            id="allowed-hosted",
        ),
    ],
)
def test_bad_tool_choices(value: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_body(Body(), {"tool_choice": value})
    assert (raised.value.message, raised.value.param) == (f"{path}: {message}", path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("none", ToolChoice(ChoiceMode.NONE), id="none"),
        pytest.param("auto", ToolChoice(), id="auto"),
        pytest.param({"name": "now"}, ToolChoice(ChoiceMode.NAMED, "now"), id="named"),
    ],
)
def test_legacy_function_call(value: Any, expected: ToolChoice) -> None:
    assert read_function_call(value) == expected


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        pytest.param("required", "function_call", CALL_RULE, id="a-word-it-never-knew"),
        pytest.param({}, "function_call.name", NAME_RULE, id="no-name"),
    ],
)
def test_bad_function_calls(value: Any, path: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        load_body(Body(), {"function_call": value})
    assert (raised.value.message, raised.value.param) == (f"{path}: {message}", path)


@pytest.mark.parametrize(
    ("choice", "messages"),
    [
        pytest.param(ToolChoice(), None, id="auto"),
        pytest.param(ToolChoice(ChoiceMode.REQUIRED), None, id="required"),
        pytest.param(ToolChoice(ChoiceMode.NAMED, "now"), None, id="declared"),
        pytest.param(ToolChoice(allowed=frozenset(("now",))), None, id="allowed"),
        pytest.param(
            ToolChoice(ChoiceMode.NAMED, "x"), "`x` is not among the declared tools.", id="undeclared"
        ),
        pytest.param(
            ToolChoice(
                allowed=frozenset(
                    (
                        "now",
                        "x",
                    )
                )
            ),
            "`x` is not among the declared tools.",
            id="one-unknown",
        ),
        pytest.param(
            ToolChoice(allowed=frozenset(), names_search=True),
            "A web search is not among the declared tools.",
            id="a-search-undeclared",
        ),
    ],
)
def test_validate_choice(choice: ToolChoice, messages: str | None) -> None:
    if messages is None:
        validate_choice(choice, DeclaredTools((ToolSpec("now"),)))
        return
    with pytest.raises(ma.ValidationError) as raised:
        validate_choice(choice, DeclaredTools((ToolSpec("now"),)))
    assert raised.value.messages == {"tool_choice": [messages]}


@pytest.mark.parametrize("mode", [ChoiceMode.AUTO, ChoiceMode.NONE])
def test_without_tools_nothing_need_be_called(mode: ChoiceMode) -> None:
    validate_choice(ToolChoice(mode), DeclaredTools())


def test_without_tools_none_can_be_required() -> None:
    with pytest.raises(ma.ValidationError) as raised:
        validate_choice(ToolChoice(ChoiceMode.REQUIRED), DeclaredTools())
    assert raised.value.messages == {"tool_choice": ["No tools are declared."]}


def test_a_choice_is_faulted_under_the_name_it_came_by() -> None:
    with pytest.raises(ma.ValidationError) as raised:
        validate_choice(ToolChoice(ChoiceMode.NAMED, "x"), DeclaredTools(), "function_call")
    assert raised.value.messages == {"function_call": ["`x` is not among the declared tools."]}
