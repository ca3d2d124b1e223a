"""The gateway as the checks see it: its parts, each made once by the first check that needs it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from app.backend.home import CodexHome
from app.backend.login import AHEAD_S
from app.backend.process import CodexProcess
from app.backend.waiting import run_through
from app.settings import Settings

T = TypeVar("T")

VERSION_S = 5.0
#: How long codex may take for each answer; less if the settings say so.
ANSWER_S = 10.0
#: How often a wait looks around.
TICK_S = 0.05
#: Files that a living gateway keeps locked.
LOCKED = ("processes/*/stderr", "responses/worker-*.lock")
CATALOGUE_ADVICE = "remove it and it is made anew, or correct model_catalog_json in PROXY_CODEX_CONFIG_FILE"
INSTALL_ANEW = "have the gateway installed anew: `make clean venv`, or by pip"


@dataclass(frozen=True, slots=True)
class Catalogue:
    path: str
    #: By the names that codex has for them.
    models: dict[str, dict[str, Any]]


class Unfit(Exception):
    """One line that says what is in the way, and what to do."""


class Blocked(Exception):
    """What a check needs is not there, and another check tells why."""


class Once(Generic[T]):
    """Something made when it is first asked for; who asks after that failed is not told why again."""

    def __init__(self, make: Callable[[], T], without: str) -> None:
        self._make = make
        #: What is so if it cannot be made, or something that it needs.
        self._without = without
        self._is_tried = False
        self._made: list[T] = []

    def get(self) -> T:
        if not self._made:
            if self._is_tried:  # in vain, or it hangs
                raise Blocked(self._without)
            self._is_tried = True
            try:
                self._made.append(self._make())
            except Blocked as reason:
                self._without = str(reason)
                raise
        return self._made[0]


class Patient:
    def __init__(self, settings: Settings, url: str | None = None) -> None:
        self.settings = hasten(settings)
        #: Where clients reach the gateway, if that is to be looked at.
        self.url = url
        #: Whether a gateway runs on this state folder: then nothing in it is made anew.
        self.is_in_use = any(map(is_locked, find_locks(settings.state_dir)))
        self.home = Once(lambda: CodexHome(self.settings), "there is no codex, or no configuration for it")
        self.version = Once(self._ask_version, "codex does not run")
        #: True: configuration and catalogue are what the settings give.
        self.prepared = Once(self._prepare, "codex-home could not be prepared")
        self.catalogue = Once(self._read_catalogue, "there is no catalogue of models")
        self.process = Once(self._start_process, "no codex process answers")
        self._closing = contextlib.ExitStack()

    def close(self) -> None:
        self._closing.close()

    @property
    def is_renewing(self) -> bool:
        """Whether a running gateway is about to renew the login: a refresh token can be used once."""
        ends_s = self.home.get().login.read().expires_at_s
        return self.is_in_use and ends_s is not None and ends_s - time.time() < AHEAD_S

    @property
    def advice(self) -> str:
        """Where to look when codex is not as the gateway sets it up."""
        own = self.settings.codex_config_file
        if own:
            return f"look at PROXY_CODEX_CONFIG_FILE={own}"
        return (
            "this codex is not the one the gateway was made for, or codex-home holds something of somebody's"
        )

    def _ask_version(self) -> str:
        home = self.home.get()
        try:
            run = subprocess.run(
                [str(home.binary), "--version"],
                env=home.environment(home.path),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VERSION_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unfit(
                f"{home.binary} does not run ({tell(error)}): unset CODEX_BIN, or {INSTALL_ANEW}"
            ) from error
        return " ".join(run.stdout.decode("utf-8", "replace").split())

    def _prepare(self) -> bool:
        """As a start of the gateway would, if none runs."""
        home = self.home.get()
        self.version.get()
        folder = self.settings.state_dir
        if folder.exists() and folder.stat().st_uid != os.geteuid():
            raise Blocked("the state folder is another user's")
        if self.is_in_use:
            return self._is_current(home)
        home.prepare()
        return True

    def _is_current(self, home: CodexHome) -> bool:
        """Whether what the running gateway wrote is what these settings give."""
        folder, lock = home.make_process_folder()
        with lock:
            try:
                fresh = CodexHome(dataclasses.replace(self.settings, state_dir=folder))
                fresh.prepare()
                return read_essence(fresh.path) == read_essence(home.path)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _read_catalogue(self) -> Catalogue:
        """The one that codex is told of, which may be the operator's own."""
        self.prepared.get()
        config = tomllib.loads((self.home.get().path / "config.toml").read_text("utf-8"))
        path = str(config.get("model_catalog_json"))
        try:
            models = orjson.loads(pathlib.Path(path).read_bytes())["models"]
            return Catalogue(path, {str(model["slug"]): model for model in models})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unfit(f"{path} is no catalogue of models ({tell(error)}): {CATALOGUE_ADVICE}") from error

    def _start_process(self) -> CodexProcess:
        self.prepared.get()
        if self.is_renewing:
            raise Blocked("the gateway is about to renew the login")
        process = CodexProcess(self.home.get(), self.settings)
        self._closing.callback(process.kill)
        run_through(process.greet())
        return process


def hasten(settings: Settings) -> Settings:
    """The same, for somebody who sits and waits."""
    return dataclasses.replace(
        settings,
        start_timeout_s=min(settings.start_timeout_s, ANSWER_S),
        rpc_timeout_s=min(settings.rpc_timeout_s, ANSWER_S),
        commit_after_s=4 * TICK_S,  # of which the tick is made
    )


def find_locks(state_dir: pathlib.Path) -> list[pathlib.Path]:
    return [path for pattern in LOCKED for path in state_dir.glob(pattern)]


def is_locked(path: pathlib.Path) -> bool:
    """Whether somebody holds a file's lock; a shared lock, for a moment, is in nobody's way."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # gone, or not ours to read
        return False
    return False


def read_essence(path: pathlib.Path) -> tuple[dict[str, Any], bytes]:
    """The configuration and what the catalogue was made from, without where they are."""
    config = tomllib.loads((path / "config.toml").read_text("utf-8"))
    if config.get("model_catalog_json") == str(path / "models.json"):
        del config["model_catalog_json"]
    return config, (path / "models.stamp").read_bytes()


def tell(error: BaseException) -> str:
    """What went wrong in the first place, in as few words as it has."""
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    reason = error.strerror if isinstance(error, OSError) else None
    return str(reason or error) or type(error).__name__
