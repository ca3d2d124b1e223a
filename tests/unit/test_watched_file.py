"""A file whose content is a value, read again when it has changed."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from app.watched_file import WatchedFile
from tests.support.replaced_files import put_in_place, turn_into_folder

Change = Callable[[pathlib.Path], object]


class Watch:
    """A watched file of one number, with how often it was read and what was complained about."""

    def __init__(self, path: pathlib.Path) -> None:
        self.parsed = 0
        self.complaints: list[str] = []
        self._file = WatchedFile(path, self._parse, -1, self._complain)

    def read(self) -> int:
        return self._file.read()

    def _parse(self, data: bytes) -> int:
        self.parsed += 1
        return int(data)

    def _complain(self, error: Exception) -> None:
        self.complaints.append(type(error).__name__)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


def put_back_time(path: pathlib.Path, before: os.stat_result) -> None:
    """And again, until the clock of files has moved: it may tick only now and then."""
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_unseen(path: pathlib.Path) -> None:
    """In place, of the same length, and with the old time put back."""
    before = path.stat()
    path.write_text("2")
    put_back_time(path, before)


@pytest.mark.parametrize(
    ("change", "value", "complaints"),
    [
        pytest.param(lambda path: None, 1, [], id="none"),
        pytest.param(lambda path: path.write_text("22"), 22, [], id="written"),
        pytest.param(lambda path: put_in_place(path, "2"), 2, [], id="another-of-the-same-length"),
        pytest.param(write_unseen, 2, [], id="at-the-same-time-and-of-the-same-length"),
        pytest.param(pathlib.Path.unlink, -1, [], id="gone"),
        pytest.param(lambda path: path.write_text("two"), 1, ["ValueError"], id="not-to-be-parsed"),
        pytest.param(lambda path: path.write_bytes(b"\xff"), 1, ["ValueError"], id="no-text"),
        pytest.param(lambda path: path.write_text(""), 1, ["ValueError"], id="being-written"),
        pytest.param(turn_into_folder, 1, ["IsADirectoryError"], id="not-to-be-read"),
    ],
)
def test_a_change_counts_at_once(
    path: pathlib.Path, change: Change, value: int, complaints: list[str]
) -> None:
    watch = Watch(path)
    assert watch.read() == 1
    change(path)
    assert ([watch.read(), watch.read()], watch.complaints) == ([value] * 2, complaints)


def test_what_did_not_change_is_not_read_again(path: pathlib.Path) -> None:
    watch = Watch(path)
    assert ([watch.read() for _ in range(5)], watch.parsed) == ([1] * 5, 1)


def test_a_file_may_come_later_and_come_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "number"
    watch, values = Watch(path), []
    for text in (None, "1", None, "1"):
        path.write_text(text) if text else path.unlink(missing_ok=True)
        values.append(watch.read())
    assert (values, watch.complaints) == ([-1, 1, -1, 1], [])


def test_a_folder_that_is_gone_is_a_file_that_is_gone(path: pathlib.Path) -> None:
    watch = Watch(path)
    assert watch.read() == 1
    shutil.rmtree(path.parent)
    assert watch.read() == -1


def test_one_that_is_mended_counts_again(path: pathlib.Path) -> None:
    watch, values = Watch(path), []
    for text in ("1", "one", "3"):
        path.write_text(text)
        values.append(watch.read())
    assert (values, watch.complaints) == ([1, 1, 3], ["ValueError"])


def test_a_change_of_owner_or_mode_has_it_read_again(path: pathlib.Path) -> None:
    """It may be readable only now."""
    watch = Watch(path)
    watch.read()
    before = path.stat()
    path.chmod(0o400)
    put_back_time(path, before)
    assert (watch.read(), watch.parsed) == (1, 2)


def test_without_anyone_to_complain_to(path: pathlib.Path) -> None:
    path.write_text("none")
    assert WatchedFile(path, int, -1).read() == -1
