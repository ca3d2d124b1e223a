"""POST /v1/chat/completions."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator, Sequence

import flask

from app.handlers.access import Access
from app.handlers.bodies import read_json
from app.handlers.http import json_response
from app.handlers.stream import stream_response
from app.handlers.turns import TurnRunner
from app.lib.answer_rules import ChatReading
from app.lib.block_rows import TextPattern
from app.lib.dialects.chat import ChatIdentity, ChatStream, ChatStyle, build_completion
from app.lib.errors import InvalidRequest
from app.lib.events import TurnEvent
from app.lib.output_mode import OutputMode, choose_mode, parse_mode
from app.lib.prompt import build_prompt, mentions
from app.lib.result import collect
from app.pipeline import Backend
from app.schemas.chat import ChatRequest, ChatRules, ChatSchema
from app.schemas.loading import load_body
from app.settings import Settings

MODE_HEADER = "x-proxy-output-mode"


def build_blueprint(
    backend: Backend, settings: Settings, text_patterns: Sequence[TextPattern] = ()
) -> flask.Blueprint:
    blueprint = flask.Blueprint("chat", __name__)
    endpoint = ChatEndpoint(backend, settings, text_patterns)
    blueprint.add_url_rule("/v1/chat/completions", view_func=endpoint.create, methods=["POST"])
    return blueprint


class ChatEndpoint:
    """What every chat request shares, made once."""

    def __init__(self, backend: Backend, settings: Settings, text_patterns: Sequence[TextPattern]) -> None:
        self._runner = TurnRunner(backend, settings)
        self._settings = settings
        self._reading = ChatReading(
            settings.stop_policy,
            text_patterns,
            settings.tool_buffer_max_chars,
            settings.obsidian_escape,
            time.thread_time,
            settings.tool_transport,
        )
        self._schema = ChatSchema(
            ChatRules(
                settings.enforces_max_tokens,
                settings.parallel_tool_calls,
                settings.tool_transport,
                settings.max_messages,
                settings.max_tools,
                settings.max_choices,
            )
        )

    def create(self) -> flask.Response:
        flask.g.allowance.admit(flask.g.access)
        asked = read_mode(flask.request.headers.get(MODE_HEADER))
        request: ChatRequest = load_body(self._schema, read_json())
        settings = self._settings
        mode = choose_mode(
            asked, request.declares_tools, settings.output_mode, settings.output_mode_by_request
        )
        describe(request, mode)
        batches = self._run(request, mode, is_asked=asked is not None)
        style = ChatStyle(mode, request.legacy, settings.cumulative_arguments)
        return answer(request, style, batches, settings)

    def _run(self, request: ChatRequest, mode: OutputMode, is_asked: bool) -> Iterator[list[TurnEvent]]:
        prompt = build_prompt(request.turn, self._settings.tool_transport)
        expects_blocks = is_asked or request.declares_tools or mentions(prompt, self._reading.openers)
        rules = self._reading.suit(request.turn, mode, expects_blocks)
        if request.legacy:  # `function_call` has no id that a result could name
            rules = dataclasses.replace(rules, awaits_results=False)
        return self._runner.run(flask.g.access, prompt, rules, secrets.token_hex(4))


def read_mode(header: str | None) -> OutputMode | None:
    mode = parse_mode(header) if header else None
    if header and mode is None:
        raise InvalidRequest(f"{MODE_HEADER}: must be one of {', '.join(OutputMode)}.", param=MODE_HEADER)
    return mode


def describe(request: ChatRequest, mode: OutputMode) -> None:
    """Say in the log and in the reply, whatever becomes of it, how the request was understood."""
    access: Access = flask.g.access
    access.note(model=request.turn.model, stream=request.stream, output_mode=mode.value)
    access.tell(MODE_HEADER, mode.value)
    if request.ignored:
        access.tell("x-proxy-ignored-params", ", ".join(request.ignored))


def answer(
    request: ChatRequest, style: ChatStyle, batches: Iterator[list[TurnEvent]], settings: Settings
) -> flask.Response:
    identity = ChatIdentity(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), request.turn.model)
    choices = request.turn.choices
    if request.stream:
        stream = ChatStream(identity, choices, request.include_usage, style)
        return stream_response(batches, stream, settings)
    return json_response(build_completion(identity, collect(batches, choices), style))
