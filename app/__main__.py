"""`codex-gateway serve|login|doctor|key|trace`: what a person does with the gateway, in a terminal."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from app import doctor
from app.backend.home import CodexHome
from app.doctor.port import try_to_listen
from app.handlers.keyring import check_keys_file
from app.lib.keys import KeyLimits, KeysFault, Role
from app.new_key import add_key
from app.settings import Settings, SettingsError
from app.trace import render, stitch
from app.version import VERSION

HERE = pathlib.Path(__file__).parent
#: Beside `app` in a checkout, inside of it where a wheel was installed.
CONFIG = next(path for path in (HERE / "config", HERE.parent / "config") if path.is_dir())
STDIN_FD = 0
# What is made from here on is nobody else's to read.
UMASK = 0o077

Arguments = argparse.Namespace


class CannotRun(Exception):
    """One line that says what is in the way."""


def serve(_: Arguments, settings: Settings) -> int:
    """Serve the API and its first page."""
    for name in settings.strange:
        sys.stderr.write(f"codex-gateway: {name}: there is no such setting, and nothing comes of it\n")
    prepare_home(settings)
    check_keys_file(settings)
    check_port(settings.host, settings.port)
    # -P: nothing is imported from the folder it is started in.
    command = ["-P", str(CONFIG / "serve.py"), "-c", str(CONFIG / "gunicorn.conf.py"), "wsgi:app"]
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606


def login(_: Arguments, settings: Settings) -> int:
    """Log the gateway in to Codex, in a CODEX_HOME of its own."""
    home = prepare_home(settings)
    environment = home.environment(home.path)
    os.execve(home.binary, [str(home.binary), "login", "--device-auth"], environment)  # noqa: S606


def look(arguments: Arguments, settings: Settings) -> int:
    """Say what is as it should be, and what to do about the rest."""
    return doctor.run(settings, arguments.url)


def make_key(arguments: Arguments, settings: Settings) -> int:
    """Make a key, and tell it this once."""
    path = arguments.file or settings.api_keys_file or settings.state_dir / "keys.toml"
    limits = KeyLimits(arguments.requests_per_minute, arguments.max_streams)
    try:
        key = add_key(path, arguments.name, Role(arguments.role), limits)
    except OSError as error:
        raise CannotRun(f"{path}: {error.strerror}") from error
    except (KeysFault, UnicodeDecodeError) as error:
        raise CannotRun(f"{path}: {error}") from error
    sys.stdout.write(f"{key}\n")
    about = f"The {arguments.role} key of {arguments.name}"
    sys.stderr.write(f"{about} is not shown again; its hash is in {path}.\n")
    if settings.api_keys_file != path:
        sys.stderr.write(f"For a gateway that does not read that file yet: PROXY_API_KEYS_FILE={path}\n")
    return 0


def trace(arguments: Arguments, _: Settings) -> int:
    """Tell what a log says of one request."""
    try:
        with open(arguments.log or STDIN_FD, encoding="utf-8", errors="replace") as lines:
            found = stitch(lines, arguments.id)
    except OSError as error:
        raise CannotRun(f"{arguments.log}: {error.strerror}") from error
    sys.stdout.writelines(f"{render(line)}\n" for line in found)
    if not found:
        raise CannotRun(f"no line of the log is about {arguments.id}")
    return 0


def prepare_home(settings: Settings) -> CodexHome:
    home = CodexHome(settings)
    try:
        home.prepare()
    except OSError as error:
        raise CannotRun(f"PROXY_STATE_DIR={settings.state_dir}: {error}") from error
    return home


def check_port(host: str, port: int) -> None:
    if obstacle := try_to_listen(host, port):
        reason = f"{obstacle.strerror} (set PROXY_HOST or PROXY_PORT)"
        raise CannotRun(f"cannot listen on {host}:{port}: {reason}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="codex-gateway")
    parser.add_argument("--version", action="version", version=f"codex-gateway {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="serve|login|doctor|key|trace")

    def add(name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        return command

    add("serve", serve)
    add("login", login)
    looked = add("doctor", look)
    looked.add_argument("--url", help="the gateway's public address, to look at what stands before it")
    key = add("key", make_key)
    key.add_argument("name")
    key.add_argument("--role", choices=[*map(str, Role)], default=Role.CLIENT)
    key.add_argument("--file", type=pathlib.Path, help="the keys file; PROXY_API_KEYS_FILE")
    key.add_argument("--requests-per-minute", type=int)
    key.add_argument("--max-streams", type=int)
    stitched = add("trace", trace)
    stitched.add_argument("id", help="a request's id, its reply's x-request-id")
    stitched.add_argument("log", nargs="?", help="a file; standard input")
    return parser


def main(given: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(given)
    os.umask(UMASK)
    try:
        command: Callable[[Arguments, Settings], int] = arguments.run
        return command(arguments, Settings.from_env())
    except (CannotRun, SettingsError) as error:
        sys.stderr.write(f"codex-gateway: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
