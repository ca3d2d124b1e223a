"""POST /v1/responses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import flask

from app.handlers.access import Access
from app.handlers.archive import Archive, Context
from app.handlers.background import Background, EventLog, run_unattended
from app.handlers.bodies import read_json
from app.handlers.http import json_response
from app.handlers.logs import REQUEST_ID
from app.handlers.reattach import Follower
from app.handlers.recording import Record, RecordedStream
from app.handlers.stream import build_stream, stream_response
from app.handlers.turns import TurnRunner
from app.lib.answer_rules import ResponsesReading
from app.lib.dialects.response_body import ResponseIdentity, build_response
from app.lib.errors import InvalidRequest, StoreUnavailable
from app.lib.events import TurnEvent
from app.lib.prompt import Prompt, build_prompt, is_told
from app.pipeline import Backend
from app.schemas.loading import load_body
from app.schemas.responses import ResponsesRequest, ResponsesRules, ResponsesSchema
from app.settings import Settings
from app.store.responses import ResponseStore


def build_blueprint(
    backend: Backend, settings: Settings, store: ResponseStore, background: Background
) -> flask.Blueprint:
    blueprint = flask.Blueprint("responses", __name__)
    endpoint = ResponsesEndpoint(TurnRunner(backend, settings), settings, store, background)
    blueprint.add_url_rule("/v1/responses", view_func=endpoint.create, methods=["POST"])
    return blueprint


class ResponsesEndpoint:
    """What every request shares, made once."""

    def __init__(
        self, runner: TurnRunner, settings: Settings, store: ResponseStore, background: Background
    ) -> None:
        self._runner = runner
        self._settings = settings
        self._store = store
        self._background = background
        self._reading = ResponsesReading(
            settings.stop_policy, settings.tool_buffer_max_chars, time.thread_time, settings.tool_transport
        )
        self._schema = ResponsesSchema(
            ResponsesRules(
                settings.enforces_max_tokens,
                settings.parallel_tool_calls,
                settings.tool_transport,
                settings.max_messages,
                settings.max_tools,
                settings.allows_web_search,
            )
        )

    def create(self) -> flask.Response:
        flask.g.allowance.admit(flask.g.access)
        request: ResponsesRequest = load_body(self._schema, read_json())
        describe(request, flask.g.access)
        context = Archive(self._store, flask.g.access.owner).resolve(request)
        turn = request.build_turn(context.history, context.items)
        if not any(map(is_told, turn.history)):
            raise InvalidRequest("input: Must say something.", param="input")
        prompt = build_prompt(turn, self._settings.tool_transport)
        if request.background:
            return self._start(request, context, prompt)
        access: Access = flask.g.access
        identity = build_identity(request)
        recorded = RecordedStream(identity, self._open_record(request, context, access))
        batches = self._run(access, prompt, identity)
        if not request.stream:
            return json_response(recorded.collect(batches))
        access.on_close(recorded.leave)
        return stream_response(batches, recorded, self._settings)

    def _start(self, request: ResponsesRequest, context: Context, prompt: Prompt) -> flask.Response:
        """Answer at once; the turn goes on by itself."""
        self._runner.require_model(flask.g.access, request.turn.model)
        identity = build_identity(request)
        queued = build_response(identity, "queued")
        with self._background.reserve(flask.g.allowance) as start:
            access = flask.g.access.detach()
            record = self._open_record(request, context, access)
            record.begin(queued)
            if not record.is_kept:
                raise StoreUnavailable("A background response has to be stored, which is not possible now.")
            start(lambda: self._work(access, prompt, RecordedStream(identity, record)))
        if not request.stream:
            return json_response(queued)
        archive = Archive(self._store, access.owner)
        follower = Follower(archive, identity.id, flask.g.access.client, self._settings)
        return build_stream(follower.frames(after=-1))

    def _work(self, access: Access, prompt: Prompt, recorded: RecordedStream) -> None:
        identity = recorded.identity
        REQUEST_ID.set(access.request_id)
        access.count()
        try:
            run_unattended(
                recorded, lambda: self._run(access, prompt, identity), EventLog(self._store, identity.id)
            )
        finally:
            access.close()

    def _open_record(self, request: ResponsesRequest, context: Context, access: Access) -> Record:
        return Record(self._store if request.store else None, access, context)

    def _run(self, access: Access, prompt: Prompt, identity: ResponseIdentity) -> Iterator[list[TurnEvent]]:
        return self._runner.run(access, prompt, self._reading.suit(prompt.request), identity.suffix)


def build_identity(request: ResponsesRequest) -> ResponseIdentity:
    return ResponseIdentity(
        secrets.token_hex(16),
        int(time.time()),
        request.turn.model,
        request.echo,
        request.includes_encrypted,
        request.background,
    )


def describe(request: ResponsesRequest, access: Access) -> None:
    """Say in the log, and in the reply whatever becomes of it, how the request was understood."""
    access.note(model=request.turn.model, stream=request.stream)
    if request.echoed_calls:
        access.note(echoed_calls=request.echoed_calls)
    if request.ignored:
        access.tell("x-proxy-ignored-params", ", ".join(request.ignored))
