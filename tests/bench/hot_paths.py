"""Where the worker's time goes on the three hottest paths: shares of its CPU samples, as markdown."""

import pathlib
from collections import Counter
from collections.abc import Iterator

from tests.bench.cases import DELTA_CASES, HISTORY_CASES, Case
from tests.bench.cpu import ask_once, open_load
from tests.bench.servers import Server

PATHS = {
    "one-delta stream": (DELTA_CASES[1], 10_000),
    "100-delta stream": (DELTA_CASES[100], 6_000),
    "1 MB history": (HISTORY_CASES[500], 800),
}
#: What a sample is counted for is the innermost function of these; what that calls elsewhere is its own.
KNOWN = ("app/", "gunicorn/", "flask/", "werkzeug/", "gevent/", "greenlet/")
FUNCTIONS = 12
#: A share that is less is left out.
LEAST = 0.005


def measure(gateway: Server, model: str, part: float, folder: pathlib.Path | None) -> str:
    """Two tables, a column for each path; the stacks themselves go to the folder."""
    stacks = {
        name: sample(gateway, case, model, round(requests * part)) for name, (case, requests) in PATHS.items()
    }
    for name, lines in stacks.items():
        if folder:
            (folder / f"{name.replace(' ', '-')}.folded").write_text(lines)
    return f"{render_rooms(stacks)}\n\n{render_functions(stacks)}"


def sample(gateway: Server, case: Case, model: str, requests: int) -> str:
    with open_load(gateway, case.path, case.build(model)) as run:
        run(100)
        ask_once(gateway, "/sampler/start", b"")
        run(requests)
        return ask_once(gateway, "/sampler/stop", b"").decode()


def read_stacks(lines: str) -> Iterator[tuple[list[str], int]]:
    for line in lines.splitlines():
        stack, _, count = line.rpartition(" ")
        yield stack.split(";"), int(count)


def find_known(stack: list[str]) -> str:
    return next((name for name in reversed(stack) if name.startswith(KNOWN)), stack[0])


def find_shares(lines: str, by_room: bool) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for stack, count in read_stacks(lines):
        name = find_known(stack)
        counts[find_room(name) if by_room else name] += count
    return {name: count / counts.total() for name, count in counts.most_common()}


def find_room(name: str) -> str:
    """`app/lib` of `app/lib/turn.py:TurnCore.feed`, `gunicorn` of what is gunicorn's."""
    folders = name.partition(":")[0].split("/")
    return "/".join(folders[:2]) if folders[0] == "app" else folders[0]


def render_rooms(stacks: dict[str, str]) -> str:
    shares = [find_shares(lines, by_room=True) for lines in stacks.values()]
    rooms = sorted(
        {room for each in shares for room in each}, key=lambda room: -max(map_shares(shares, room))
    )
    rows = [
        f"| {room} | " + " | ".join(f"{share:.0%}" for share in map_shares(shares, room)) + " |"
        for room in rooms
        if max(map_shares(shares, room)) >= LEAST
    ]
    return "\n".join([f"| samples in | {' | '.join(stacks)} |", "| --- |" + " --- |" * len(stacks), *rows])


def map_shares(shares: list[dict[str, float]], room: str) -> list[float]:
    return [each.get(room, 0.0) for each in shares]


def render_functions(stacks: dict[str, str]) -> str:
    dearest = [
        [f"{share:.1%} `{name}`" for name, share in find_shares(lines, by_room=False).items()][:FUNCTIONS]
        for lines in stacks.values()
    ]
    rows = ["| " + " | ".join(cells) + " |" for cells in zip(*dearest, strict=False)]
    return "\n".join([f"| {' | '.join(stacks)} |", "|" + " --- |" * len(stacks), *rows])
