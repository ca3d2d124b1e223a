"""What a process wrote to its stderr."""

from __future__ import annotations

import pathlib
import resource

import pytest

from app.backend.home import CodexHome
from app.backend.last_words import MAX_BYTES, TAIL_BYTES, read_last_words, trim
from app.settings import Settings


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "stderr"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"it broke\n", "it broke\n", id="a-line"),
        pytest.param(b"x" * 10 + b"y" * TAIL_BYTES, "y" * TAIL_BYTES, id="the-end-of-much"),
        pytest.param("é".encode()[1:] + b"!", "�!", id="a-cut-character"),
        pytest.param(
            b"401 with Bearer abc.def-9\nkey sk-proj-0123456789ab is bad",
            "401 with [redacted]\nkey [redacted] is bad",
            id="without-its-secrets",
        ),
    ],
)
def test_the_last_it_said(path: pathlib.Path, written: bytes, told: str) -> None:
    path.write_bytes(written)
    assert read_last_words(path) == told


def test_a_file_that_is_gone_has_no_words(path: pathlib.Path) -> None:
    assert "No such file" in read_last_words(path)


@pytest.mark.parametrize(
    ("written", "left"),
    [
        pytest.param(b"few", b"few", id="few-words"),
        pytest.param(b"x" * MAX_BYTES, b"x" * MAX_BYTES, id="as-many-as-may-be"),
        pytest.param(b"x" * MAX_BYTES + b"y" * TAIL_BYTES, b"y" * TAIL_BYTES, id="too-many"),
    ],
)
def test_what_has_grown_long_is_cut_to_its_end(path: pathlib.Path, written: bytes, left: bytes) -> None:
    path.write_bytes(written)
    trim(path)
    assert path.read_bytes() == left


def test_its_process_writes_on_behind_what_is_left(tmp_path: pathlib.Path) -> None:
    """No hole where the rest was: the file would seem as long as ever."""
    home = CodexHome(Settings(state_dir=tmp_path))
    folder, stderr = home.make_process_folder()
    with stderr:
        stderr.write(b"x" * (MAX_BYTES + 1))
        stderr.flush()
        home.trim_last_words()
        stderr.write(b"the end")
    assert (folder / "stderr").read_bytes() == b"x" * TAIL_BYTES + b"the end"


def test_a_process_that_is_gone_is_no_trouble(path: pathlib.Path) -> None:
    trim(path)
    assert not path.exists()


def test_where_no_file_can_be_opened_it_is_looked_at_again(tmp_path: pathlib.Path) -> None:
    """Whoever takes all of them ends no watch over the files of processes."""
    home = CodexHome(Settings(state_dir=tmp_path))
    folder, stderr = home.make_process_folder()
    with stderr:
        stderr.write(b"x" * (MAX_BYTES + 1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        home.trim_last_words()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    home.trim_last_words()
    assert (folder / "stderr").stat().st_size == TAIL_BYTES
