"""Model ids and their spellings."""

from __future__ import annotations

import re

import pytest

from app.lib.errors import UnknownModel
from app.lib.models import EFFORTS, Model, find_base, find_model, parse_model, split_effort
from tests.support.plain import PlainError, to_plain_error


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("some-model", Model("some-model", "some-model", "codex-gateway"), id="id"),
        pytest.param("fast=gpt-5.5", Model("fast", "gpt-5.5", "codex-gateway"), id="alias"),
        pytest.param(
            "codex-5=gpt-6.1-sol:low", Model("codex-5", "gpt-6.1-sol", "codex-gateway", "low"), id="effort"
        ),
        pytest.param("fast=gpt-5.5:", Model("fast", "gpt-5.5", "codex-gateway"), id="empty-effort"),
        pytest.param(
            "odd:name", Model("odd:name", "odd:name", "codex-gateway"), id="a-colon-in-a-plain-id-stays"
        ),
    ],
)
def test_parse_model(spec: str, expected: Model) -> None:
    assert parse_model(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        *("=gpt-5.5", "fast=", "fast=:low", "fast=gpt-5.5:hgih", "fast=gpt-5.5:low:low"),
        *("fast = gpt-5.5", "fast=gpt-5.5=low", "fast gpt-5.5"),
    ],
)
def test_a_spec_that_means_nothing(spec: str) -> None:
    with pytest.raises(ValueError, match=re.escape(spec)):
        parse_model(spec)


MODELS = (
    Model("gpt-5.5", "gpt-5.5", "openai"),
    Model("fast", "gpt-5.5", "codex-gateway", "low"),
    Model("slow-high", "gpt-6.1-sol", "codex-gateway"),
)


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        pytest.param("gpt-5.5", Model("gpt-5.5", "gpt-5.5", "openai"), id="exact"),
        pytest.param("fast", Model("fast", "gpt-5.5", "codex-gateway", "low"), id="alias"),
        *(
            pytest.param(f"gpt-5.5-{e}", Model(f"gpt-5.5-{e}", "gpt-5.5", "openai", e), id=f"suffix-{e}")
            for e in EFFORTS
        ),
        pytest.param("fast-high", Model("fast-high", "gpt-5.5", "codex-gateway", "high"), id="over-an-alias"),
        pytest.param(
            "slow-high",
            Model("slow-high", "gpt-6.1-sol", "codex-gateway"),
            id="an-id-that-ends-like-an-effort",
        ),
    ],
)
def test_find_model(id_: str, expected: Model) -> None:
    assert find_model(MODELS, id_) == expected


@pytest.mark.parametrize(
    "id_",
    [
        pytest.param("gpt-9", id="unknown"),
        pytest.param("gpt-9-low", id="unknown-with-effort"),
        pytest.param("gpt-5.5-huge", id="unknown-effort"),
        pytest.param("gpt-5.5-low-high", id="two-efforts"),
        pytest.param("-low", id="only-an-effort"),
        pytest.param("", id="empty"),
    ],
)
def test_unknown_model(id_: str) -> None:
    with pytest.raises(UnknownModel) as raised:
        find_model(MODELS, id_)
    assert to_plain_error(raised.value) == PlainError(
        UnknownModel, f"The model `{id_}` does not exist.", param="model"
    )


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        pytest.param("gpt-5.5", "gpt-5.5", id="exact"),
        pytest.param("fast", "fast", id="an-alias-is-an-id-of-its-own"),
        pytest.param("gpt-5.5-xhigh", "gpt-5.5", id="with-an-effort"),
        pytest.param("slow-high", "slow-high", id="an-id-that-ends-like-an-effort"),
        pytest.param("slow-high-low", "slow-high", id="and-an-effort-behind-it"),
        pytest.param("gpt-5.5-huge", None, id="unknown-effort"),
        pytest.param("gpt-9-low", None, id="unknown-with-effort"),
        pytest.param("-low", None, id="only-an-effort"),
        pytest.param("low", None, id="only-the-name-of-an-effort"),
        pytest.param("", None, id="empty"),
    ],
)
def test_find_base(id_: str, expected: str | None) -> None:
    assert find_base(MODELS, id_) == expected


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        pytest.param("gpt-5.5-low", ("gpt-5.5", "low"), id="an-effort"),
        pytest.param("gpt-5.5", ("", ""), id="none"),
        pytest.param("low", ("", "low"), id="nothing-before-it"),
    ],
)
def test_split_effort(id_: str, expected: tuple[str, str]) -> None:
    assert split_effort(id_) == expected
