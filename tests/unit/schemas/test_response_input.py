"""The input of a Responses request, in every form that clients send, and as it is stored."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
import pytest

from app.lib.dialects.response_input import build_input_item
from app.lib.request import (
    HistoryItem,
    ImagePart,
    ItemReference,
    Message,
    PastCall,
    PastOutput,
    PastReasoning,
    Role,
    TextPart,
)
from app.schemas.loading import find_first
from app.schemas.response_input import read_input

PNG = "data:image/png;base64,iVBORw0KGgo="
USER, ASSISTANT, DEVELOPER = Role.USER, Role.ASSISTANT, Role.DEVELOPER
HI = TextPart("Hi")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("Hi", (Message(USER, (HI,)),), id="a-string"),
        pytest.param([{"role": "user", "content": "Hi"}], (Message(USER, (HI,)),), id="an-easy-message"),
        pytest.param(
            [
                {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "message", "role": "developer", "content": "Hi", "extra": {}},
            ],
            (Message(DEVELOPER, (HI,)), Message(DEVELOPER, (HI,))),
            id="instructions",
        ),
        pytest.param(
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Hi"},
                        {"type": "input_image", "image_url": PNG, "detail": "low"},
                    ],
                }
            ],
            (Message(USER, (HI, ImagePart(PNG))),),
            id="a-typed-message",
        ),
        pytest.param(
            [
                {"type": "input_text", "text": "Hi"},
                {"type": "input_image", "image_url": PNG},
                {"role": "assistant", "content": "Hi"},
                {"type": "input_text", "text": "Hi"},
            ],
            (Message(USER, (HI, ImagePart(PNG))), Message(ASSISTANT, (HI,)), Message(USER, (HI,))),
            id="bare-parts",
        ),
        pytest.param(
            [
                {
                    "type": "message",
                    "id": "msg_1",
                    "status": "completed",
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []},
                        {"type": "output_text", "text": ""},
                        {"type": "refusal", "refusal": "No."},
                    ],
                }
            ],
            (Message(ASSISTANT, (HI, TextPart("No."))),),
            id="an-echoed-answer",
        ),
        pytest.param([{"role": "assistant", "content": ""}], (), id="an-empty-answer"),
        pytest.param(
            [
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}', "odd": 1},
                {"type": "function_call", "id": "fc_1", "name": "f", "arguments": {"a": 1}},
            ],
            (PastCall("c", "f", '{"a": 1}'), PastCall("fc_1", "f", '{"a":1}')),
            id="echoed-calls",
        ),
        pytest.param(
            [
                {"type": "function_call_output", "call_id": "c", "output": "21"},
                {"type": "function_call_output", "call_id": "d", "output": ""},
                {
                    "type": "function_call_output",
                    "call_id": "e",
                    "output": [
                        {"type": "input_text", "text": "Hi"},
                        {"type": "input_image", "image_url": PNG},
                    ],
                },
            ],
            (PastOutput("c", (TextPart("21"),)), PastOutput("d", ()), PastOutput("e", (HI, ImagePart(PNG)))),
            id="outputs",
        ),
        pytest.param(
            [
                {
                    "type": "reasoning",
                    "id": "rs",
                    "summary": [{"type": "summary_text", "text": "Hm."}],
                    "encrypted_content": "gAAA",
                    "content": [],
                },
                {"type": "reasoning", "summary": None},
            ],
            (PastReasoning("gAAA", ("Hm.",), "rs"), PastReasoning(None)),
            id="reasoning",
        ),
        pytest.param(
            [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}],
            (ItemReference("msg_1"), ItemReference("msg_2")),
            id="references",
        ),
        pytest.param(
            [{"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}],
            (),
            id="a-search-of-codex's-own",
        ),
    ],
)
def test_read_input(given: Any, expected: tuple[Any, ...]) -> None:
    """D3 and §3: every form of input; keys that nobody knows fail nothing."""
    assert read_input(given) == expected


KINDS = (
    "Must be one of: message, function_call, function_call_output, reasoning, item_reference,"
    " web_search_call, input_text, input_image."
)


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        pytest.param("", "", "Must be a string or a non-empty list of items, and say something.", id="empty"),
        pytest.param([], "", "Must be a string or a non-empty list of items, and say something.", id="none"),
        pytest.param(["Hi"], "[0]", "Must be an object.", id="no-object"),
        pytest.param([{"type": "computer_call"}], "[0].type", KINDS, id="unknown-type"),
        pytest.param([{"type": 1}], "[0].type", KINDS, id="type-of-another-kind"),
        pytest.param(
            [{"content": "Hi"}],
            "[0].role",
            "Must be one of: user, assistant, system, developer.",
            id="no-role",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}],
            "[0].content[0].image_url",
            "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched.",
            id="no-data-url",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}],
            "[0].content[0].type",
            "Files are not served here; send their text, or images of their pages.",
            id="a-file",
        ),
        pytest.param(
            [{"type": "function_call", "name": "f"}],
            "[0].call_id",
            "Must be a non-empty string.",
            id="call-of-no-id",
        ),
        pytest.param(
            [{"type": "function_call_output", "output": "x"}],
            "[0].call_id",
            "Must be a non-empty string.",
            id="output-of-no-call",
        ),
        pytest.param(
            [{"type": "function_call_output", "call_id": "c"}],
            "[0].output",
            "Must be a string or a list of parts.",
            id="no-output",
        ),
        pytest.param(
            [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file"}]}],
            "[0].output[0].type",
            "Files are not served here; send their text, or images of their pages.",
            id="output-with-a-file",
        ),
        pytest.param(
            [{"type": "reasoning", "encrypted_content": 1}],
            "[0].encrypted_content",
            "Must be a string or null.",
            id="reasoning-of-another-kind",
        ),
        pytest.param(
            [{"type": "reasoning", "summary": [{"type": "summary_text"}]}],
            "[0].summary[0].text",
            "Must be a string.",
            id="summary-without-text",
        ),
    ],
)
def test_bad_input(given: Any, path: str, message: str) -> None:
    with pytest.raises(ma.ValidationError) as raised:
        read_input(given)
    assert find_first(raised.value.messages) == (path, message)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            Message(USER, (HI, ImagePart(PNG))),
            {
                "id": "msg_7",
                "type": "message",
                "status": "completed",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Hi"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                ],
            },
            id="user",
        ),
        pytest.param(
            Message(ASSISTANT, (HI,)),
            {
                "id": "msg_7",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
            },
            id="assistant",
        ),
        pytest.param(
            PastCall("c", "f", "{}"),
            {
                "id": "fc_7",
                "type": "function_call",
                "status": "completed",
                "call_id": "c",
                "name": "f",
                "arguments": "{}",
            },
            id="call",
        ),
        pytest.param(
            PastOutput("c", ()),
            {
                "id": "fco_7",
                "type": "function_call_output",
                "status": "completed",
                "call_id": "c",
                "output": "",
            },
            id="no-output",
        ),
        pytest.param(
            PastOutput("c", (HI,)),
            {
                "id": "fco_7",
                "type": "function_call_output",
                "status": "completed",
                "call_id": "c",
                "output": "Hi",
            },
            id="output",
        ),
        pytest.param(
            PastOutput("c", (HI, HI)),
            {
                "id": "fco_7",
                "type": "function_call_output",
                "status": "completed",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": "Hi"}],
            },
            id="output-in-parts",
        ),
        pytest.param(
            PastReasoning("gAAA", ("Hm.",), "rs_7"),
            {
                "id": "rs_7",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "gAAA",
            },
            id="reasoning",
        ),
        pytest.param(
            PastReasoning(None, (), "rs_7"),
            {"id": "rs_7", "type": "reasoning", "summary": []},
            id="bare-reasoning",
        ),
    ],
)
def test_what_is_stored_reads_as_it_was(item: HistoryItem, expected: dict[str, Any]) -> None:
    built = build_input_item(item, "7")
    assert (built, read_input([built])) == (expected, (item,))
