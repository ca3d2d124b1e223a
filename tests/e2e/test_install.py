"""`make install-service` below a folder of the test's own: what it says, writes, and leaves alone."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess

import pytest

from tests.support.gateway import ROOT

ENV = "etc/codex-gateway/env"
KEYS = "etc/codex-gateway/keys.toml"
UNIT = "etc/systemd/system/codex-gateway.service"
COMMAND = "usr/local/bin/codex-gateway"
SITE = "etc/nginx/sites-available/codex-gateway.conf"
MODES = {ENV: 0o600, KEYS: 0o640, UNIT: 0o644, COMMAND: 0o755, SITE: 0o644}


def install(root: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """By make, with none of what the make around these tests hands down."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "-s", "install-service", f"DESTDIR={root}", *words],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )


def apply(root: pathlib.Path, *words: str) -> str:
    done = install(root, "APPLY=1", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def list_files(root: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_it_only_says_what_it_would_do(tmp_path: pathlib.Path) -> None:
    said = install(tmp_path, "DOMAIN=ai.example.net")
    assert said.returncode == 0
    for name in MODES:
        assert f"would write      /{name} (new)\n" in said.stdout
    assert "APPLY=1 DOMAIN=ai.example.net" in said.stdout
    assert list_files(tmp_path) == {}


def test_it_does_it(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, "DOMAIN=ai.example.net")
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in list_files(tmp_path)}
    assert modes == MODES
    assert (tmp_path / UNIT).read_bytes() == (ROOT / "config/systemd/codex-gateway.service").read_bytes()
    assert (tmp_path / ENV).read_bytes() == (ROOT / "config/codex-gateway.env.example").read_bytes()
    site = (tmp_path / SITE).read_text()
    assert "server_name ai.example.net;" in site
    assert "gateway.example.org" not in site


@pytest.mark.parametrize("words", [[], ["DOMAIN=ai.example.net"]], ids=["nameless", "named"])
def test_doing_it_again_changes_nothing(tmp_path: pathlib.Path, words: list[str]) -> None:
    apply(tmp_path, "DOMAIN=ai.example.net")
    before = list_files(tmp_path)
    assert apply(tmp_path, *words).endswith("Nothing to do.\n")
    assert list_files(tmp_path) == before


def test_without_a_domain_there_is_no_site(tmp_path: pathlib.Path) -> None:
    assert "no DOMAIN given" in apply(tmp_path)
    assert SITE not in list_files(tmp_path)


@pytest.mark.parametrize("name", [ENV, KEYS, SITE])
def test_what_an_operator_edits_is_left_alone(tmp_path: pathlib.Path, name: str) -> None:
    apply(tmp_path, "DOMAIN=ai.example.net")
    with (tmp_path / name).open("a") as file:
        file.write("# mine\n")
    assert f"left alone       /{name} (yours" in apply(tmp_path)
    assert (tmp_path / name).read_text().endswith("# mine\n")


def test_a_site_that_differs_is_told(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, "DOMAIN=ai.example.net")
    with (tmp_path / SITE).open("a") as file:
        file.write("# mine\n")
    assert f"| diff /{SITE} -" in apply(tmp_path)


@pytest.mark.parametrize("name", [UNIT, COMMAND])
def test_what_is_ours_is_brought_up_to_date(tmp_path: pathlib.Path, name: str) -> None:
    apply(tmp_path)
    fresh = (tmp_path / name).read_bytes()
    (tmp_path / name).write_text("old")
    assert f"wrote            /{name} (changed)\n" in apply(tmp_path)
    assert (tmp_path / name).read_bytes() == fresh


@pytest.mark.parametrize("domain", ["a b", "a/b", "a;b", "a&b"])
def test_what_is_no_domain_is_refused(tmp_path: pathlib.Path, domain: str) -> None:
    refused = install(tmp_path, "APPLY=1", f"DOMAIN={domain}")
    assert refused.returncode != 0
    assert "must be a domain name" in refused.stderr
    assert list_files(tmp_path) == {}


def test_elsewhere_it_says_where_the_checkout_belongs() -> None:
    """On the machine itself the service runs one place, and nothing is touched from another."""
    script = ["sh", str(ROOT / "config/install-service.sh")]
    refused = subprocess.run(
        script, env={"PATH": os.environ["PATH"], "APPLY": "1"}, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "/opt/codex-gateway" in refused.stderr
