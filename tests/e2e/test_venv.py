"""`config/venv.sh`: a service's environment, made and kept up to date; python and pip are pretended."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from tests.support.gateway import ROOT

PYTHON = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
    *sys.version\\)) cat "$here/version" ;;
    "-m venv "*) mkdir -p "$3/bin" && cp "$here/python" "$here/version" "$3/bin/" ;;
    "-m pip "*) if [ -e offline ]; then exit 1; fi; echo "$*" >> installed ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Checkout:
    path: pathlib.Path
    python: pathlib.Path

    def make(self, extra: str = "") -> int:
        """How it ends."""
        environ = {"PATH": "/usr/bin:/bin", "PYTHON": str(self.python), "VENV": ".venv", "EXTRA": extra}
        script = ["sh", str(ROOT / "config/venv.sh")]
        return subprocess.run(
            script, cwd=self.path, env=environ, stderr=subprocess.DEVNULL, check=False
        ).returncode

    def count_installs(self) -> int:
        return len((self.path / "installed").read_text().splitlines())

    def use(self) -> None:
        """Leave a trace that goes with the environment."""
        (self.path / ".venv/used").touch()

    @property
    def is_the_same(self) -> bool:
        return (self.path / ".venv/used").exists()

    def change(self, setup: str) -> None:
        (self.path / "setup.cfg").write_text(setup)


@pytest.fixture
def checkout(tmp_path: pathlib.Path) -> Checkout:
    """With an environment that is in use."""
    made = Checkout(tmp_path / "checkout", tmp_path / "python")
    made.python.write_text(PYTHON)
    made.python.chmod(0o755)
    (tmp_path / "version").write_text("3.11.2 (main)\n[GCC]\n")
    made.path.mkdir()
    made.change("one")
    (made.path / "pyproject.toml").touch()
    assert made.make() == 0
    made.use()
    return made


def test_nothing_is_done_twice(checkout: Checkout) -> None:
    assert (checkout.make(), checkout.count_installs()) == (0, 1)


def test_a_new_version_is_put_into_the_environment_there_is(checkout: Checkout) -> None:
    checkout.change("two")
    assert (checkout.make(), checkout.count_installs(), checkout.is_the_same) == (0, 2, True)


def test_what_cannot_be_fetched_costs_nothing_that_is_there(checkout: Checkout) -> None:
    checkout.change("two")
    (checkout.path / "offline").touch()
    assert (checkout.make(), checkout.make(), checkout.is_the_same) == (1, 1, True)
    (checkout.path / "offline").unlink()
    assert (checkout.make(), checkout.count_installs(), checkout.is_the_same) == (0, 2, True)


def test_going_back_is_a_change_too(checkout: Checkout) -> None:
    """Also after a new version that was not installed to its end."""
    (checkout.path / "offline").touch()
    checkout.change("two")
    assert checkout.make() == 1
    (checkout.path / "offline").unlink()
    checkout.change("one")
    assert (checkout.make(), checkout.count_installs(), checkout.is_the_same) == (0, 2, True)


def test_the_dev_extra_serves_both(checkout: Checkout) -> None:
    assert [checkout.make("[dev]"), checkout.make(), checkout.count_installs()] == [0, 0, 2]


def test_what_was_current_for_the_dev_extra_is_not_for_ever(checkout: Checkout) -> None:
    checkout.make("[dev]")
    checkout.change("two")
    checkout.make()
    checkout.change("one")
    assert (checkout.make(), checkout.count_installs()) == (0, 4)


def test_a_folder_that_was_moved_gets_a_new_environment(checkout: Checkout) -> None:
    moved = Checkout(checkout.path.with_name("moved"), checkout.python)
    shutil.move(checkout.path, moved.path)
    assert (moved.make(), moved.count_installs(), moved.is_the_same) == (0, 2, False)


def test_another_interpreter_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.python.with_name("version").write_text("3.13.5 (main)\n[GCC]\n")
    assert (checkout.make(), checkout.count_installs(), checkout.is_the_same) == (0, 2, False)
