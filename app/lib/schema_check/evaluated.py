"""Which parts of a value a schema and all that applies with it look at, as `unevaluated…` asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Finder = Callable[[Any, Any, Any], set[Any]]


def find_evaluated_keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> set[Any]:
    others = {key: value for key, value in schema.items() if key != "unevaluatedProperties"}
    return find_evaluated(validator, instance, others, find_keys)


def find_evaluated_indexes(validator: Any, instance: list[Any], schema: dict[str, Any]) -> set[Any]:
    others = {key: value for key, value in schema.items() if key != "unevaluatedItems"}
    return find_evaluated(validator, instance, others, find_indexes)


def find_evaluated(validator: Any, instance: Any, schema: Any, find: Finder) -> set[Any]:
    if isinstance(schema, bool):
        return set()
    validator.format_checker.spend(1 + len(schema) + len(instance))
    found = find(validator, instance, schema)
    for inner, subschema in find_applied(validator, instance, schema):
        found |= find_evaluated(inner, instance, subschema, find)
    return found


def find_keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> set[Any]:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)
    return find_named_keys(validator, instance, schema)


def find_named_keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> set[Any]:
    """The keys that `properties` and `patternProperties` speak of."""
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    search = validator.format_checker.search
    return {key for key in instance if key in named or any(search(pattern, key) for pattern in patterns)}


def find_indexes(validator: Any, instance: list[Any], schema: dict[str, Any]) -> set[Any]:
    items = schema.get("items", [])
    is_list = isinstance(items, list)  # what `prefixItems` was before 2020-12
    if not is_list or "unevaluatedItems" in schema or (items and "additionalItems" in schema):
        return set(range(len(instance)))
    found = set(range(len(items or schema.get("prefixItems", []))))
    if "contains" in schema:
        contains = validator.evolve(schema=schema["contains"])
        found |= {index for index, each in enumerate(instance) if contains.is_valid(each)}
    return found


def find_applied(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The subschemas that look at the same value, each with the validator to resolve its references."""
    # Not `$recursiveRef`: to look at the same value again it would have to lead to itself.
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            resolved = validator._resolver.lookup(schema[keyword])
            yield validator.evolve(schema=resolved.contents, _resolver=resolved.resolver), resolved.contents
    for subschema in find_combined(validator, instance, schema):
        yield validator, subschema


def find_combined(validator: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(keyword, []):
            if validator.evolve(schema=subschema).is_valid(instance):
                yield subschema
    if isinstance(instance, dict):
        yield from (each for key, each in schema.get("dependentSchemas", {}).items() if key in instance)
    if "if" in schema:
        is_met = validator.evolve(schema=schema["if"]).is_valid(instance)
        yield schema["if"] if is_met else True
        yield schema.get("then" if is_met else "else", True)
