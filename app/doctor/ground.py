"""What the gateway stands on: its settings, the codex binary, the state folder."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import pwd
import shutil
import stat
from collections.abc import Iterator

import codex_cli_bin
from packaging.requirements import Requirement

from app.doctor.findings import Finding, format_bytes, note, ok, wrong
from app.doctor.patient import INSTALL_ANEW, Patient, Unfit, tell
from app.lib.keys import KeysFault, parse_keys
from app.settings import Settings

SETTINGS, BINARY, STATE = "settings", "codex", "state"

PACKAGE = "codex-gateway"
SHORT_KEY = 16
LEAST_FREE_BYTES = 200_000_000
OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: Files of the state folder with words, logins or keys in them. What processes keep goes with them.
PRIVATE = ("codex-home/auth.json", "codex-home/config.toml", "*/*.sqlite*", "*/*.db")
#: Codex reads these by itself and sends them to the model, whatever its configuration says.
SENT_ALONG = ("AGENTS.md", "AGENTS.override.md")
#: Where codex makes no helpers, and systems tidy up; it is told of no other.
TEMPORARY = pathlib.Path("/tmp")  # noqa: S108  looked at, not written to


def check_settings(patient: Patient) -> list[Finding]:
    settings = patient.settings
    patient.home.get()  # which reads PROXY_CODEX_CONFIG_FILE
    address = f"{settings.host}:{settings.port}"
    keys = (*settings.api_keys, *settings.admin_keys)
    count = len(keys) + count_filed_keys(settings.api_keys_file)
    found = [judge_keys(settings, address, count)]
    worth_knowing = {
        f"a key is shorter than {SHORT_KEY} characters: `make key`": any(
            len(key) < SHORT_KEY for key in keys
        ),
        "PROXY_LOG_BODIES: at level debug what clients say is logged": settings.logs_bodies,
        "PROXY_TEST_ENDPOINTS is for tests, not for clients": settings.serves_test_endpoints,
    }
    return found + [note(SETTINGS, text) for text, is_so in worth_knowing.items() if is_so]


def judge_keys(settings: Settings, address: str, count: int) -> Finding:
    if settings.is_open:
        return ok(SETTINGS, f"{address}, open: whoever is on this machine needs no key (PROXY_API_KEY)")
    if count == 0:
        file = settings.api_keys_file
        advice = f"`make key NAME=... FILE={file}`, or of a package `codex-gateway key NAME --file {file}`"
        return wrong(SETTINGS, f"{address}, without any key, so nobody gets in: {advice}")
    return ok(SETTINGS, f"{address}, with {count} key{'' if count == 1 else 's'}")


def count_filed_keys(path: pathlib.Path | None) -> int:
    if path is None:
        return 0
    try:
        keys = parse_keys(path.read_text("utf-8"))
    except (OSError, KeysFault, UnicodeDecodeError) as error:
        raise Unfit(f"PROXY_API_KEYS_FILE={path}: {tell(error)}") from error
    if path.stat().st_mode & stat.S_IRWXO:
        raise Unfit(f"PROXY_API_KEYS_FILE={path} is open to everybody on this machine: `chmod o= {path}`")
    return len(keys)


def check_binary(patient: Patient) -> list[Finding]:
    told, wanted, path = patient.version.get(), find_pin(), patient.home.get().binary
    version = told.rpartition(" ")[2]
    text = f"{version} ({path})"
    is_ours = path == codex_cli_bin.bundled_codex_path()
    if wanted is None:
        return [note(BINARY, f"{text}; which version is wanted is not known: {PACKAGE} is not installed")]
    if not is_ours:
        return [note(BINARY, f"{text}, by CODEX_BIN; the gateway was tried with {wanted}")]
    if version != wanted:
        return [wrong(BINARY, f"{text}, but {wanted} is wanted: {INSTALL_ANEW}")]
    return [ok(BINARY, text)]


def find_pin() -> str | None:
    """The one version of codex that the gateway was tried with."""
    try:
        requirements = map(Requirement, importlib.metadata.requires(PACKAGE) or [])
    except importlib.metadata.PackageNotFoundError:
        return None
    pins = [str(each.specifier) for each in requirements if each.name == codex_cli_bin.PACKAGE_NAME]
    return pins[0].removeprefix("==") if pins else None


def check_state(patient: Patient) -> list[Finding]:
    settings = patient.settings
    folder = settings.state_dir
    ground = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(ground).free
    faults = [*(find_faults(folder) if folder.exists() else find_obstacle(ground)), *find_words(folder)]
    if faults:
        found = [wrong(STATE, text) for text in faults]
    elif folder.exists():
        found = [ok(STATE, f"{folder}, nobody else's to read; {format_bytes(free)} are free")]
    else:
        found = [ok(STATE, f"{folder} will be made; {format_bytes(free)} are free")]
    return [*found, *judge_disk(free, settings.response_store_bytes), *judge_place(folder)]


def find_obstacle(ground: pathlib.Path) -> Iterator[str]:
    """What keeps a folder from being made in another."""
    if not os.access(ground, os.W_OK | os.X_OK):
        yield f"it cannot be made: {ground} is not ours to write; set PROXY_STATE_DIR"


def find_faults(folder: pathlib.Path) -> Iterator[str]:
    """What is wrong with who may do what."""
    if not folder.is_dir():
        yield f"{folder} is no folder: set PROXY_STATE_DIR"
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield f"{folder} cannot be read and written: `chmod 700 {folder}`, or set PROXY_STATE_DIR"
    owner, me = folder.stat().st_uid, os.geteuid()
    if owner != me:
        yield f"{folder} is {find_name(owner)}'s: run as {find_name(owner)}, or set PROXY_STATE_DIR"
        return
    private = [path for pattern in PRIVATE for path in sorted(folder.glob(pattern))]
    for path in [*(path for path in sorted(folder.glob("*")) if path.is_dir()), *private]:
        if path.stat().st_uid != me:
            yield f"{path} is {find_name(path.stat().st_uid)}'s: `chown -R {find_name(me)} {folder}`"
    for path in [folder, *private]:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS:
            yield f"{path} is open to others ({mode:o}): `chmod {'700' if path is folder else '600'} {path}`"


def find_words(folder: pathlib.Path) -> Iterator[str]:
    """What would be sent to the model with every request."""
    for path in (folder / "codex-home" / name for name in SENT_ALONG):
        if path.exists():
            yield f"codex sends {path} to the model with every request: remove it"


def judge_disk(free: int, wanted: int) -> list[Finding]:
    text = f"{format_bytes(free)} of the disk are free"
    if free < LEAST_FREE_BYTES:
        return [wrong(STATE, f"{text}: make room, or set PROXY_STATE_DIR")]
    if free < wanted:
        stored = f"stored responses may take {format_bytes(wanted)} (PROXY_RESPONSE_STORE_MB)"
        return [note(STATE, f"{text}; {stored}")]
    return []


def judge_place(folder: pathlib.Path) -> list[Finding]:
    if not folder.resolve().is_relative_to(TEMPORARY):
        return []
    return [
        note(STATE, f"{folder} is under {TEMPORARY}, which systems tidy up: set PROXY_STATE_DIR to keep it")
    ]


def find_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
