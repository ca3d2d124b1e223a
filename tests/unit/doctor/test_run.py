"""How checks are run, and how their findings become lines."""

from __future__ import annotations

import pathlib
import threading

import pytest

from app.doctor import run_check
from app.doctor.findings import Finding, format_bytes, format_line, format_span, note, ok, wrong
from app.doctor.patient import Blocked, Once, Patient, Unfit, tell
from app.lib.redaction import Redactor
from app.settings import Settings


@pytest.fixture
def patient(tmp_path: pathlib.Path) -> Patient:
    return Patient(Settings(state_dir=tmp_path))


def find(patient: Patient) -> list[Finding]:
    return [ok("it", "as it should be"), note("it", "and more")]


def fail(patient: Patient) -> list[Finding]:
    raise Unfit("it is broken: mend it")


def fail_without_a_word(patient: Patient) -> list[Finding]:
    raise RuntimeError


def lack(patient: Patient) -> list[Finding]:
    raise Blocked("codex does not run")


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        pytest.param(find, [ok("it", "as it should be"), note("it", "and more")], id="findings"),
        pytest.param(fail, [wrong("it", "it is broken: mend it")], id="raises"),
        pytest.param(fail_without_a_word, [wrong("it", "RuntimeError")], id="raises-without-a-word"),
        pytest.param(lack, [note("it", "not looked at: codex does not run")], id="blocked"),
    ],
)
def test_a_check_always_ends_in_findings(patient: Patient, check: object, expected: list[Finding]) -> None:
    assert run_check("it", check, patient, 10) == expected  # type: ignore[arg-type]


def test_a_check_that_hangs_is_left_alone(patient: Patient) -> None:
    over = threading.Event()

    def hang(patient: Patient) -> list[Finding]:
        over.wait(30)
        return []

    assert run_check("it", hang, patient, 0.05) == [
        wrong("it", "nothing was found out in 0 seconds: something hangs")
    ]
    assert run_check("it", hang, patient, 0) == [note("it", "not looked at: those before took all the time")]
    over.set()


def test_why_something_is_missing_is_told_once() -> None:
    def fail() -> str:
        raise Unfit("no binary")

    first = Once(fail, "codex does not run")
    second = Once(lambda: first.get() + "!", "no process answers")
    with pytest.raises(Unfit, match="no binary"):
        first.get()
    for _ in range(2):
        with pytest.raises(Blocked, match="codex does not run"):
            second.get()


def test_something_is_made_once() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    once = Once(make, "nothing")
    assert (once.get(), once.get()) == (1, 1)


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        pytest.param(ok("port", "is free"), "ok    port        is free\n", id="ok"),
        pytest.param(wrong("bare model", "more"), "WRONG bare model  more\n", id="wrong"),
        pytest.param(note("login", "one\n two"), "note  login       one two\n", id="on-one-line"),
        pytest.param(
            wrong("login", "401 of Bearer abc.def and my-own-key"),
            "WRONG login       401 of [redacted] and [redacted]\n",
            id="no-secrets",
        ),
        pytest.param(ok("x", "y" * 5000), f"ok    x           {'y' * 1000}\n", id="not-for-ever"),
    ],
)
def test_a_finding_is_a_line(finding: Finding, line: str) -> None:
    assert format_line(finding, Redactor(["my-own-key"])) == line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(5, "5 seconds", id="seconds"),
        pytest.param(119, "119 seconds", id="not-yet-minutes"),
        pytest.param(600, "10 minutes", id="minutes"),
        pytest.param(7200, "2 hours", id="hours"),
        pytest.param(10 * 86400, "10 days", id="days"),
    ],
)
def test_a_span_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


def test_sizes() -> None:
    assert [format_bytes(24_000_000), format_bytes(1_500_000_000)] == ["24 MB", "1.5 GB"]


def test_an_error_is_told_by_its_first_cause() -> None:
    error = RuntimeError("a whole paragraph")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert tell(error) == "Connection refused"
    assert [tell(ValueError("so")), tell(ValueError())] == ["so", "ValueError"]
