"""A small Debian box in namespaces of this machine, with a real systemd to run the unit we ship."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.gateway import ROOT, wait_until
from tests.support.processes import find_children

SYSTEMD = "/lib/systemd/systemd"
TOOLS = (
    "unshare",
    "nsenter",
    "pivot_root",
    "ip",
    "useradd",
    "runuser",
    "dbus-daemon",
    "sqlite3",
    "make",
    "openssl",
    "curl",
)
NAMESPACES = ("--pid", "--fork", "--mount", "--uts", "--ipc", "--cgroup", "--net")
#: Whoever stops `unshare` stops process 1 of the box, and with it all others.
UNSHARE = ("unshare", *NAMESPACES, "--kill-child")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
ENTER_GROUP = 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"'


def find_obstacle() -> str:
    """Why there can be no box here; empty if there can."""
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]
    if missing or not os.path.exists(SYSTEMD):
        return f"needs systemd and {', '.join(TOOLS)}"
    if find_own_group() is None:
        return "needs a writable cgroup2"
    if "overlay" not in pathlib.Path("/proc/filesystems").read_text():
        return "needs overlayfs"
    probe = subprocess.run(
        [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
    )
    return "needs the right to make namespaces (root)" if probe.returncode else ""


def find_own_group() -> pathlib.Path | None:
    """Our place in the cgroup2 hierarchy, if we may add to it."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    groups = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), "")
    for fields in mounts:
        if fields[fields.index("-") + 1] == "cgroup2":
            group = pathlib.Path(fields[4]) / own
            return group if os.access(group, os.W_OK) else None
    return None


class Box:
    def __init__(self, folder: pathlib.Path, group: pathlib.Path) -> None:
        self._group = group / f"codex-gateway-box-{os.getpid()}"
        self._group.mkdir()
        self._log_path = folder / "box.log"
        (folder / "box").mkdir()
        packages = sysconfig.get_path("purelib")
        script = [
            "sh",
            str(ROOT / "tests/e2e/box.sh"),
            str(folder / "box"),
            str(ROOT),
            sys.base_prefix,
            packages,
        ]
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", ENTER_GROUP, "sh", str(self._group), *UNSHARE, *script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": PATH},
            )

    def wait_booted(self) -> None:
        wait_until(self._has_booted, 30)

    def _has_booted(self) -> bool:
        assert self._process.poll() is None, self._log_path.read_text()
        return (
            bool(self._find_init())
            and self.run("systemctl is-active basic.target", check=False).returncode == 0
        )

    def _find_init(self) -> int:
        return next(iter(find_children(self._process.pid)), 0)

    def run(self, script: str, check: bool = True, within_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a shell script on the box as root."""
        command = [
            "nsenter",
            "--target",
            str(self._find_init()),
            "--all",
            "env",
            "-i",
            f"PATH={PATH}",
            "HOME=/root",
        ]
        done = subprocess.run(
            [*command, "bash", "-euc", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=within_s,
            check=False,
            # Whatever a script does to its group is not done to ours.
            start_new_session=True,
        )
        assert done.returncode == 0 or not check, done.stdout
        return done

    def close(self) -> None:
        init = self._find_init()
        self._process.kill()
        self._process.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{init}") or not init)
        wait_until(self._remove_groups)

    def _remove_groups(self) -> bool:
        """Its processes are gone a moment after process 1 is."""
        for path, _, _ in os.walk(self._group, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                return False
        return True


@contextmanager
def run_box(folder: pathlib.Path) -> Iterator[Box]:
    group = find_own_group()
    assert group is not None
    box = Box(folder, group)
    try:
        box.wait_booted()
        yield box
    finally:
        box.close()
