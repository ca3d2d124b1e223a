"""The smoke scripts against a real gateway on the real codex: they pass, and they fail where they should."""

import os
import pathlib
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.gateway import ROOT, Gateway, run_gateway
from tests.support.processes import find_children, read_command

pytestmark = pytest.mark.real

SMOKE = ROOT / "tests" / "smoke"
SCRIPTS = sorted(path.stem for path in SMOKE.glob("*.sh") if path.stem not in ("common", "run"))
#: With all that a careless script would trip over.
KEY = "sk-sm0ke\"'\\ $(x) &key"
OPEN = "skipped: the gateway is open"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("keyed")
    with run_gateway(folder, PROXY_DEMO="true", PROXY_API_KEY=KEY, PROXY_WARM_PROCESSES="1") as running:
        yield running


def smoke(folder: pathlib.Path, *command: str, **environ: str) -> tuple[int, list[str]]:
    """What a script says, and its exit status; it leaves nothing behind."""
    own = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "HOME": str(folder)}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=own | environ,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.stderr, list(folder.iterdir())) == ("", [])
    return done.returncode, done.stdout.splitlines()


def script(name: str) -> tuple[str, str]:
    return "sh", str(SMOKE / f"{name}.sh")


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_can_be_run_alone(keyed: Gateway, tmp_path: pathlib.Path, name: str) -> None:
    status, told = smoke(tmp_path, *script(name), BASE_URL=f"{keyed.base_url}/v1/", KEY=KEY)
    assert [line for line in told if not re.fullmatch(r"ok .+", line)] == []
    assert (status, len(told) >= 2) == (0, True)


def test_all_of_them_on_an_open_gateway(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    status, told = smoke(tmp_path, *script("run"), BASE_URL=gateway.base_url)
    assert [line for line in told if not line.startswith("ok ")] == [OPEN, "all is well"]
    assert (status, len(told)) == (0, len(set(told)))


def test_make_runs_them(keyed: Gateway, tmp_path: pathlib.Path) -> None:
    """Variables of make's are the scripts' own, whatever is in them."""
    asked = f"BASE_URL={keyed.base_url}", f"KEY={KEY.replace('$', '$$')}", "MODEL=demo"
    status, told = smoke(tmp_path, "make", "-s", "smoke", *asked)
    assert [line for line in told if not line.startswith("ok ")] == ["all is well"]
    assert status == 0


def test_a_gateway_that_is_down(tmp_path: pathlib.Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        status, told = smoke(tmp_path, *script("run"), BASE_URL=url, KEY=KEY)
    *lines, last = told
    assert [line for line in lines if not re.fullmatch(r"FAILED [^:]+: expected .*curl: \(7\).*", line)] == []
    assert (status, sorted(last.split())) == (1, sorted(["FAILED:", *SCRIPTS]))


def test_a_wrong_key(keyed: Gateway, tmp_path: pathlib.Path) -> None:
    status, told = smoke(tmp_path, *script("run"), BASE_URL=keyed.base_url, KEY="wrong")
    failed = [line for line in told[:-1] if not line.startswith("ok ")]
    differs = re.compile(r"FAILED [^:]+: expected status \d+, got 401 .*invalid_api_key.*")
    assert [line for line in failed if not differs.fullmatch(line)] == []
    keyless = ["health", "cors"]
    assert (status, sorted(told[-1].split()[1:])) == (1, sorted(set(SCRIPTS) - set(keyless)))


class YesMan(BaseHTTPRequestHandler):
    """Answers everything with a 200 that says nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_OPTIONS = do_DELETE = do_GET  # noqa: N815 (the names are the base class's)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Quiet."""


@pytest.fixture
def yes_man() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), YesMan) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_that_is_no_gateway(yes_man: str, tmp_path: pathlib.Path) -> None:
    """Nothing is ok for its status alone."""
    status, told = smoke(tmp_path, *script("run"), BASE_URL=yes_man, KEY=KEY)
    assert [line for line in told if not line.startswith("FAILED")] == [OPEN]
    assert (status, sorted(told[-1].split()[1:])) == (1, sorted(set(SCRIPTS) - {"key"}))


def find_descendants(pid: int) -> set[int]:
    children = find_children(pid)
    return children | {each for child in children for each in find_descendants(child)}


def test_the_key_is_on_no_command_line(tmp_path: pathlib.Path) -> None:
    """It reaches the gateway all the same, from a file that is nobody else's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        environ = {"BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}", "KEY": KEY}
        process = subprocess.Popen(
            script("models"),
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)} | environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        server.settimeout(10)
        client, _ = server.accept()
        with client:
            asked = client.recv(10_000).decode()
            lines = [read_command(pid) for pid in {process.pid} | find_descendants(process.pid)]
            files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")}
            [folder] = tmp_path.iterdir()
            modes = folder.stat().st_mode & 0o777, files["key"]
        server.close()
        told, _ = process.communicate(timeout=10)
    assert f"authorization: Bearer {KEY}\r\n" in asked
    assert any("curl" in line for line in lines)
    assert [line for line in lines if KEY in line or "sm0ke" in line] == []
    assert (modes, process.returncode, KEY in told, list(tmp_path.iterdir())) == (
        (0o700, 0o600),
        1,
        False,
        [],
    )
