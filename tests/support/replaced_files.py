"""What becomes of a file that is read again when it changes."""

import pathlib


def put_in_place(path: pathlib.Path, text: str) -> None:
    """As editors do: another file, moved over it. One as long may be written within a tick of the clock."""
    path.with_name("new").write_text(text)
    path.with_name("new").replace(path)


def turn_into_folder(path: pathlib.Path) -> None:
    """What nobody can read, whoever runs the test."""
    path.unlink()
    path.mkdir()
