"""`python -m app serve|login`: the checks a person wants before the server takes over."""

from __future__ import annotations

import os
import pathlib
import socket
import sys
from collections.abc import Callable

from app.backend.home import CodexHome
from app.settings import Settings, SettingsError

GUNICORN_CONFIG = pathlib.Path(__file__).parent.parent / "config" / "gunicorn.conf.py"


class CannotRun(Exception):
    """One line that says what is in the way."""


def serve(settings: Settings) -> None:
    """Become gunicorn."""
    prepare_home(settings)
    check_port(settings.host, settings.port)
    command = [sys.executable, "-m", "gunicorn", "-c", str(GUNICORN_CONFIG), "wsgi:app"]
    os.execv(sys.executable, command)  # noqa: S606


def login(settings: Settings) -> None:
    """Become `codex login`, in the gateway's own CODEX_HOME."""
    home = prepare_home(settings)
    environment = home.environment(home.path)
    os.execve(home.binary, [str(home.binary), "login", "--device-auth"], environment)  # noqa: S606


def prepare_home(settings: Settings) -> CodexHome:
    home = CodexHome(settings)
    try:
        home.prepare()
    except OSError as error:
        raise CannotRun(f"PROXY_STATE_DIR={settings.state_dir}: {error}") from error
    return home


def check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotRun(f"cannot listen on {host}:{port}: {error.strerror} (set PROXY_PORT)") from error


COMMANDS: dict[str, Callable[[Settings], None]] = {"serve": serve, "login": login}


def main(arguments: list[str]) -> int:
    command = COMMANDS.get(arguments[0]) if len(arguments) == 1 else None
    if command is None:
        sys.stderr.write(f"usage: python -m app {'|'.join(COMMANDS)}\n")
        return 2
    try:
        command(Settings.from_env())
    except (CannotRun, SettingsError) as error:
        sys.stderr.write(f"codex-gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
