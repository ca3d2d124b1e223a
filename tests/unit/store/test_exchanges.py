"""What lately went in and out."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from app.store.exchanges import LONGEST_BYTES, Exchanges

FIRST, MORE = b'{"what":"request"}', b'{"what":"frames"}'
KEPT = [{"what": "request"}, {"what": "frames"}]
MINE, OLD, MIDDLE, NEW = (digit * 32 for digit in "0123")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "state" / "exchanges"


@pytest.fixture
def exchanges(folder: pathlib.Path) -> Exchanges:
    return Exchanges(folder, 50)


def test_any_worker_reads_what_another_kept(folder: pathlib.Path, exchanges: Exchanges) -> None:
    for piece in (FIRST, MORE):
        exchanges.keep(MINE, piece)
    assert Exchanges(folder, 50).read(MINE) == (KEPT, False)


def test_only_its_owner_can_read_it(folder: pathlib.Path, exchanges: Exchanges) -> None:
    exchanges.keep(MINE, FIRST)
    [path] = folder.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, path)] == [0o700, 0o600]


@pytest.mark.parametrize(
    "asked", [NEW, "", "..", "../../etc/passwd", "/etc/passwd", "a/b", "a" * 10_000, "\0", MINE.upper() + " "]
)
def test_what_was_not_kept_is_not_known(exchanges: Exchanges, asked: str) -> None:
    """And what is no name of ours becomes no path."""
    exchanges.keep(MINE, FIRST)
    assert exchanges.read(asked) is None


def test_a_long_exchange_is_cut_and_says_so(exchanges: Exchanges) -> None:
    exchanges.keep(MINE, FIRST)
    piece = b'"' + b"x" * (LONGEST_BYTES // 2) + b'"'
    for _ in range(5):
        exchanges.keep(MINE, piece)
    found = exchanges.read(MINE)
    assert found is not None
    pieces, is_cut = found
    assert (len(pieces), is_cut) == (3, True)


def test_the_newest_are_kept(folder: pathlib.Path) -> None:
    exchanges = Exchanges(folder, 2)
    for age_s, each in enumerate((NEW, MIDDLE, OLD)):
        exchanges.keep(each, FIRST)
        os.utime(folder / each, (1_000_000 - age_s, 1_000_000 - age_s))
    exchanges.prune()
    assert [exchanges.read(each) is not None for each in (OLD, MIDDLE, NEW)] == [False, True, True]


def test_where_none_are_wanted_those_of_before_are_removed(
    folder: pathlib.Path, exchanges: Exchanges
) -> None:
    """The operator has switched it off again."""
    exchanges.keep(OLD, FIRST)
    nobody = Exchanges(folder, 0)
    for _ in range(2):
        nobody.prune()
        nobody.keep(NEW, FIRST)
    assert not folder.exists()


def test_a_piece_that_is_being_written_is_not_read_in_half(
    folder: pathlib.Path, exchanges: Exchanges
) -> None:
    exchanges.keep(MINE, FIRST)
    with open(folder / MINE, "ab") as file:
        file.write(MORE[:5])
    assert exchanges.read(MINE) == (KEPT[:1], False)


def test_a_piece_that_was_cut_short_spoils_no_other(folder: pathlib.Path, exchanges: Exchanges) -> None:
    """By a disk that was full for a moment; it is told that something is missing."""
    exchanges.keep(MINE, FIRST)
    with open(folder / MINE, "ab") as file:
        file.write(MORE[:5])
    for piece in (FIRST, MORE):
        exchanges.keep(MINE, piece)
    assert exchanges.read(MINE) == (KEPT, True)


def test_what_cannot_be_kept_hurts_nobody(folder: pathlib.Path, exchanges: Exchanges) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    exchanges.keep(MINE, FIRST)
    exchanges.prune()
    assert exchanges.read(MINE) is None


def test_nothing_is_written_where_a_link_leads(folder: pathlib.Path, exchanges: Exchanges) -> None:
    folder.mkdir(parents=True)
    elsewhere = folder.parent / "elsewhere"
    (folder / MINE).symlink_to(elsewhere)
    exchanges.keep(MINE, FIRST)
    assert not elsewhere.exists()
