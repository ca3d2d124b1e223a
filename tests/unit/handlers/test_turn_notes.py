"""What is noted of a turn, apart from any request."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import flask
import pytest

from app.handlers.access import Access
from app.handlers.client import Nobody
from app.handlers.turn_notes import MOST_CRUMBS, TurnNotes
from app.lib.errors import BackendUnavailable, ClientGone, InternalError
from app.lib.events import Failed, Note, NoteKind, ToolBlock, ToolCalled, TurnEvent
from app.lib.text_gate import Reason
from app.lib.tool_call_aggregator import ToolCallAggregator

CALL = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]}


@pytest.fixture
def access(app: flask.Flask) -> Access:
    return Access(Nobody(), "req_1", app.extensions["telemetry"])


def called(choice: int) -> ToolCalled:
    (delta,) = ToolCallAggregator().ingest_delta(CALL, choice).deltas
    return ToolCalled(choice, delta)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([called(0), called(0), called(1)], {"tool_calls": 2}, id="a-call-is-told-in-pieces"),
        pytest.param([ToolBlock(0, "m1", "<a/>")] * 2, {"text_calls": 2}, id="blocks"),
        pytest.param(
            [Failed(BackendUnavailable("Gone.")), Failed(ClientGone("Left."))],
            {"error": "backend_unavailable"},
            id="the-first-failure-is-the-cause",
        ),
    ],
)
def test_what_becomes_of_events(access: Access, events: list[TurnEvent], expected: dict[str, Any]) -> None:
    TurnNotes(access).add(events)
    assert access.fields == expected


def test_a_turn_that_breaks_ends_as_a_failure(access: Access) -> None:
    """After the first byte nothing may be raised."""

    def break_off() -> Generator[list[TurnEvent], None, None]:
        yield []
        raise RuntimeError

    ((), (failed,)) = TurnNotes(access).observe(break_off())
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, InternalError)


def test_crumbs_are_few_and_what_was_lost_is_a_warning(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "app.tool_buffers")
    notes = TurnNotes(access)
    notes.add([Note(0, NoteKind.BUFFER_ABORTED, "use_tool", Reason.PROSE)])
    notes.add([Note(0, NoteKind.BUFFER_ABORTED, "use_tool", Reason.CLIENT_LEFT)] * 2 * MOST_CRUMBS)
    levels = [record.levelno for record in caplog.records if record.name == "app.tool_buffers"]
    assert levels == [logging.DEBUG, *[logging.WARNING] * MOST_CRUMBS]
