"""The systemd unit and what goes with it: its sandbox, its settings, numbers that belong together."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from app.backend.login import LOG_IN
from app.settings import Settings
from tests.e2e.front import SITE
from tests.support.gateway import ROOT, run_gateway

UNIT = ROOT / "config" / "systemd" / "codex-gateway.service"
EXAMPLE = ROOT / "config" / "codex-gateway.env.example"
INSTALLER = ROOT / "config" / "install-service.sh"
#: In tenths, of 100; it has 11.
MOST_EXPOSURE = 15
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
SEALED = f"""
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).prctl({PR_SET_MDWE}, {PR_MDWE_REFUSE_EXEC_GAIN}, 0, 0, 0):
    raise OSError(ctypes.get_errno())
os.execv(sys.executable, [sys.executable, "-m", "app", "serve"])
"""
MAKES_CODE = "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)"
MULTIPLES = {"k": 1024, "m": 1024 * 1024, "s": 1}

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: apt-get install systemd)"
)


def read_unit() -> dict[str, str]:
    lines = [line.partition("=") for line in UNIT.read_text().splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in lines if value}


def read_number(directive: str) -> int:
    """What the site sets, in bytes or seconds."""
    found = re.search(rf"^ *{directive} (?:\d+ )?(\d+)([kms]);", SITE.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * MULTIPLES[found[2]]


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: pathlib.Path) -> None:
    """As it is, but for a program that is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/codex-gateway/.venv/bin/python", sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@needs_systemd
def test_the_unit_exposes_little() -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSURE}"]
    rated = subprocess.run([*command, str(UNIT)], capture_output=True, text=True, check=False)
    assert rated.returncode == 0, rated.stdout


def seals_memory() -> bool:
    """Whether the kernel knows how (Linux 6.3)."""
    probe = f"import ctypes; assert not ctypes.CDLL(None).prctl({PR_SET_MDWE}, 1, 0, 0, 0)\n{MAKES_CODE}"
    refused = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False)
    return b"PermissionError" in refused.stderr


@pytest.mark.real
def test_the_real_codex_answers_where_memory_is_sealed(tmp_path: pathlib.Path) -> None:
    """The unit forbids to make code at run time (MemoryDenyWriteExecute); codex has an engine that could."""
    if not seals_memory():
        pytest.skip("needs a kernel with PR_SET_MDWE")
    with run_gateway(
        tmp_path, command=("-c", SEALED), PROXY_DEMO="true", PROXY_WARM_PROCESSES="1"
    ) as gateway:
        answer = gateway.chat("Hello!", model="demo")
    assert answer.json()["choices"][0]["message"]["content"].startswith("Hello from the gateway")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        pytest.param(int(read_unit()["TimeoutStopSec"]), Settings().graceful_timeout_s + 5, id="stop"),
        pytest.param(read_number("proxy_read_timeout"), Settings().total_timeout_s, id="answer"),
        pytest.param(read_number("client_max_body_size"), Settings().max_body_bytes, id="body"),
        pytest.param(
            read_number("large_client_header_buffers"), Settings().max_header_bytes + 1024, id="header"
        ),
        pytest.param(int(read_unit()["TasksMax"]), Settings().max_processes * 32 * 3, id="threads"),
    ],
)
def test_what_is_outside_waits_longer_and_takes_more(outer: float, inner: float) -> None:
    """So that the gateway is the one that answers."""
    assert outer > inner


def test_the_site_leads_to_where_the_gateway_listens() -> None:
    assert f"server {Settings().host}:{Settings().port};" in SITE.read_text()


def read_example() -> dict[str, str]:
    """Every variable of the example, those that are commented out too."""
    found = re.findall(r"^#?([A-Z][A-Z_]+)=(.*)$", EXAMPLE.read_text(), re.MULTILINE)
    assert len(dict(found)) == len(found)
    return dict(found)


def test_the_example_names_settings_there_are() -> None:
    known = {each.metadata["name"] for each in dataclasses.fields(Settings) if each.metadata}
    assert set(read_example()) - known == {"HTTPS_PROXY", "NO_PROXY"}


def test_the_example_can_be_meant() -> None:
    """All of it, with every line taken in."""
    settings = Settings.from_env(read_example())
    assert (settings.host, settings.is_open) == ("127.0.0.1", False)


def test_who_is_to_log_in_is_told_the_command_there_is() -> None:
    """`make login` is whoever types's: on a box that is root, and of no use to the service."""
    assert "`codex-gateway login`" in LOG_IN
    assert "/usr/local/bin/codex-gateway" in INSTALLER.read_text()


@pytest.mark.parametrize(
    "name", ["PROXY_STATE_DIR", "LimitNOFILE", "TasksMax", "UMask", "StateDirectoryMode"]
)
def test_the_command_runs_as_the_service_does(name: str) -> None:
    value = re.search(rf"^(?:Environment=)?{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert value is not None
    told = re.search(rf"--(?:setenv|property)={name}=(\S+)", INSTALLER.read_text())
    assert told is not None
    assert told[1].replace("$state", "/var/lib/codex-gateway") == value[1]
