"""Keywords of JSON schema that the library checks in ways too costly here: patterns and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from app.lib.schema_check.effort import Effort
from app.lib.schema_check.evaluated import find_evaluated_indexes, find_evaluated_keys, find_named_keys
from app.lib.schema_check.short_values import join_first

Errors = Iterator[ValidationError]
#: Takes the validator, the keyword's value, what is checked, and the schema the keyword stands in.
Keyword = Callable[[Any, Any, Any, Any], Errors]


def check_pattern(validator: Any, pattern: Any, instance: Any, _schema: Any) -> Errors:
    if isinstance(instance, str) and not get_effort(validator).search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def check_pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if get_effort(validator).search(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def check_additional_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        yield from check_rest(validator, rest, instance, find_named_keys(validator, instance, schema))


def check_additional_items(validator: Any, rest: Any, instance: Any, schema: Any) -> Errors:
    items = schema.get("items")
    if isinstance(instance, list) and isinstance(items, list):
        yield from check_rest(validator, rest, dict(enumerate(instance)), set(range(len(items))))


def check_unevaluated_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        yield from check_rest(validator, rest, instance, find_evaluated_keys(validator, instance, schema))


def check_unevaluated_items(validator: Any, rest: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, list):
        known = find_evaluated_indexes(validator, instance, schema)
        yield from check_rest(validator, rest, dict(enumerate(instance)), known)


def check_rest(validator: Any, rest: Any, parts: dict[Any, Any], known: set[Any]) -> Errors:
    """Hold the parts that are not known against the schema for all the rest."""
    others = [part for part in parts if part not in known]
    if rest is False and others:
        yield ValidationError(f"{join_first(map(repr, others), len(others))}: not allowed here")
        return
    for part in others:
        yield from validator.descend(parts[part], rest, path=part)


def check_enum(validator: Any, allowed: Any, instance: Any, _schema: Any) -> Errors:
    if not get_effort(validator).is_one_of(instance, allowed):
        yield ValidationError(f"{instance!r} is not one of {allowed!r}")


def check_const(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Errors:
    effort = get_effort(validator)
    if effort.build_key(instance) != effort.build_key(wanted):
        yield ValidationError(f"{wanted!r} was expected")


def check_unique_items(validator: Any, is_wanted: Any, instance: Any, _schema: Any) -> Errors:
    if not is_wanted or not isinstance(instance, list):
        return
    seen: set[str] = set()
    for index, each in enumerate(instance):
        key = get_effort(validator).build_key(each)
        if key in seen:
            yield ValidationError(f"{each!r} is there twice", path=(index,))
            return
        seen.add(key)


def get_effort(validator: Any) -> Effort:
    effort: Effort = validator.format_checker
    return effort


KEYWORDS: dict[str, Keyword] = {
    "additionalItems": check_additional_items,
    "additionalProperties": check_additional_properties,
    "const": check_const,
    "enum": check_enum,
    "pattern": check_pattern,
    "patternProperties": check_pattern_properties,
    "unevaluatedItems": check_unevaluated_items,
    "unevaluatedProperties": check_unevaluated_properties,
    "uniqueItems": check_unique_items,
}
