"""The gateway's own CODEX_HOME: a configuration and a catalogue that leave a bare model."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import tomllib
from typing import IO, Any

import codex_cli_bin
import orjson
import tomli_w

from app.backend.last_words import trim
from app.backend.login import LoginFile
from app.settings import Settings, SettingsError

DEMO_MODEL = "demo"
# What a codex process inherits: where to find things, and the network's way out.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
INHERITED = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *PROXIES,
    *map(str.lower, PROXIES),
)
YOUNG_S = 60

# Out of the box codex is a coding agent with a shell. All of this is off: the model sees the client's words.
FEATURES_OFF = (
    "apps",
    "browser_use",
    "computer_use",
    "goals",
    "hooks",
    "image_generation",
    "in_app_browser",
    "memories",
    "multi_agent",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "shell_tool",
    "skill_search",
    "sleep_tool",
    "tool_suggest",
    # Without this a refused connection is retried for ever.
    "unbounded_connection_retries",
    "unified_exec",
    "view_image",
    "workspace_dependencies",
)
# More than any body can bring: codex would cut a tool's result in the middle, without a word.
UNCUT_TOKENS = 1_000_000_000
BARE_CONFIG: dict[str, Any] = {
    "web_search": "disabled",
    "project_doc_max_bytes": 0,
    "include_permissions_instructions": False,
    "include_apps_instructions": False,
    "include_environment_context": False,
    "include_collaboration_mode_instructions": False,
    "check_for_update_on_startup": False,
    "tool_output_token_limit": UNCUT_TOKENS,
    "analytics": {"enabled": False},
    "skills": {"include_instructions": False},
    "tools": {"experimental_request_user_input": {"enabled": False}},
    "features": dict.fromkeys(FEATURES_OFF, False),
}
# What a catalogue entry says about tools, wrapping, compaction; bare, whatever the model.
BARE_MODEL: dict[str, Any] = {
    "shell_type": "disabled",
    "experimental_supported_tools": [],
    "supports_search_tool": False,
    "use_responses_lite": False,
    "base_instructions": "",
    "model_messages": None,
    "context_window": None,
    "max_context_window": None,
    "default_verbosity": None,
    "truncation_policy": {"mode": "tokens", "limit": UNCUT_TOKENS},
}
AGENT_KEYS = ("tool_mode", "multi_agent_version", "apply_patch_tool_type", "web_search_tool_type")


class CodexHome:
    """Folders, configuration and environment of every codex process of this gateway."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._overrides = read_overrides(settings.codex_config_file)
        self.binary = find_binary(settings)
        self.path = settings.state_dir / "codex-home"
        self.login = LoginFile(self.path / "auth.json")
        #: As its processes tell it.
        self.codex_version: str | None = None
        #: A folder for each running process; gone with it.
        self.processes = settings.state_dir / "processes"
        #: Where codex stands: an empty folder, nothing to read there.
        self.work = settings.state_dir / "empty"

    def prepare(self) -> None:
        """Make the folders, the catalogue and the configuration; several workers may do so at once."""
        for folder in (self._settings.state_dir, self.path, self.processes, self.work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._settings.state_dir.chmod(0o700)
        catalogue = self._prepare_catalogue()
        config = merge(BARE_CONFIG | {"model_catalog_json": str(catalogue)}, self._overrides)
        write_atomically(self.path / "config.toml", tomli_w.dumps(config).encode())

    def configured_models(self) -> tuple[str, ...]:
        """The model an operator's configuration runs by default."""
        model = self._overrides.get("model")
        return (model,) if model else ()

    def _extra_models(self) -> tuple[str, ...]:
        """Ids that codex's own catalogue may lack."""
        named = tuple(model.target for model in self._settings.extra_models)
        return named + self.configured_models() + ((DEMO_MODEL,) if self._settings.demo else ())

    def environment(self, folder: pathlib.Path) -> dict[str, str]:
        """What a codex process sees: nothing of ours but what it needs to run."""
        environ = self._settings.environ
        inherited = {name: environ[name] for name in (*INHERITED, *self._key_names()) if name in environ}
        return with_direct_loopback(inherited) | {
            "HOME": str(self.path),
            "CODEX_HOME": str(self.path),
            "CODEX_SQLITE_HOME": str(folder),
            "RUST_LOG": "error",
        }

    def _key_names(self) -> list[str]:
        """The variables an operator's own model provider takes its key and headers from."""
        providers = self._overrides.get("model_providers", {}).values()
        keys = [provider["env_key"] for provider in providers if "env_key" in provider]
        headers = [provider.get("env_http_headers", {}).values() for provider in providers]
        return [*keys, *itertools.chain.from_iterable(headers)]

    def sweep(self) -> None:
        """Remove what killed processes left behind."""
        for folder in self.processes.iterdir():
            if is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def trim_last_words(self) -> None:
        """Keep what processes write to their stderr within bounds."""
        with contextlib.suppress(OSError):  # no more files may be open just now
            for path in self.processes.glob("*/stderr"):
                trim(path)

    def make_process_folder(self) -> tuple[pathlib.Path, IO[bytes]]:
        """A folder for one process and the file for its stderr, locked for as long as that process lives."""
        self.processes.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="process-", dir=self.processes))
        # To append, so that it can be trimmed meanwhile.
        stderr = open(folder / "stderr", "ab")  # noqa: SIM115  the caller hands it to the child
        fcntl.flock(stderr, fcntl.LOCK_EX)
        return folder, stderr

    def _prepare_catalogue(self) -> pathlib.Path:
        """Written on this machine from the binary's own list, and anew when either changes."""
        path, stamp_path = self.path / "models.json", self.path / "models.stamp"
        made_of = stamp_file(self.binary)
        stamp = repr((made_of, self._extra_models(), BARE_MODEL, AGENT_KEYS)).encode()
        if not path.exists() or not stamp_path.exists() or stamp_path.read_bytes() != stamp:
            write_atomically(path, build_catalogue(self._read_bundled_models(), self._extra_models()))
            write_atomically(stamp_path, stamp)
        return path

    def _read_bundled_models(self) -> list[dict[str, Any]]:
        command = [str(self.binary), "debug", "models", "--bundled"]
        environment = self.environment(self.path)
        try:
            run = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=True)
            models: list[dict[str, Any]] = orjson.loads(run.stdout)["models"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            raise SettingsError(f"the codex binary {self.binary} does not start: {error}") from error
        return models


def with_direct_loopback(environ: dict[str, str]) -> dict[str, str]:
    """No proxy knows of what is served on this machine: the demo model, an operator's own."""
    if not any(name.upper() in PROXIES for name in environ):
        return environ
    direct = [environ[name] for name in ("NO_PROXY", "no_proxy") if name in environ]
    return environ | dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join([*direct, *LOOPBACK]))


def find_binary(settings: Settings) -> pathlib.Path:
    """The operator's codex, or the one that came with the gateway."""
    if settings.codex_bin:
        return pathlib.Path(settings.codex_bin).expanduser()
    return pathlib.Path(codex_cli_bin.bundled_codex_path())


def read_overrides(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        return tomllib.loads(pathlib.Path(path).expanduser().read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"PROXY_CODEX_CONFIG_FILE={path}: {error}") from error


def build_catalogue(bundled: list[dict[str, Any]], extra: tuple[str, ...]) -> bytes:
    """Every model bare; an id codex does not know gets an entry, or codex would compact its history."""
    bare = [{k: v for k, v in model.items() if k not in AGENT_KEYS} | BARE_MODEL for model in bundled]
    known = {model["slug"] for model in bare}
    added = [
        bare[-1] | {"slug": slug, "display_name": slug, "description": slug, "visibility": "hide"}
        for slug in dict.fromkeys(extra)
        if slug not in known
    ]
    return orjson.dumps({"models": bare + added})


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, table by table."""
    merged = dict(base)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge(base[key], value) if nested else value
    return merged


def write_atomically(path: pathlib.Path, data: bytes) -> None:
    """Readers see the old file or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with open(handle, "wb") as file:
        file.write(data)
    pathlib.Path(name).replace(path)


def stamp_file(path: str | pathlib.Path) -> tuple[int, int]:
    """What changes when a file does; zeros when there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return 0, 0
    return about.st_size, about.st_mtime_ns


def is_abandoned(folder: pathlib.Path) -> bool:
    """Whether nobody holds the lock on a process folder that is past its first minute."""
    try:
        if time.time() - folder.stat().st_mtime < YOUNG_S:
            return False
        with open(folder / "stderr", "rb") as stderr:
            fcntl.flock(stderr, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (FileNotFoundError, NotADirectoryError):
        return True
    return True
