"""The official client against the gateway, in process; and parity of its folded stream with the body."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from app.lib import errors
from app.lib.events import FinishReason, MessageDone, ReasoningDone, Retrying, Tick
from app.lib.models import Model
from app.lib.usage import Usage
from tests.support.scripted_backend import MODELS, ScriptedBackend, Step, end, say, think

ASK: dict[str, Any] = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hi"}]}


def test_create(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("Hel", "lo"), end()]
    completion = sdk.chat.completions.create(**ASK)
    choice = completion.choices[0]
    assert (
        choice.message.content,
        choice.finish_reason,
        completion.usage and completion.usage.total_tokens,
    ) == (
        "Hello",
        "stop",
        140,
    )


def test_stream(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("Hel"), [Tick(0)], say("lo"), end()]
    with sdk.chat.completions.create(**ASK, stream=True) as chunks:
        deltas = [chunk.choices[0].delta.content for chunk in chunks]
    assert (deltas, backend.turns[0].closes) == (["", "Hel", "lo", None], 1)


def test_a_stream_that_is_left(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("a"), say("b"), end()]
    with sdk.chat.completions.create(**ASK, stream=True) as chunks:
        next(chunks)
    assert backend.turns[0].closes == 1


def test_raw_response(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), end()]
    raw = sdk.chat.completions.with_raw_response.create(**ASK, temperature=0)
    headers = (raw.headers["x-proxy-ignored-params"], raw.headers["x-request-id"] == raw.request_id)
    assert (headers, raw.parse().choices[0].message.content) == (("temperature", True), "Hi")


def test_models_list(sdk: openai.OpenAI) -> None:
    listed = [Model(model.id, "", model.owned_by) for model in sdk.models.list()]
    assert listed == [Model(model.id, "", model.owned_by) for model in MODELS]


def test_models_retrieve(sdk: openai.OpenAI) -> None:
    assert sdk.models.retrieve("gpt-5.5").owned_by == "openai"


@pytest.mark.parametrize("stream", [pytest.param(False, id="body"), pytest.param(True, id="stream")])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(errors.InvalidRequest("No.", param="n"), openai.BadRequestError, id="400"),
        pytest.param(errors.InvalidKey("No."), openai.AuthenticationError, id="401"),
        pytest.param(errors.UnknownModel("No.", param="model"), openai.NotFoundError, id="404"),
        pytest.param(errors.RateLimited("No."), openai.RateLimitError, id="429"),
        pytest.param(errors.InternalError("No."), openai.InternalServerError, id="500"),
        pytest.param(errors.BackendRefused("No."), openai.InternalServerError, id="502"),
        pytest.param(errors.BackendUnavailable("No."), openai.InternalServerError, id="503"),
        pytest.param(errors.BackendTimeout("No."), openai.InternalServerError, id="504"),
    ],
)
def test_errors_have_the_clients_types(
    sdk: openai.OpenAI,
    backend: ScriptedBackend,
    error: errors.ProxyError,
    kind: type[openai.APIStatusError],
    stream: bool,
) -> None:
    backend.script = [[Tick(0)], error]
    with pytest.raises(openai.APIStatusError) as raised:
        sdk.chat.completions.create(**ASK, stream=stream)
    told = raised.value
    assert (type(told), told.status_code, told.code, told.param, told.type, told.body) == (
        kind,
        error.status,
        error.code,
        error.param,
        error.type,
        error.to_dict()["error"],
    )


def test_an_error_on_the_way_is_raised_by_the_stream(sdk: openai.OpenAI, backend: ScriptedBackend) -> None:
    backend.script = [say("Hi"), errors.AnswerInterrupted("Broke.")]
    with sdk.chat.completions.create(**ASK, stream=True) as chunks:
        shown = [next(chunks).choices[0].delta.content for _ in range(2)]
        with pytest.raises(openai.APIError, match=r"^Broke\.$") as raised:
            next(chunks)
    assert (shown, raised.value.code) == (["", "Hi"], "answer_interrupted")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(errors.QuotaExceeded("No."), id="quota"),
        pytest.param(errors.BackendRefused("No."), id="refused"),
        pytest.param(errors.InvalidRequest("No."), id="bad-request"),
    ],
)
def test_what_is_refused_for_good_is_not_tried_again(
    sdk: openai.OpenAI, backend: ScriptedBackend, error: errors.ProxyError
) -> None:
    backend.script = [error]
    with pytest.raises(openai.APIStatusError):
        sdk.with_options(max_retries=2).chat.completions.create(**ASK)
    assert len(backend.turns) == 1


USE = '<use_tool><name>f</name><args>{"a": 1}</args></use_tool>'
LENGTH, FILTER = FinishReason.LENGTH, FinishReason.CONTENT_FILTER


@pytest.mark.parametrize(
    ("choices", "script"),
    [
        pytest.param(1, [say("Hel"), say("lo"), end()], id="text"),
        pytest.param(1, [say(*"1,1,1, é字🙂\n\n"), end()], id="a-character-at-a-time"),
        pytest.param(1, [say("a", "b") + end()], id="one-batch"),
        pytest.param(1, [[Tick(0)], [Tick(1)], say("a"), [Tick(2)], end()], id="ticks-between"),
        pytest.param(1, [think("Hm", "m."), say("Yes."), end()], id="reasoning"),
        pytest.param(1, [think("Hm"), think("So", part=1), say("Yes."), end()], id="reasoning-in-parts"),
        pytest.param(1, [think("One."), think("Two.", part=1), end()], id="only-reasoning"),
        pytest.param(
            1, [[ReasoningDone(0, "r", ("Hm.",)), MessageDone(0, "m", "Yes.")], end()], id="no-deltas"
        ),
        pytest.param(
            1, [say("a"), [MessageDone(0, "msg_0", "a")], say("b", item_id="m2"), end()], id="items"
        ),
        pytest.param(1, [[Retrying(0, "…")], say("a"), end()], id="an-unseen-retry"),
        pytest.param(1, [end()], id="nothing"),
        pytest.param(1, [say("cut o"), end(LENGTH)], id="length"),
        pytest.param(1, [say("no"), end(FILTER)], id="content-filter"),
        pytest.param(1, [say("a"), end(usage=Usage())], id="no-usage"),
        pytest.param(1, [say("Look: ", USE, " tail"), end()], id="a-tool-block"),
        pytest.param(1, [say(*f"Look: {USE}"), end()], id="a-tool-block-a-character-at-a-time"),
        pytest.param(1, [say(USE, "<use_tool><name>g</name></use_tool>"), end()], id="two-tool-blocks"),
        pytest.param(1, [say("<use_tool>open"), end()], id="a-tool-block-that-stays-open"),
        pytest.param(2, [say("a"), say(USE, choice=1), end(), end(choice=1)], id="one-choice-calls"),
        pytest.param(2, [say("a"), say("b", choice=1), end(), end(choice=1)], id="two-choices"),
        pytest.param(
            3,
            [
                say("b", choice=1) + think("Hm.", choice=2),
                end(LENGTH, choice=1),
                say("a") + say("c", choice=2) + end(choice=2),
                end(),
            ],
            id="three-choices-interleaved",
        ),
    ],
)
def test_parity(sdk: openai.OpenAI, backend: ScriptedBackend, choices: int, script: list[Step]) -> None:
    """Our stream as the SDK folds it equals our body, but for what every answer has of its own."""
    backend.script = script
    body = sdk.chat.completions.create(**ASK, n=choices)
    with sdk.chat.completions.stream(**ASK, n=choices, stream_options={"include_usage": True}) as events:
        events.until_done()
        # `get_final_completion` would be this, but raises where an answer was cut short.
        folded = events._state.current_completion_snapshot
    assert to_answer(folded) == to_answer(body)


def to_answer(completion: Any) -> dict[str, Any]:
    dumped = completion.to_dict()
    return {
        "model": dumped["model"],
        "usage": dumped["usage"],
        "choices": [
            {
                "index": choice["index"],
                "finish_reason": choice["finish_reason"],
                "role": choice["message"]["role"],
                "content": choice["message"]["content"],
                "tool_calls": [to_call(call) for call in choice["message"].get("tool_calls") or ()],
                "reasoning_content": choice["message"].get("reasoning_content"),
            }
            for choice in dumped["choices"]
        ],
    }


def to_call(call: dict[str, Any]) -> dict[str, Any]:
    """Without what is random in its id, and the place that a fold of the stream keeps."""
    function = {key: call["function"][key] for key in ("name", "arguments")}
    return {"id": call["id"].rpartition("_")[0], "type": call["type"], "function": function}
