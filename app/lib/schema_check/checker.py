"""The library's validators, with every step paid for and nothing fetched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.jsonschema import EMPTY_REGISTRY, specification_with

from app.lib.schema_check.effort import Effort
from app.lib.schema_check.keywords import KEYWORDS, Errors, Keyword, get_effort

DRAFTS: dict[str, type[Any]] = {
    "http://json-schema.org/draft-03/schema": jsonschema.Draft3Validator,
    "http://json-schema.org/draft-04/schema": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
NEWEST = "https://json-schema.org/draft/2020-12/schema"
# They take one step, or pay for each of theirs; every other keyword pays ahead for what it may loop over.
UNPAID = frozenset(
    (
        *("type", "format", "const", "enum", "pattern", "uniqueItems"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "divisibleBy"),
    )
)


@dataclass(frozen=True, slots=True)
class Checker:
    """A schema ready to check values, one after the other or at the same time."""

    draft: type[Any]
    schema: Any
    #: Knows the schema and the published drafts; whatever else a reference names is not there.
    resolver: Any

    def find_errors(self, value: Any, effort: Effort) -> Errors:
        validator = build_validator(self.draft, self.schema, effort, self.resolver)
        return cast(Errors, validator.iter_errors(value))


def build_checker(schema: Any) -> Checker:
    uri = find_draft(schema)
    resource = specification_with(uri).create_resource(schema)
    base_uri = resource.id() or ""
    # Crawled now: a registry that is not yet would be, at every reference to an anchor.
    registry = REGISTRY.with_resource(base_uri, resource).crawl()
    return Checker(build_draft(uri), schema, registry.resolver(base_uri))


@functools.cache
def build_meta_checker(uri: str) -> Checker:
    draft = build_draft(uri)
    return Checker(draft, draft.META_SCHEMA, REGISTRY.resolver(uri))


def find_draft(schema: Any) -> str:
    named = schema.get("$schema")
    uri = named.rstrip("#") if isinstance(named, str) else NEWEST
    return uri if uri in DRAFTS else NEWEST


@functools.cache
def build_draft(uri: str) -> type[Any]:
    base = DRAFTS[uri]
    keywords = {name: build_paid(name, KEYWORDS.get(name, each)) for name, each in base.VALIDATORS.items()}
    draft: type[Any] = extend(base, keywords)  # type: ignore[no-untyped-call]
    draft.evolve = evolve
    return draft


def build_paid(name: str, keyword: Any) -> Keyword:
    if name in UNPAID:
        return cast(Keyword, keyword)
    count = COUNTS.get(name, count_parts)

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
        get_effort(validator).spend(1 + count(value, instance))
        return cast(Errors, keyword(validator, value, instance, schema))

    return check


def count_parts(value: Any, instance: Any) -> int:
    inner = value.values() if isinstance(value, dict) else ()
    lists = sum(len(each) for each in inner if isinstance(each, list))  # `dependentRequired` has them
    return count_length(value) + lists + count_length(instance)


def count_contains(value: Any, instance: Any) -> int:
    """Its elements share one validator, so that nothing else pays for their keywords."""
    return count_length(instance) * (1 + count_length(value))


def count_reference(value: str, _instance: Any) -> int:
    """At each step of a pointer the library goes through the steps before it."""
    return len(value) // 16 + value.count("/") ** 2


def count_length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


COUNTS: dict[str, Callable[[Any, Any], int]] = {
    "contains": count_contains,
    "$ref": count_reference,
    "$dynamicRef": count_reference,
    "$recursiveRef": count_reference,
}


def evolve(validator: Any, **changes: Any) -> Any:
    """The validator of a subschema: one of ours, where the library would follow a `$schema` to its own."""
    schema = changes.get("schema", validator.schema)
    effort = get_effort(validator)
    if isinstance(schema, dict):
        effort.spend(1 + len(schema) + len(str(schema.get("$id", schema.get("id", "")))))
    resolver = changes.get("_resolver", validator._resolver)
    return build_validator(type(validator), schema, effort, resolver)


def build_validator(draft: type[Any], schema: Any, effort: Effort, resolver: Any) -> Any:
    # With its own resolver it never looks at its registry, whose default one fetches.
    return draft(schema, format_checker=effort, registry=EMPTY_REGISTRY, _resolver=resolver)
