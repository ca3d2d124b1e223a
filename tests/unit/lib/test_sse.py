"""Frames as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lib.sse import DONE, GAP, KEEPALIVE, encode_data, encode_event, split_at_gap


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"a": None, "b": [1, True]}, b'data: {"a":null,"b":[1,true]}\n\n', id="json"),
        pytest.param(
            {"t": "one\r\ntwo\n\n"}, b'data: {"t":"one\\r\\ntwo\\n\\n"}\n\n', id="line-breaks-stay-escaped"
        ),
        pytest.param({"t": "é字🙂"}, 'data: {"t":"é字🙂"}\n\n'.encode(), id="utf-8"),
    ],
)
def test_encode_data(payload: Any, expected: bytes) -> None:
    assert encode_data(payload) == expected


@given(st.text())
def test_one_frame_is_one_line_whatever_the_text(text: str) -> None:
    frame = encode_data({"text": text})
    assert (frame.splitlines()[1:], json.loads(frame.removeprefix(b"data: "))) == ([b""], {"text": text})


def test_fixed_frames() -> None:
    """A comment starts with a colon; readers drop it."""
    assert (DONE, KEEPALIVE) == (b"data: [DONE]\n\n", b": keepalive\n\n")


@pytest.mark.parametrize("model", ["gpt", GAP])
def test_a_frame_around_its_text(model: str) -> None:
    """Also where a client named its model like the gap."""
    before, after = split_at_gap(encode_event("said", {"model": model, "text": GAP, "n": 0}))
    assert before + b'"hi"' + after == encode_event("said", {"model": model, "text": "hi", "n": 0})
