"""POST /v1/chat/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence

import flask

from app.handlers.access import Access
from app.handlers.http import json_response, read_json
from app.handlers.stream import stream_response
from app.lib.block_rows import TextPattern
from app.lib.deadlines import Deadlines
from app.lib.dialects.chat import ChatIdentity, ChatStream, build_completion
from app.lib.errors import ClientGone
from app.lib.events import TurnEvent
from app.lib.prompt import build_prompt
from app.lib.result import collect
from app.lib.tool_text import NO_TOOLS, build_chat_tools
from app.lib.turn import TurnCore
from app.pipeline import Backend, run_turn
from app.schemas.chat import ChatRequest, ChatSchema
from app.schemas.loading import load_body
from app.settings import Settings


def build_blueprint(
    backend: Backend, settings: Settings, text_patterns: Sequence[TextPattern] = ()
) -> flask.Blueprint:
    blueprint = flask.Blueprint("chat", __name__)
    tools = build_chat_tools(settings.stop_policy, text_patterns, settings.tool_buffer_max_chars)
    schema = ChatSchema(settings.max_choices)
    deadlines = Deadlines(settings.first_event_timeout_s, settings.idle_timeout_s, settings.total_timeout_s)

    def run(request: ChatRequest) -> Iterator[list[TurnEvent]]:
        """Start a turn that ends with this reply, whatever becomes of it."""
        access: Access = flask.g.access
        prompt = build_prompt(request.turn)
        turn = backend.open_turn(prompt, access.client)
        suited = NO_TOOLS if request.declares_tools else tools.suited_to(prompt)
        core = TurnCore(request.turn.choices, deadlines, suited, secrets.token_hex(4))
        batches = run_turn(turn, core)
        # Last: what a client that left was still owed is counted.
        access.on_close(lambda: access.note_events(core.fail(ClientGone("The client left."))))
        access.on_close(turn.close)
        # Before that: a turn that still waits for its process lets go of it when its generator is closed.
        access.on_close(batches.close)
        return access.observe(batches)

    @blueprint.post("/v1/chat/completions")
    def create() -> flask.Response:
        request: ChatRequest = load_body(schema, read_json())
        flask.g.access.note(model=request.turn.model, stream=request.stream)
        identity = ChatIdentity(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), request.turn.model)
        batches = run(request)
        response = answer(request, identity, batches, settings)
        if request.ignored:
            response.headers["x-proxy-ignored-params"] = ", ".join(request.ignored)
        return response

    return blueprint


def answer(
    request: ChatRequest, identity: ChatIdentity, batches: Iterator[list[TurnEvent]], settings: Settings
) -> flask.Response:
    choices = request.turn.choices
    if request.stream:
        return stream_response(batches, ChatStream(identity, choices, request.include_usage), settings)
    return json_response(build_completion(identity, collect(batches, choices)))
