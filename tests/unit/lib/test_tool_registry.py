"""Declared tools, and which of them may be called."""

from __future__ import annotations

import pytest

from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec

A, B, C = ToolSpec("a", strict=True), ToolSpec("b"), ToolSpec("c", strict=False)


@pytest.mark.parametrize(
    ("specs", "choice", "callable_", "any_strict"),
    [
        pytest.param((), None, (), False, id="none-declared"),
        pytest.param((A, B, C), None, (A, B, C), True, id="auto-by-default"),
        pytest.param((B, C), None, (B, C), False, id="none-strict"),
        pytest.param((A, B), ToolChoice(ChoiceMode.NONE), (), False, id="none-allowed"),
        pytest.param((A, B), ToolChoice(ChoiceMode.REQUIRED), (A, B), True, id="required"),
        pytest.param((A, B), ToolChoice(ChoiceMode.NAMED, "b"), (B,), True, id="named"),
        pytest.param((A, B), ToolChoice(ChoiceMode.NAMED, "x"), (), False, id="named-but-undeclared"),
        pytest.param(
            (A, B, C),
            ToolChoice(allowed=frozenset("bc")),
            (B, C),
            True,
            id="allowed",
        ),
        pytest.param(
            (A, B),
            ToolChoice(ChoiceMode.REQUIRED, allowed=frozenset(("a",))),
            (A,),
            True,
            id="required-of-allowed",
        ),
    ],
)
def test_what_may_be_called(
    specs: tuple[ToolSpec, ...],
    choice: ToolChoice | None,
    callable_: tuple[ToolSpec, ...],
    any_strict: bool,
) -> None:
    registry = ToolRegistry(specs, choice)
    allowed = tuple(spec for spec in registry if registry.allows(spec.name))
    assert (registry.callable, allowed, registry.any_strict) == (callable_, callable_, any_strict)


def test_tools_by_name() -> None:
    registry = ToolRegistry([B, A])
    assert (registry.names, registry.get("a"), registry.get("x")) == (("b", "a"), A, None)
    assert not registry.allows("x")


@pytest.mark.parametrize(("specs", "expected"), [((), False), ((A,), True)], ids=["empty", "one"])
def test_truth(specs: tuple[ToolSpec, ...], expected: bool) -> None:
    assert bool(ToolRegistry(specs)) is expected
    assert bool(ToolRegistry(specs, ToolChoice(ChoiceMode.NONE))) is expected


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    registry = ToolRegistry([A, B, ToolSpec("a", "A later one.")])
    assert (registry.names, registry.get("a")) == (("a", "b"), A)


def test_registries_compare_by_what_they_say() -> None:
    specs = [ToolSpec("f", "d", {"type": "object"}), ToolSpec("g")]
    one, same = ToolRegistry(specs), ToolRegistry([*specs, ToolSpec("f")])
    assert (one == same, hash(one) == hash(same)) == (True, True)
    others = [ToolRegistry(specs[:1]), ToolRegistry(specs, ToolChoice(ChoiceMode.NONE)), "f"]
    assert [one == other for other in others] == [False] * 3
