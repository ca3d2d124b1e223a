"""What the kernel tells about other processes."""

import pathlib

PROC = pathlib.Path("/proc")
ZOMBIE = "Z"


def find_children(pid: int) -> set[int]:
    """The processes whose parent this is.

    Each process is asked for its parent: a parent's own list misses the children of a thread that just ended.
    """
    everyone = (int(folder.name) for folder in PROC.glob("[0-9]*"))
    return {each for each in everyone if read_stat(each)[1:2] == [str(pid)]}


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    return read_stat(pid)[:1] not in ([], [ZOMBIE])


def is_zombie(pid: int) -> bool:
    return read_stat(pid)[:1] == [ZOMBIE]


def read_command(pid: int) -> str:
    """What everyone on the machine may read of a process; nothing of one that has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def read_stat(pid: int) -> list[str]:
    """What stands behind its name, which may hold anything: state, parent, …; nothing, when it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
