"""The models on offer: codex's own list, the operator's, the demo."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

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
        answer = yield from process.call("model/list", {})
        listed = [entry for entry in answer.get("data") or [] if isinstance(entry.get("id"), str)]
        self._listed = tuple(
            Model(entry["id"], entry.get("model", entry["id"]), "openai") for entry in listed
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

    def thread_params(self, model: Model) -> dict[str, Any]:
        """`thread/start` for a bare conversation with this model."""
        params = {
            "model": model.target,
            "ephemeral": True,
            "baseInstructions": "",
            "sandbox": "read-only",
            "approvalPolicy": "never",
            "environments": [],
            "cwd": str(self._home.work),
            "experimentalRawEvents": True,
        }
        return params | self._demo_provider() if self.is_demo(model) else params

    def _demo_provider(self) -> dict[str, Any]:
        """The worker's own server: its port is known only here, so it travels with the thread."""
        provider = {
            "name": DEMO_MODEL,
            "base_url": self.demo_url,
            "wire_api": "responses",
            "request_max_retries": 0,
            "stream_max_retries": 0,
        }
        return {"modelProvider": DEMO_MODEL, "config": {"model_providers": {DEMO_MODEL: provider}}}
