"""`codex-gateway serve|login|doctor|key|trace`: what a person does with the gateway, in a terminal."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

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
    """Log the gateway in to Codex, by a code to be entered in a browser; it keeps a login of its own."""
    home = prepare_home(settings)
    environment = home.environment(home.path)
    os.execve(home.binary, [str(home.binary), "login", "--device-auth"], environment)  # noqa: S606


def look(arguments: Arguments, settings: Settings) -> int:
    """Look whether the gateway can do its work here, and say what to do where it cannot."""
    return doctor.run(settings, arguments.url)


def make_key(arguments: Arguments, settings: Settings) -> int:
    """Make an access key and print it, this once; only its hash is kept."""
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
    """Print what a log says of one request, and of the codex process that served it."""
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
    parser = argparse.ArgumentParser(
        prog="codex-gateway",
        description="Serves the OpenAI API from Codex.",
        epilog="Settings are variables of the environment: `codex-gateway serve --help` lists them.",
    )
    parser.add_argument("--version", action="version", version=f"codex-gateway {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="serve|login|doctor|key|trace")

    def add(name: str, run: Callable[..., int], **more: Any) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__, **more)
        command.set_defaults(run=run)
        return command

    add("serve", serve, epilog=list_settings(), formatter_class=argparse.RawDescriptionHelpFormatter)
    add("login", login)
    looked = add("doctor", look)
    looked.add_argument("--url", help="the gateway's public address, to look at what stands before it")
    add_key_arguments(add("key", make_key))
    stitched = add("trace", trace)
    stitched.add_argument("id", help="a request's id, its reply's x-request-id")
    stitched.add_argument("log", nargs="?", help="the file that holds the log; without one, standard input")
    return parser


def add_key_arguments(key: argparse.ArgumentParser) -> None:
    key.add_argument("name", help="what logs and usage call whoever has it")
    key.add_argument(
        "--role", choices=[*map(str, Role)], default=Role.CLIENT, help="client unless told otherwise"
    )
    key.add_argument(
        "--file",
        type=pathlib.Path,
        help="where its hash is added; without one PROXY_API_KEYS_FILE, or keys.toml in PROXY_STATE_DIR",
    )
    key.add_argument(
        "--requests-per-minute",
        type=int,
        metavar="N",
        help="0: no limit; without it PROXY_REQUESTS_PER_MINUTE counts",
    )
    key.add_argument(
        "--max-streams", type=int, metavar="N", help="0: no limit; without it PROXY_MAX_STREAMS counts"
    )


def list_settings() -> str:
    """Every setting with its default, for those who have the package alone."""
    knobs = [each.metadata for each in dataclasses.fields(Settings) if each.metadata]
    told = (
        f"  {knob['name']}={knob['default']}\n{textwrap.indent(textwrap.fill(knob['meaning'], 92), ' ' * 6)}"
        for knob in knobs
    )
    return "\n".join(["settings, variables of the environment, each with its default:", *told])


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
