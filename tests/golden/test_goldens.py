"""The goldens hold: nothing on the wire has changed unseen, and each stream adds up to its body."""

from __future__ import annotations

import json
import pathlib
from collections import defaultdict
from typing import Any

import pydantic
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from tests.golden.cases import CASES, Case
from tests.golden.render import FOLDER, OVERVIEW, mask, render_all, write_all
from tests.support.sse import DONE, read_events, read_frames

ADVICE = "the wire has changed; if that is meant, run `make goldens` and look at the difference"
EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)
STREAMS = sorted(path.stem for path in FOLDER.glob("*.sse") if not path.stem.startswith("responses-"))
RESPONSES = sorted(path.stem for path in FOLDER.glob("responses-*.sse"))


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return render_all()


def test_the_folder_holds_the_goldens_and_nothing_else(rendered: dict[str, str]) -> None:
    """None is missing, none is left over."""
    assert {path.name for path in FOLDER.iterdir()} == set(rendered), ADVICE


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_a_golden_holds(case: Case, rendered: dict[str, str]) -> None:
    names = [name for name in rendered if name.partition(".")[0] == case.name]
    assert len(names) == 2
    for name in names:
        assert (FOLDER / name).read_text("utf-8") == rendered[name], f"{name}: {ADVICE}"


def test_the_overview_holds(rendered: dict[str, str]) -> None:
    """Statuses, headers, and what was asked for."""
    assert (FOLDER / OVERVIEW).read_text("utf-8") == rendered[OVERVIEW], ADVICE


def test_goldens_are_the_same_every_time(rendered: dict[str, str]) -> None:
    assert render_all() == rendered


def test_writing_them_removes_what_is_left_over(tmp_path: pathlib.Path, rendered: dict[str, str]) -> None:
    (tmp_path / "old.sse").write_text("data: [DONE]\n\n")
    write_all(tmp_path)
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == rendered


A, B = "a" * 24, "b" * 24


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f'"chatcmpl-{A}","chatcmpl-{A}"', '"chatcmpl-<1>","chatcmpl-<1>"', id="one-id-twice"),
        pytest.param(
            f'"chatcmpl-{B}","chatcmpl-{A}","chatcmpl-{B}"',
            '"chatcmpl-<1>","chatcmpl-<2>","chatcmpl-<1>"',
            id="two-ids",
        ),
        pytest.param(
            '{"created":17}{"created":17}{"created":18}',
            '{"created":1}{"created":1}{"created":2}',
            id="times",
        ),
        pytest.param(
            f"tool_0_0_{A[:8]} tool_1_0_{A[:8]} tool_0_1_{B[:8]}",
            "tool_0_0_<1> tool_1_0_<1> tool_0_1_<2>",
            id="calls-of-one-turn-and-of-another",
        ),
        pytest.param(f"req_{A}", "req_<1>", id="a-request"),
        pytest.param(
            "tool_0_0 chatcmpl-1 say created: 5", "tool_0_0 chatcmpl-1 say created: 5", id="nothing-random"
        ),
    ],
)
def test_what_is_equal_stays_equal(text: str, expected: str) -> None:
    """So a chunk with another id than its stream's, or a call of another turn, shows in a golden."""
    assert mask(text) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_parity(name: str) -> None:
    """A stream, as the official SDK adds it up, is the body of the same turn; or fails as that does."""
    *frames, last = read_frames((FOLDER / f"{name}.sse").read_bytes())
    body = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    assert last == DONE
    if "error" in body:
        assert frames[-1] == body
        return
    folded = fold(frames)
    untold = () if "usage" in folded else ("usage",)
    assert folded == {key: value for key, value in drop_empty(body).items() if key not in untold}


@pytest.mark.parametrize("name", RESPONSES)
def test_parity_in_responses(name: str) -> None:
    """The last event of a stream holds the body of the same turn, or that fails as this does."""
    data = (FOLDER / f"{name}.sse").read_bytes()
    assert data.endswith(b"\n\ndata: [DONE]\n\n")
    *events, last = read_events(data)
    body = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    if "error" in body and "id" not in body:
        assert (events[-1]["error"], last["type"]) == (body["error"], "response.failed")
    else:
        assert last["response"] == body


@pytest.mark.parametrize("name", RESPONSES)
def test_every_event_of_a_golden_is_one_of_the_sdk_s(name: str) -> None:
    """Validated by the SDK's own types, strictly; numbered from 0."""
    events = read_events((FOLDER / f"{name}.sse").read_bytes())
    assert [EVENT.validate_python(event, strict=True).type for event in events] == [
        event["type"] for event in events
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in FOLDER.glob("*.stream.json")])
def test_a_stream_that_never_begins_is_the_error_that_a_body_is(path: pathlib.Path) -> None:
    assert path.read_text("utf-8") == (FOLDER / path.name.replace(".stream", "")).read_text("utf-8")


def fold(frames: list[dict[str, Any]]) -> dict[str, Any]:
    state = ChatCompletionStreamState()
    for frame in frames:
        state.handle_chunk(ChatCompletionChunk.model_validate(frame))
    folded: dict[str, Any] = drop_empty(state.current_completion_snapshot.to_dict())
    for choice in folded["choices"]:
        for call in choice["message"].get("tool_calls", ()):
            del call["index"]
            call.pop("arguments", None)  # what `obsidian-xml` repeats beside `function`
    return folded


def drop_empty(value: Any) -> Any:
    """Without what is null or an empty text: a stream says nothing of what is not there."""
    match value:
        case dict():
            return {key: drop_empty(each) for key, each in value.items() if each not in (None, "")}
        case list():
            return [drop_empty(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize("name", STREAMS)
def test_repeated_arguments_are_those_so_far(name: str) -> None:
    """Story 2.8 AC 17, 2.9 AC 8: beside `function` stands all that was sent of the arguments, or nothing."""
    sent: dict[tuple[int, int], str] = defaultdict(str)
    for frame in read_frames((FOLDER / f"{name}.sse").read_bytes())[:-1]:
        for choice in frame.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                place = choice["index"], call["index"]
                sent[place] += call["function"]["arguments"]
                assert call.get("arguments", sent[place]) == sent[place]
