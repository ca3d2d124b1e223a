"""Where the gateway is to listen: free, or a gateway's already."""

from __future__ import annotations

import errno
import socket

from app.doctor.findings import Finding, ok, wrong
from app.doctor.patient import Patient
from app.doctor.wire import Unreached, Wire

PORT = "port"

#: What is asked at its own address where a server listens on all of them.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def check_port(patient: Patient) -> list[Finding]:
    host, port = patient.settings.host, patient.settings.port
    if port == 0:
        return [ok(PORT, "any that is free (PROXY_PORT=0)")]
    where = join(host, port)
    obstacle = try_to_listen(host, port)
    if obstacle is None:
        return [ok(PORT, f"{where} is free")]
    if obstacle.errno != errno.EADDRINUSE:
        return [wrong(PORT, f"cannot listen on {where} ({obstacle.strerror}): set PROXY_HOST or PROXY_PORT")]
    return [look_at_holder(where, Wire(f"http://{join(EVERYWHERE.get(host, host), port)}", False))]


def try_to_listen(host: str, port: int) -> OSError | None:
    """What is in the way, if anything is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def look_at_holder(where: str, wire: Wire) -> Finding:
    other = f"{where} is taken by something that is no gateway"
    try:
        live = wire.ask("GET", "/livez")
        if live.status != 200 or live.json != {"status": "ok"}:
            return wrong(PORT, f"{other} ({live.describe()}): end it, or set PROXY_PORT")
        ready = wire.ask("GET", "/readyz")
    except Unreached as error:
        return wrong(PORT, f"{other}, or by one that hangs ({error}): end it, or set PROXY_PORT")
    if ready.status == 200:
        return ok(PORT, f"{where} is served by a gateway that runs, and is ready")
    return wrong(PORT, f"{where} is served by a gateway that is not ready (HTTP {ready.status}): see its log")


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
