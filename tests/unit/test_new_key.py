"""Making a key: `make key`."""

from __future__ import annotations

import os
import pathlib
import re
import stat
import tomllib

import pytest

from app.lib.keys import AccessKey, KeyLimits, KeysFault, Role, digest_key, find_key, parse_keys
from app.lib.redaction import redact
from app.new_key import add_key

NOBODY_ELSE = 0o600


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "folder" / "keys.toml"


def read_mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("role", "limits"),
    [
        pytest.param(Role.CLIENT, KeyLimits(), id="a-client"),
        pytest.param(Role.ADMIN, KeyLimits(), id="an-admin"),
        pytest.param(Role.CLIENT, KeyLimits(60, 4), id="with-limits"),
        pytest.param(Role.CLIENT, KeyLimits(0, None), id="with-one-that-is-none"),
    ],
)
def test_a_key_is_made(path: pathlib.Path, role: Role, limits: KeyLimits) -> None:
    """Long and random, nowhere but in the result; its hash in a file that is nobody else's to read."""
    key = add_key(path, "alice", role, limits)
    assert re.fullmatch(r"sk-cgw-[A-Za-z0-9_-]{43}", key)
    assert find_key(parse_keys(path.read_text()), key.encode()) == AccessKey(
        "alice", digest_key(key.encode()), role, limits
    )
    assert key not in path.read_text()
    assert (read_mode(path), read_mode(path.parent)) == (NOBODY_ELSE, 0o700)


def test_no_two_keys_are_alike_and_each_is_found_in_a_log(path: pathlib.Path) -> None:
    keys = [add_key(path, f"k{number}", Role.CLIENT, KeyLimits()) for number in range(20)]
    assert len(set(keys)) == 20
    assert [redact(f"/x_{key}/") for key in keys] == ["/x_[redacted]/"] * 20


BEFORE = f"""# who may come in
[bob]   # the one in the cellar
hash = "sha256:{"b" * 64}"
"""


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(BEFORE, id="as-an-editor-leaves-it"),
        pytest.param(BEFORE.rstrip("\n"), id="without-a-last-newline"),
        pytest.param(BEFORE + "\n", id="with-an-empty-line"),
        pytest.param("", id="empty"),
        pytest.param("# nobody yet", id="a-comment"),
    ],
)
def test_what_is_in_the_file_stays(tmp_path: pathlib.Path, before: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(before)
    path.chmod(0o640)
    inode = path.stat().st_ino
    add_key(path, "alice", Role.CLIENT, KeyLimits())
    after = path.read_text()
    assert after.startswith(before)
    assert list(tomllib.loads(after)) == [*tomllib.loads(before), "alice"]
    assert (read_mode(path), path.stat().st_ino) == (0o640, inode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_its_owner_stays(tmp_path: pathlib.Path) -> None:
    """Root adds a key; the service that reads the file is another user."""
    path = tmp_path / "keys.toml"
    path.write_text(BEFORE)
    os.chown(path, 0, 4321)
    add_key(path, "alice", Role.CLIENT, KeyLimits())
    assert (path.stat().st_uid, path.stat().st_gid) == (0, 4321)


@pytest.mark.parametrize(
    ("name", "limits", "complaint"),
    [
        pytest.param("bob", KeyLimits(), "there is a key named bob already", id="the-name-is-taken"),
        pytest.param("", KeyLimits(), "'': a name has up to 64 letters", id="no-name"),
        pytest.param("a b", KeyLimits(), "'a b': a name has up to 64 letters", id="no-such-name"),
        pytest.param('a"]\n[b', KeyLimits(), "a name has up to 64 letters", id="a-name-that-is-toml"),
        pytest.param("env:1", KeyLimits(), "'env:1': a name has up to 64 letters", id="a-name-of-ours"),
        pytest.param("x" * 65, KeyLimits(), "a name has up to 64 letters", id="too-long"),
        pytest.param(
            "alice", KeyLimits(-1), "requests_per_minute must be a whole number", id="less-than-none"
        ),
    ],
)
def test_what_is_refused_leaves_the_file_alone(
    tmp_path: pathlib.Path, name: str, limits: KeyLimits, complaint: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(BEFORE)
    with pytest.raises(KeysFault, match=complaint):
        add_key(path, name, Role.CLIENT, limits)
    assert path.read_text() == BEFORE


def test_a_file_that_cannot_be_meant_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text("[bob")
    with pytest.raises(KeysFault, match="Expected"):
        add_key(path, "alice", Role.CLIENT, KeyLimits())
    assert path.read_text() == "[bob"


def test_a_name_that_is_refused_makes_no_file(path: pathlib.Path) -> None:
    with pytest.raises(KeysFault):
        add_key(path, "a b", Role.CLIENT, KeyLimits())
    assert not path.parent.exists()
