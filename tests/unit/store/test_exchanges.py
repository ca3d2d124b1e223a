"""What lately went in and out."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from app.store.exchanges import LONGEST_BYTES, Exchanges

FIRST, MORE = b'{"what":"request"}', b'{"what":"frames"}'
KEPT = [{"what": "request"}, {"what": "frames"}]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "state" / "exchanges"


def fill(exchanges: Exchanges, *ids: str) -> None:
    for age_s, request_id in enumerate(reversed(ids)):
        exchanges.begin(request_id, FIRST)
        path = exchanges._find(request_id)
        os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))


def test_any_worker_reads_what_another_kept(folder: pathlib.Path) -> None:
    exchanges = Exchanges(folder, 50)
    exchanges.begin("mine", FIRST)
    exchanges.go_on("mine", MORE)
    assert Exchanges(folder, 50).read("mine") == (KEPT, False)


def test_only_its_owner_can_read_it(folder: pathlib.Path) -> None:
    Exchanges(folder, 50).begin("mine", FIRST)
    [path] = folder.iterdir()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, path)] == [0o700, 0o600]


@pytest.mark.parametrize(
    "request_id", ["never-begun", "", "..", "../../etc/passwd", "/etc/passwd", "a/b", "a" * 10_000, "\0"]
)
def test_what_has_no_first_piece_is_not_known(folder: pathlib.Path, request_id: str) -> None:
    """A supervisor's question, the page's own; and no client's words become a path."""
    exchanges = Exchanges(folder, 50)
    exchanges.go_on(request_id, MORE)
    assert (exchanges.read(request_id), folder.exists()) == (None, False)


def test_a_long_exchange_is_cut_and_says_so(folder: pathlib.Path) -> None:
    exchanges = Exchanges(folder, 50)
    exchanges.begin("long", FIRST)
    piece = b'"' + b"x" * (LONGEST_BYTES // 2) + b'"'
    for _ in range(5):
        exchanges.go_on("long", piece)
    found = exchanges.read("long")
    assert found is not None
    pieces, is_cut = found
    assert (len(pieces), is_cut) == (3, True)


def test_the_newest_are_kept(folder: pathlib.Path) -> None:
    exchanges = Exchanges(folder, 2)
    fill(exchanges, "old", "middle", "new")
    exchanges.prune()
    assert [exchanges.read(each) is not None for each in ("old", "middle", "new")] == [False, True, True]


def test_where_none_are_wanted_those_of_before_are_removed(folder: pathlib.Path) -> None:
    """The operator has switched it off again."""
    fill(Exchanges(folder, 2), "old")
    nobody = Exchanges(folder, 0)
    nobody.prune()
    nobody.begin("new", FIRST)
    nobody.prune()
    assert not folder.exists()


def test_a_piece_that_is_being_written_is_not_read_in_half(folder: pathlib.Path) -> None:
    exchanges = Exchanges(folder, 50)
    exchanges.begin("mine", FIRST)
    with open(exchanges._find("mine"), "ab") as file:
        file.write(MORE[:5])
    assert exchanges.read("mine") == (KEPT[:1], False)


def test_what_cannot_be_kept_hurts_nobody(folder: pathlib.Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    exchanges = Exchanges(folder, 50)
    exchanges.begin("mine", FIRST)
    exchanges.go_on("mine", MORE)
    exchanges.prune()
    assert exchanges.read("mine") is None
