"""`make doctor`: whether the gateway can do its work here, a line a check, with what to do about it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

from app.doctor.bare_model import BARE, check_bare
from app.doctor.codex import CATALOGUE, CONFIG, LOGIN, check_catalogue, check_config, check_login
from app.doctor.findings import Finding, Level, format_line, note, wrong
from app.doctor.front import FRONT, check_front
from app.doctor.ground import BINARY, SETTINGS, STATE, check_binary, check_settings, check_state
from app.doctor.limits import LIMITS, check_limits
from app.doctor.patient import Blocked, Patient
from app.doctor.port import PORT, check_port
from app.lib.redaction import Redactor
from app.settings import Settings

# A check has deadlines of its own, and says more when one is past; this is for what has none (DNS, a disk).
CHECK_S = 35.0
TOTAL_S = 55.0

Check = Callable[[Patient], list[Finding]]

#: In this order: who needs something comes behind the check that tells of it.
CHECKS: tuple[tuple[str, Check], ...] = (
    (SETTINGS, check_settings),
    (BINARY, check_binary),
    (STATE, check_state),
    (CATALOGUE, check_catalogue),
    (LOGIN, check_login),
    (CONFIG, check_config),
    (BARE, check_bare),
    (LIMITS, check_limits),
    (PORT, check_port),
    (FRONT, check_front),
)


def run(settings: Settings, url: str | None = None) -> int:
    """Look at everything and say so; the exit code."""
    # What the backend's log would say of a fault stands in a line of ours.
    logging.getLogger("app").addHandler(logging.NullHandler())
    redactor = Redactor((*settings.api_keys, *settings.admin_keys))
    patient = Patient(settings, url)
    found: list[Finding] = []
    try:
        for finding in examine(patient):
            sys.stdout.write(format_line(finding, redactor))
            sys.stdout.flush()
            found.append(finding)
    finally:
        patient.close()
    count = sum(finding.level is Level.WRONG for finding in found)
    sys.stdout.write(f"{len(found)} checks, {count} wrong\n")
    return 1 if count else 0


def examine(patient: Patient, checks: tuple[tuple[str, Check], ...] = CHECKS) -> Iterator[Finding]:
    deadline_s = time.monotonic() + TOTAL_S
    for name, check in checks:
        yield from run_check(name, check, patient, min(CHECK_S, max(deadline_s - time.monotonic(), 0)))


def run_check(name: str, check: Check, patient: Patient, patience_s: float) -> list[Finding]:
    """Beside us, so that one that hangs is left alone."""
    if patience_s <= 0:
        return [note(name, "not looked at: those before took all the time")]
    found: list[Finding] = []
    thread = threading.Thread(
        target=lambda: found.extend(try_check(name, check, patient)), name=name, daemon=True
    )
    thread.start()
    thread.join(patience_s)
    return found or [wrong(name, f"nothing was found out in {patience_s:.0f} seconds: something hangs")]


def try_check(name: str, check: Check, patient: Patient) -> list[Finding]:
    try:
        return check(patient)
    except Blocked as reason:
        return [note(name, f"not looked at: {reason}")]
    except Exception as error:  # noqa: BLE001  the others go on, and this one's line says so
        return [wrong(name, str(error) or type(error).__name__)]
