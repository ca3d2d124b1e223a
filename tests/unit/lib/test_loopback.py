"""Names of this machine, and names that only look like one."""

from __future__ import annotations

import pytest

from app.lib.loopback import is_loopback, split_host


@pytest.mark.parametrize(
    ("host", "name", "is_ours"),
    [
        pytest.param("localhost", "localhost", True, id="name"),
        pytest.param("LocalHost.:11435", "localhost", True, id="name-dot-and-port"),
        pytest.param("a.localhost:80", "a.localhost", True, id="below-it"),
        pytest.param("127.0.0.1:11435", "127.0.0.1", True, id="address"),
        pytest.param("127.9.9.9", "127.9.9.9", True, id="all-of-the-range"),
        pytest.param("[::1]:11435", "::1", True, id="ipv6"),
        pytest.param("::1", "::1", True, id="ipv6-by-itself"),
        pytest.param("10.0.0.1:80", "10.0.0.1", False, id="a-network"),
        pytest.param("[2001:db8::1]", "2001:db8::1", False, id="an-ipv6-network"),
        pytest.param("localhost.evil.example", "localhost.evil.example", False, id="a-longer-name"),
        pytest.param("notlocalhost", "notlocalhost", False, id="another-name"),
        pytest.param("", "", False, id="nothing"),
    ],
)
def test_hosts(host: str, name: str, is_ours: bool) -> None:
    assert (split_host(host), is_loopback(split_host(host))) == (name, is_ours)
