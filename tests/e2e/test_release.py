"""What a stranger gets: the archives that `make dist` builds, and a gateway installed from one of them."""

from __future__ import annotations

import configparser
import pathlib
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator

import pytest
import requests

from tests.support.gateway import ROOT, Gateway, run_gateway
from tests.support.sse import DONE, read_frames

pytestmark = pytest.mark.real

SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
VERSION = SETUP["metadata"]["version"]
NAME = f"codex_gateway-{VERSION}"
FOLDERS = ("app", "config", "docs", "tests", ".ci")
TOP = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "MANIFEST.in", "Makefile", "README.md"),
    *("pyproject.toml", "ruff.toml", "setup.cfg", "wsgi.py"),
}
#: Becomes PROGRAM in FOLDER, whatever the environment of the tests has on its path.
BECOME = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"


def list_files(folder: str) -> set[str]:
    """What of the checkout is there to be shipped."""
    found = (ROOT / folder).rglob("*")
    return {
        path.relative_to(ROOT).as_posix() for path in found if path.is_file() and path.suffix not in (".pyc",)
    }


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The source archive, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def program(archives: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """`codex-gateway` in a new environment, which has the wheel and borrows what the wheel depends on."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=60)
    python = place / "bin" / "python"
    wheel = archives / f"{NAME}-py3-none-any.whl"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True, timeout=60)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = pathlib.Path(subprocess.check_output([python, "-c", where], text=True, timeout=60).strip())
    # A folder named here has its packages found; its own .pth files, and so the checkout's `app`, are not.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin" / "codex-gateway"


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where somebody starts the gateway: a project with modules named like ours."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("app.py", "wsgi.py", "gunicorn.conf.py"):
        (folder / name).write_text(f"raise SystemExit('this is the {name} of another project')\n")
    return folder


@pytest.fixture
def gateway(program: pathlib.Path, project: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Gateway]:
    home = tmp_path / "home"
    home.mkdir()
    command = ("-c", BECOME, str(project), str(program), "serve")
    with run_gateway(home, command=command, PROXY_DEMO="true", PROXY_WARM_PROCESSES="1") as running:
        yield running


def test_the_source_archive_is_the_checkout(archives: pathlib.Path) -> None:
    """`make test` runs from it: nothing of app/, config/, docs/ or tests/ is left out."""
    with tarfile.open(archives / f"{NAME}.tar.gz") as archive:
        names = {each.name.removeprefix(f"{NAME}/") for each in archive.getmembers() if each.isfile()}
    wanted = TOP.union(*map(list_files, FOLDERS))
    generated = {name for name in names if name.startswith("codex_gateway.egg-info/")} | {"PKG-INFO"}
    assert names - generated - {".gitignore"} == wanted


def test_the_wheel_is_the_application(archives: pathlib.Path) -> None:
    """Its pages and what serves them too, the licence of what is not ours, and no test."""
    with zipfile.ZipFile(archives / f"{NAME}-py3-none-any.whl") as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        told = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    served = {"wsgi.py", "app/config/gunicorn.conf.py", "app/config/serve.py"}
    assert names == list_files("app") | served
    assert "app/pages/static/vendor/uPlot.LICENSE.txt" in names
    assert f"\nVersion: {VERSION}\n" in told


def test_an_installed_gateway_answers(gateway: Gateway, project: pathlib.Path) -> None:
    """From an empty home, in a folder with an `app` of its own: page, streamed answer, orderly end."""
    page = requests.get(f"{gateway.base_url}/", timeout=30)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert requests.get(f"{gateway.base_url}/ui/status", timeout=30).json()["version"] == VERSION
    with gateway.chat("Hello!", model="demo", stream=True) as reply:
        assert reply.status_code == 200
        *frames, last = read_frames(reply.content)
    assert last == DONE
    text = "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames)
    assert "through the real Codex binary: you said “Hello!”" in text
    assert gateway.stop(signal.SIGTERM) == 0
    assert sorted(path.name for path in project.iterdir()) == ["app.py", "gunicorn.conf.py", "wsgi.py"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param(["--version"], 0, f"codex-gateway {VERSION}\n", id="version"),
        pytest.param(["key", "alice"], 0, "sk-cgw-", id="key"),
        pytest.param(["trace", "req_1", "/dev/null"], 1, "", id="trace"),
        pytest.param(["login", "--help"], 0, "usage: codex-gateway login", id="login"),
    ],
)
def test_its_other_commands(
    program: pathlib.Path, project: pathlib.Path, arguments: list[str], status: int, said: str
) -> None:
    environ = {"HOME": str(project.parent), "PATH": "/usr/bin:/bin"}
    command = [str(program), *arguments]
    run = subprocess.run(
        command, cwd=project, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout.startswith(said)) == (status, True)


def test_its_doctor_finds_it_well(program: pathlib.Path, project: pathlib.Path) -> None:
    """The real binary on the bare path: catalogue, configuration, what reaches a model."""
    environ = {"HOME": str(project.parent), "PATH": "/usr/bin:/bin", "PROXY_DEMO": "true"}
    environ["PROXY_PORT"] = "0"
    run = subprocess.run(
        [program, "doctor"],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert run.stdout.rstrip().endswith(" checks, 0 wrong")
