"""A client's tool names, and what codex is given for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.backend.tool_names import ToolNames
from app.lib.tool_registry import ToolSpec

# What the real binary takes, tells the model of, and asks about.
TAKEN = re.compile(r"(?!mcp\Z|mcp__|exec_command\Z|shell_command\Z)[A-Za-z0-9_-]{1,128}")


def build_names(*names: str) -> ToolNames:
    return ToolNames([ToolSpec(name) for name in names])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("get_weather", "get_weather", id="plain"),
        pytest.param("-", "-", id="a-dash"),
        pytest.param("x" * 128, "x" * 128, id="as-long-as-may-be"),
        pytest.param("view_image", "view_image", id="one-of-codex's-that-is-free"),
        pytest.param("apply_patch", "fn_apply_patch_09a68fb1", id="one-of-codex's"),
        pytest.param("mcp_", "mcp_", id="nearly-reserved"),
        pytest.param("MCP", "MCP", id="reserved-but-for-its-case"),
        pytest.param("mcp", "fn_mcp_a937b531", id="reserved"),
        pytest.param("mcp__files__read", "fn_mcp_files_read_7e759ba4", id="a-reserved-beginning"),
        pytest.param("exec_command", "fn_exec_command_ca9a47e1", id="hidden"),
        pytest.param("shell_command", "fn_shell_command_f83473b8", id="hidden-too"),
        pytest.param("a.b", "fn_a_b_ab888c88", id="a-dot"),
        pytest.param("a b", "fn_a_b_2e5dfb66", id="a-space-is-told-from-a-dot"),
        pytest.param("a\n", "fn_a_98bc6c41", id="a-line-end"),
        pytest.param("日本", "fn__a7b054ca", id="no-letter-that-stays"),
        pytest.param("", "fn__7daed438", id="nothing"),
        pytest.param("x" * 129, f"fn_{'x' * 40}_504430d4", id="too-long"),
        pytest.param("fn_a_0123abcd", "fn_fn_a_0123abcd_c8d96576", id="what-looks-like-an-alias"),
        pytest.param("\ud800", "fn__57b38ea7", id="half-a-character"),
    ],
)
def test_what_codex_is_given(name: str, expected: str) -> None:
    """Whether it is declared or only in the history; the same today and tomorrow, for the prompt cache."""
    declared = build_names(name)
    assert (declared.to_codex(name), declared.to_client(expected)) == (expected, name)
    assert (ToolNames().to_codex(name), ToolNames().to_client(expected)) == (expected, None)


@pytest.mark.parametrize("name", ["mcp", "a b", "nope", ""])
def test_what_is_not_declared(name: str) -> None:
    assert build_names("a.b", "exec_command", "f").to_client(name) is None


NAMES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["mcp", "mcp__a", "a.b", "a b", "a_b", "exec_command", "fn_a_b_ab888c88"]),
    st.from_regex(r"fn_[a-z]{0,3}_[0-9a-f]{8}", fullmatch=True),
)


def check_both_ways(names: Sequence[str]) -> None:
    declared = build_names(*names)
    given_names = [declared.to_codex(name) for name in names]
    assert [declared.to_client(name) for name in given_names] == list(names)
    assert [name for name in given_names if not TAKEN.fullmatch(name)] == []
    assert len({*given_names}) == len({*names})


@given(st.lists(NAMES, max_size=8))
def test_every_name_finds_its_way_back(names: list[str]) -> None:
    check_both_ways(names)


# Found by trying: their digests begin alike.
CLASH = ("\u4e2b\u4f2c", "\u4e6c\u4e51")


def test_two_names_never_share_one() -> None:
    assert {ToolNames().to_codex(name) for name in CLASH} == {"fn__3838463e"}
    check_both_ways(CLASH)
    check_both_ways(CLASH[::-1])
