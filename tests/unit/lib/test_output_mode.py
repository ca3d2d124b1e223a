"""Which of the two output modes a request gets."""

from __future__ import annotations

import pytest

from app.lib.output_mode import OutputMode, choose_mode, parse_mode

XML, JSON = OutputMode.OBSIDIAN_XML, OutputMode.OPENAI_JSON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("obsidian-xml", XML, id="xml"),
        pytest.param("openai-json", JSON, id="json"),
        pytest.param(" OpenAI-JSON ", JSON, id="in-any-case"),
        pytest.param("json", None, id="unknown"),
        pytest.param("", None, id="empty"),
    ],
)
def test_parse(text: str, expected: OutputMode | None) -> None:
    assert parse_mode(text) is expected


@pytest.mark.parametrize(
    ("asked", "declares_tools", "default", "by_request", "expected"),
    [
        pytest.param(XML, True, JSON, True, XML, id="xml-was-asked-for-beside-tools"),
        pytest.param(JSON, False, XML, True, JSON, id="json-was-asked-for-without-tools"),
        pytest.param(JSON, False, XML, False, JSON, id="what-is-asked-for-counts-whatever-requests-do"),
        pytest.param(None, True, XML, True, JSON, id="tools-ask-for-json"),
        pytest.param(None, True, XML, False, XML, id="unless-requests-are-not-to-count"),
        pytest.param(None, False, XML, True, XML, id="no-tools-the-default"),
        pytest.param(None, False, JSON, True, JSON, id="no-tools-another-default"),
        pytest.param(None, True, JSON, False, JSON, id="tools-another-default"),
    ],
)
def test_choose(
    asked: OutputMode | None,
    declares_tools: bool,
    default: OutputMode,
    by_request: bool,
    expected: OutputMode,
) -> None:
    assert choose_mode(asked, declares_tools, default, by_request) is expected
