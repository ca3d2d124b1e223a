"""The models on offer: codex's own list, the operator's, the demo."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any

from app.backend import calls
from app.backend.calls import Call
from app.backend.home import DEMO_MODEL, CodexHome
from app.backend.process import CodexProcess
from app.lib.models import Model, find_model
from app.settings import Settings

FRESH_S = 300.0


class ModelDirectory:
    """Asks codex for its list now and then; the rest comes from the settings."""

    def __init__(self, home: CodexHome, settings: Settings) -> None:
        self._home = home
        self._settings = settings
        self._listed: tuple[Model, ...] = ()
        self._fresh_until_s = 0.0
        #: Where the demo model is served, once it is.
        self.demo_url: str | None = None

    def is_known(self) -> bool:
        return self._fresh_until_s > 0

    def refresh(self, process: CodexProcess) -> Generator[None, None, None]:
        answer = yield from process.rpc.call(calls.LIST_MODELS)
        self._listed = tuple(
            Model(id_, entry.get("model", id_), "openai")
            for entry in answer.get("data") or []
            if isinstance(entry, dict) and isinstance(id_ := entry.get("id"), str)
        )
        self._fresh_until_s = time.monotonic() + FRESH_S

    def find(self, id_: str, process: CodexProcess) -> Generator[None, None, Model]:
        if time.monotonic() >= self._fresh_until_s:
            yield from self.refresh(process)
        return find_model(self.all(), id_)

    def all(self) -> tuple[Model, ...]:
        """Later ones win: what the operator wrote stands over codex's list."""
        named = [Model(id_, id_, "codex-gateway") for id_ in self._home.configured_models()]
        demo = [Model(DEMO_MODEL, DEMO_MODEL, "codex-gateway-demo")] if self.demo_url else []
        by_id = {model.id: model for model in [*named, *self._listed, *self._settings.extra_models, *demo]}
        return tuple(by_id.values())

    def is_demo(self, model: Model) -> bool:
        return self.demo_url is not None and model.target == DEMO_MODEL

    def start_thread(
        self, model: Model, tools: Sequence[dict[str, Any]] = (), web_search: bool = False
    ) -> Call:
        call = calls.start_thread(model.target, str(self._home.work), tools)
        if web_search:
            call = calls.with_web_search(call)
        if self.demo_url and self.is_demo(model):
            # Its port is known only to this worker, so it travels with the thread.
            return calls.with_provider(call, DEMO_MODEL, self.demo_url)
        return call
