"""Which names are this machine's own."""

from __future__ import annotations

import functools
import ipaddress

LOCALHOST = "localhost"


def split_host(host: str) -> str:
    """The name in a Host header, without its port."""
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    if name.count(":") > 1:  # an IPv6 address by itself
        return name
    return name.partition(":")[0].removesuffix(".")


@functools.lru_cache(64)
def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == LOCALHOST or host.endswith(f".{LOCALHOST}")
