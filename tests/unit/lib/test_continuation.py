"""Which requests tell the same conversation, and what they bring to one that waits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.lib.continuation import (
    Delivery,
    digest_history,
    digest_terms,
    find_answered,
    split_delivery,
    split_follow_up,
)
from app.lib.conversation import Conversation
from app.lib.placement import Origin
from app.lib.prompt import build_prompt
from app.lib.request import (
    HistoryItem,
    ImagePart,
    JsonFormat,
    Message,
    PastCall,
    PastOutput,
    PastReasoning,
    Role,
    TextPart,
    TurnRequest,
)
from app.lib.tool_calls import ToolCallFunction, ToolCallRecord
from app.lib.tool_registry import ChoiceMode, ToolChoice, ToolRegistry, ToolSpec

History = tuple[HistoryItem, ...]


def says(role: Role, *texts: str) -> Message:
    return Message(role, tuple(map(TextPart, texts)))


def gives(call_id: str, *texts: str) -> PastOutput:
    return PastOutput(call_id, tuple(map(TextPart, texts)))


RULES, HI, LOOK = (
    says(Role.DEVELOPER, "Be kind."),
    says(Role.USER, "Hi"),
    says(Role.ASSISTANT, "Let me look."),
)
A, B = PastCall("a", "f", '{"x": 1, "y": 2}'), PastCall("b", "g", "")
OUT_A, OUT_B = gives("a", "one"), gives("b", "two")
THOUGHT = PastReasoning("secret")
LONG = "x" * 100_000
MORE = says(Role.USER, "And Oslo?")


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        pytest.param((HI, LOOK), (HI, LOOK), True, id="the-same"),
        pytest.param((HI,), (MORE,), False, id="other-words"),
        pytest.param((HI,), (says(Role.DEVELOPER, "Hi"),), False, id="another-role"),
        pytest.param((HI,), (HI, HI), False, id="twice"),
        pytest.param((says(Role.USER, "a", "b"),), (says(Role.USER, "ab"),), False, id="parts-of-a-user"),
        pytest.param(
            (HI, says(Role.ASSISTANT, "Let me ", "look.")), (HI, LOOK), True, id="parts-of-an-answer"
        ),
        pytest.param(
            (HI, says(Role.ASSISTANT, "Let me "), says(Role.ASSISTANT, "look.")),
            (HI, LOOK),
            True,
            id="an-answer-in-two",
        ),
        pytest.param((LOOK, HI, LOOK), (LOOK, LOOK, HI), False, id="another-order"),
        pytest.param((HI, THOUGHT, LOOK), (HI, LOOK), True, id="reasoning-is-left-out"),
        pytest.param((HI, LOOK, A, B), (HI, A, LOOK, B), True, id="words-among-calls"),
        pytest.param((HI, A, B), (HI, B, A), False, id="calls-in-another-order"),
        pytest.param((HI, A), (HI, PastCall("a", "f", '{"y":2,"x":1}')), True, id="arguments-written-anew"),
        pytest.param((HI, A), (HI, PastCall("a", "f", '{"y":2,"x":3}')), False, id="other-arguments"),
        pytest.param((HI, B), (HI, PastCall("b", "g", "{}")), True, id="no-arguments"),
        *(
            pytest.param((PastCall("a", "f", one),), (PastCall("a", "f", other),), False, id=f"not-{other}")
            for one, other in [
                ("[123456789012345678901]", "[123456789012345678902]"),
                ("[0.1]", "[0.1000000000000000000001]"),
                ('{"a":2}', '{"a":1,"a":2}'),
                ('{"a":1,"a":2}', '{"a":2,"a":1}'),
                ("[1]", '[{"number":"1"}]'),
                ("[1]", '["1"]'),
                ('{"object":[]}', "{}"),
            ]
        ),
        pytest.param(
            (PastCall("a", "f", f'{{"x": "{LONG}"}}'),),
            (PastCall("a", "f", f'{{"x":"{LONG}"}}'),),
            False,
            id="long-arguments-are-text",
        ),
        pytest.param((HI, B), (HI, PastCall("b", "g", "{")), False, id="broken-arguments"),
        pytest.param((HI, A), (HI, PastCall("a", "g", A.arguments)), False, id="another-tool"),
        pytest.param((HI, A), (HI, PastCall("c", "f", A.arguments)), False, id="another-call"),
        pytest.param((HI, A, OUT_A), (HI, A, gives("a", "two")), False, id="another-result"),
        pytest.param(
            (Message(Role.USER, (ImagePart("data:x"),)),), (says(Role.USER, "data:x"),), False, id="image"
        ),
        pytest.param(
            (Message(Role.ASSISTANT, (ImagePart("data:x"),)),),
            (says(Role.ASSISTANT, "x"),),
            False,
            id="shown",
        ),
        pytest.param((HI, LOOK), (HI,), False, id="less"),
    ],
)
def test_one_conversation_has_one_digest(first: History, second: History, is_same: bool) -> None:
    assert (digest_history(first) == digest_history(second)) is is_same


def test_arguments_too_deep_to_be_told_stay_text() -> None:
    deep = "[" * 500 + "]" * 500
    assert digest_history([PastCall("a", "f", deep)]) != digest_history([PastCall("a", "f", deep + " ")])


DEMANDED = ToolChoice(ChoiceMode.REQUIRED)
SPEC = ToolSpec("f", "does", {"type": "object"})
PLAIN = TurnRequest("m", (HI,), tools=ToolRegistry([SPEC]))


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        pytest.param({}, True, id="the-same"),
        pytest.param({"history": ()}, True, id="history"),
        pytest.param({"stop": ("x",), "max_tokens": 5}, True, id="limits-of-our-own"),
        pytest.param({"tools": ToolRegistry([dataclasses.replace(SPEC, strict=True)])}, False, id="strict"),
        pytest.param({"model": "n"}, False, id="model"),
        pytest.param({"effort": "low"}, False, id="effort"),
        pytest.param({"summary": "none"}, False, id="summary"),
        pytest.param({"web_search": True}, False, id="search"),
        pytest.param({"parallel": False}, False, id="parallel"),
        pytest.param({"tools": ToolRegistry()}, False, id="no-tools"),
        pytest.param({"tools": ToolRegistry([dataclasses.replace(SPEC, parameters={})])}, False, id="schema"),
        pytest.param(
            {"tools": ToolRegistry([SPEC], ToolChoice(ChoiceMode.NONE))}, False, id="another-choice"
        ),
        pytest.param(
            {"tools": ToolRegistry([SPEC], ToolChoice(allowed=frozenset()))}, False, id="none-allowed"
        ),
        pytest.param({"json_format": JsonFormat()}, False, id="format"),
    ],
)
def test_terms(changes: dict[str, Any], is_same: bool) -> None:
    assert (digest_terms(dataclasses.replace(PLAIN, **changes)) == digest_terms(PLAIN)) is is_same


def nest(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def test_terms_too_deep_to_be_told_are_nobodys() -> None:
    deep = dataclasses.replace(PLAIN, json_format=JsonFormat(nest(2000), strict=True))
    conversation = Conversation("me", build_prompt(deep))
    assert (digest_terms(deep), conversation.is_kept) == (None, False)
    assert conversation.find_key_behind("x") is None


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param((HI, A, OUT_A), Delivery((HI, A), {"a": OUT_A}, ()), id="a-result"),
        pytest.param(
            (HI, LOOK, A, B, OUT_B, OUT_A, MORE, RULES),
            Delivery((HI, LOOK, A, B), {"a": OUT_A, "b": OUT_B}, (MORE, RULES)),
            id="words-behind",
        ),
        pytest.param(
            (HI, A, OUT_A, B, OUT_B), Delivery((HI, A, B), {"a": OUT_A, "b": OUT_B}, ()), id="one-by-one"
        ),
        pytest.param((OUT_A,), Delivery((), {"a": OUT_A}, ()), id="alone"),
        pytest.param(
            (HI, PastCall("c", "f", ""), gives("c", "x"), A, OUT_A),
            Delivery((HI, PastCall("c", "f", ""), gives("c", "x"), A), {"a": OUT_A}, ()),
            id="earlier-calls-are-history",
        ),
        pytest.param((HI, A, OUT_A, LOOK), None, id="answered-already"),
        pytest.param((HI, A, OUT_A, MORE, LOOK), None, id="gone-on-with"),
        pytest.param((HI, A, B, OUT_A, MORE, OUT_B), None, id="words-between"),
        pytest.param((HI, A, OUT_A, OUT_A), None, id="a-result-twice"),
        pytest.param((HI,), Delivery((HI,), {}, ()), id="none"),
    ],
)
def test_split_delivery(history: History, expected: Delivery | None) -> None:
    assert split_delivery(TurnRequest("m", history), {"a", "b"}) == expected


def test_what_was_found_for_a_client_is_not_what_it_tells() -> None:
    request = TurnRequest("m", (HI, A, OUT_A), brings_results_only=True)
    assert split_delivery(request, {"a"}) == Delivery((), {"a": OUT_A}, ())


@pytest.mark.parametrize(
    ("history", "told"),
    [
        pytest.param((RULES, HI), 0, id="nothing-said-yet"),
        pytest.param((HI, LOOK, MORE, RULES), 2, id="an-answer"),
        pytest.param((HI, A, OUT_A), 2, id="a-call"),
        pytest.param((HI, LOOK), 2, id="nothing-new"),
        pytest.param((), 0, id="nothing"),
    ],
)
def test_split_follow_up(history: History, told: int) -> None:
    assert split_follow_up(history) == (history[:told], history[told:])


def test_find_answered() -> None:
    assert find_answered((HI, A, OUT_A, LOOK, OUT_B)) == {"a", "b"}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param((HI, A, B, OUT_A, OUT_B, MORE), {"a", "b"}, id="a-batch"),
        pytest.param((HI, A, OUT_A, B, OUT_B), {"b"}, id="one-by-one"),
        pytest.param((HI, A, OUT_A, LOOK, MORE), set(), id="answered-long-ago"),
    ],
)
def test_results_behind_the_last_word(history: History, expected: set[str]) -> None:
    assert converse(history).find_answered() == expected


def converse(history: History, owner: str = "me", **changes: Any) -> Conversation:
    return Conversation(owner, build_prompt(dataclasses.replace(PLAIN, history=history, **changes)))


def record(call: PastCall) -> ToolCallRecord:
    return ToolCallRecord(call.call_id, ToolCallFunction(call.name), call.arguments, f"codex-{call.call_id}")


KEY = converse((RULES, HI)).find_key_behind("Let me look.", [record(A), record(B)])
BOTH = (RULES, HI, LOOK, A, B, OUT_A, OUT_B)


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        pytest.param(
            converse((*BOTH, MORE)), Delivery(BOTH[:5], {"a": OUT_A, "b": OUT_B}, (MORE,)), id="its"
        ),
        pytest.param(converse((OUT_A, OUT_B)), Delivery((), {"a": OUT_A, "b": OUT_B}, ()), id="alone"),
        pytest.param(converse(BOTH, "you"), Origin.OTHER_KEY, id="another-key"),
        pytest.param(converse(BOTH, effort="low"), Origin.OTHER_TERMS, id="other-terms"),
        pytest.param(converse(BOTH[:-1]), Origin.RESULTS_MISSING, id="a-result-is-missing"),
        pytest.param(converse(BOTH[1:]), Origin.OTHER_HISTORY, id="another-beginning"),
        pytest.param(converse((*BOTH, LOOK)), Origin.OTHER_HISTORY, id="answered-already"),
        pytest.param(converse((*BOTH, MORE, LOOK)), Origin.OTHER_HISTORY, id="gone-on-with"),
        pytest.param(converse((*BOTH[1:5], A, OUT_A, OUT_B)), Origin.OTHER_HISTORY, id="a-call-twice"),
    ],
)
def test_match(conversation: Conversation, expected: Delivery | Origin) -> None:
    assert KEY
    assert conversation.match(KEY, {"a", "b"}) == expected


def test_a_follow_up_tells_what_its_thread_holds() -> None:
    key = converse((RULES, HI)).find_key_behind("Let me look.")
    follow_up = converse((RULES, HI, THOUGHT, LOOK, MORE, Message(Role.USER, ()))).find_follow_up()
    assert (follow_up.key, follow_up.said) == (key, [MORE])


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((RULES, HI), id="the-first-request"),
        pytest.param((HI, LOOK), id="nothing-new"),
        pytest.param((HI, LOOK, Message(Role.USER, ())), id="nothing-said"),
        pytest.param((HI, A, OUT_A), id="results"),
    ],
)
def test_what_follows_up_nothing(history: History) -> None:
    follow_up = converse(history).find_follow_up()
    assert (follow_up.key, [*follow_up.said]) == (None, [])


@pytest.mark.parametrize(
    ("changes", "is_kept", "expected"),
    [
        pytest.param({}, True, True, id="kept"),
        pytest.param({}, False, False, id="switched-off"),
        pytest.param({"choices": 2}, True, False, id="several-choices"),
        pytest.param({"json_format": JsonFormat()}, True, False, id="words-of-ours"),
        pytest.param({"json_format": JsonFormat({"properties": {}}, True)}, True, True, id="a-schema"),
        pytest.param(
            {"tools": ToolRegistry([SPEC], ToolChoice(ChoiceMode.REQUIRED))},
            True,
            False,
            id="a-demanded-call",
        ),
    ],
)
def test_what_is_kept(changes: dict[str, Any], is_kept: bool, expected: bool) -> None:
    conversation = Conversation("me", build_prompt(dataclasses.replace(PLAIN, **changes)), is_kept)
    assert (conversation.is_kept, conversation.find_key_behind("x") is not None) == (expected, expected)
