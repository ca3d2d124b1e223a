"""The backend: a pool of real codex processes behind the pipeline's seam."""

from __future__ import annotations

from collections.abc import Generator

from app.backend.account_desk import AccountDesk
from app.backend.demo_server import DemoServer
from app.backend.directory import ModelDirectory
from app.backend.drain import Drain
from app.backend.home import CodexHome
from app.backend.keeper import Keeper
from app.backend.lending import borrow
from app.backend.line import Wish
from app.backend.pool import Pool
from app.backend.turn import CodexTurn, TurnContext
from app.backend.waiting import run_through
from app.lib.account import AccountReport, LoginStep
from app.lib.models import Model
from app.lib.prompt import Prompt
from app.pipeline import Census, Client
from app.settings import Settings


class CodexBackend:
    def __init__(self, settings: Settings) -> None:
        self._home = CodexHome(settings)
        self._pool = Pool(self._home, settings)
        self._directory = ModelDirectory(self._home, settings)
        self._drain = Drain()
        self._keeper = Keeper(self._pool, self._home, self._drain)
        self._desk = AccountDesk(self._pool, self._home, self._drain)
        self._context = TurnContext(settings, self._pool, self._directory, self._drain)
        self._demo = DemoServer() if settings.demo else None

    def start(self) -> None:
        self._home.prepare()
        if self._demo:
            self._demo.start()
            self._directory.demo_url = self._demo.base_url
        self._keeper.start()

    def open_turn(self, prompt: Prompt, client: Client, owner: str) -> CodexTurn:
        return CodexTurn(self._context, prompt, client, owner)

    def models(self, client: Client) -> tuple[Model, ...]:
        if not self._directory.is_known():  # once known, turns keep it fresh
            self._refresh_models(client)
        return self._directory.all()

    def _refresh_models(self, client: Client) -> None:
        with borrow(self._pool, Wish(client.patience_s), client) as process:
            run_through(self._directory.refresh(process), client)

    def known_models(self) -> tuple[Model, ...]:
        return self._directory.all()

    def account(self, client: Client) -> AccountReport:
        return self._desk.read_account(client)

    def log_in(self, client: Client) -> Generator[LoginStep | None, None, None]:
        return self._desk.log_in(client)

    def log_out(self, client: Client) -> None:
        self._desk.log_out(client)

    def codex_version(self) -> str | None:
        return self._home.codex_version

    def census(self) -> Census:
        return self._pool.census()

    def is_ready(self) -> bool:
        return self._pool.is_ready

    def drain(self, deadline_s: float) -> None:
        self._drain.deadline_s = deadline_s

    def close(self) -> None:
        self._keeper.stop()
        self._pool.close()
        if self._demo:
            self._demo.close()
