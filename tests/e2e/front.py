"""A real nginx with the site we ship, on free ports of loopback and with a certificate of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator

from tests.support.gateway import ROOT, wait_until

SITE = ROOT / "config" / "nginx" / "codex-gateway.conf"
NAME = "gateway.example.org"
# Debian keeps it where only root's PATH leads.
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
NEEDED = (NGINX, shutil.which("openssl"), shutil.which("curl"))
#: Below those that Linux gives to outgoing connections.
QUIET_PORTS = range(20_000, 32_000)
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def find_free_port() -> int:
    """One that no outgoing connection is given: it stays free for its server, and for the next one."""
    for port in random.sample(QUIET_PORTS, 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def make_certificate(folder: pathlib.Path) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)


def move_here(site: str, moves: dict[str, str]) -> str:
    """The shipped site with other places in it, each of which must be there to be replaced."""
    for place, here in moves.items():
        assert place in site, place
        site = site.replace(place, here)
    return site


class Front:
    """A running nginx in front of a port."""

    def __init__(self, folder: pathlib.Path, upstream_port: int) -> None:
        folder.mkdir()
        self.certificate = folder / "fullchain.pem"
        self.challenges = folder / "www" / ".well-known" / "acme-challenge"
        self.access_log = folder / "access.log"
        self.http_port, self.https_port = find_free_port(), find_free_port()
        self._config = folder / "nginx.conf"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        make_certificate(folder)
        self.challenges.mkdir(parents=True)
        self._write(upstream_port)

    @property
    def base_url(self) -> str:
        return f"https://localhost:{self.https_port}"

    @property
    def http_url(self) -> str:
        return f"http://localhost:{self.http_port}"

    def _write(self, upstream_port: int) -> None:
        moves = {
            "listen 80;": f"listen 127.0.0.1:{self.http_port};",
            "listen 443 ": f"listen 127.0.0.1:{self.https_port} ",
            f"/etc/letsencrypt/live/{NAME}": str(self._folder),
            NAME: "localhost",
            "127.0.0.1:11435": f"127.0.0.1:{upstream_port}",
            "/var/log/nginx/codex-gateway.log": str(self.access_log),
            "/var/www/html": str(self._folder / "www"),
        }
        without_ipv6 = re.sub(r"\n *listen \[::\].*", "", SITE.read_text())
        (self._folder / "site.conf").write_text(move_here(without_ipv6, moves))
        paths = " ".join(f"{each}_temp_path {self._folder / each};" for each in TEMPORARY)
        # Only root may say who the workers are, and only root's folders are closed to them.
        user = f"user {pwd.getpwuid(os.getuid()).pw_name};" if os.getuid() == 0 else ""
        self._config.write_text(
            f"{user} daemon off; pid {self._folder / 'pid'}; error_log stderr; worker_processes 2;\n"
            "events { worker_connections 512; }\n"
            f"http {{ {paths} include {self._folder / 'site.conf'}; }}\n"
        )

    def _command(self, *more: str) -> list[str]:
        return [str(NGINX), "-p", str(self._folder), "-e", "stderr", "-c", str(self._config), *more]

    def check(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command("-t"), capture_output=True, text=True, check=False)

    def start(self) -> None:
        with open(self._folder / "error.log", "wb") as log:
            self._process = subprocess.Popen(self._command(), stderr=log)
        wait_until(self._is_listening)

    def _is_listening(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "error.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.https_port)).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


@contextlib.contextmanager
def run_front(folder: pathlib.Path, upstream_port: int) -> Iterator[Front]:
    front = Front(folder, upstream_port)
    try:
        front.start()
        yield front
    finally:
        front.stop()
