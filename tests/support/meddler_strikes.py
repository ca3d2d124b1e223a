"""What a meddler can do to a pipe: a strike is given the line that was its cue, and passes it on or not."""

import itertools
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.fuzz.mutations import mangle_line

if TYPE_CHECKING:
    from tests.support.meddler import Meddler

Strike = Callable[["Meddler", bytes, Any], None]

HALF = b'{"method":"item/agentMess'
LINES_AT_ONCE = 1000


def die(meddler: "Meddler", line: bytes, _: None) -> None:
    meddler.tell(line)
    meddler.die()


def freeze(meddler: "Meddler", line: bytes, _: None) -> None:
    meddler.tell(line)
    meddler.freeze()


def write_raw(meddler: "Meddler", line: bytes, text: str) -> None:
    meddler.pass_on(line)
    meddler.tell(text.encode() + b"\n")


def write_half(meddler: "Meddler", line: bytes, _: None) -> None:
    meddler.pass_on(line)
    meddler.tell(HALF)
    meddler.die()


def write_long(meddler: "Meddler", line: bytes, megabytes: int) -> None:
    """One message of that size; it is nothing that anyone waits for."""
    meddler.pass_on(line)
    meddler.tell(b'{"method":"meddler/long","params":{"pad":"')
    for _ in range(megabytes):
        meddler.tell(b"x" * 1_000_000)
    meddler.tell(b'"}}\n')


def be_silent(meddler: "Meddler", line: bytes, _: None) -> None:
    meddler.tell(line)
    meddler.is_silent = True


def repeat(meddler: "Meddler", line: bytes, times: int) -> None:
    meddler.tell(line * (1 + times))


def hold(meddler: "Meddler", line: bytes, until: str | None) -> None:
    """Out of order: this line passes behind the next of that name, or behind the very next."""
    meddler.held, meddler.held_until = line, until


def reply_to_nobody(meddler: "Meddler", line: bytes, ids: list[Any]) -> None:
    """Answers to calls that nobody made."""
    replies = [json.dumps({"id": id_, "result": {"thread": {"id": "nobody"}}}) for id_ in ids]
    meddler.tell(line + "".join(f"{reply}\n" for reply in replies).encode())


def ask(meddler: "Meddler", line: bytes, questions: list[dict[str, Any]]) -> None:
    meddler.tell(line)
    for question in questions:
        meddler.ask(question)


def flood(meddler: "Meddler", line: bytes, count: int | None) -> None:
    """So many notifications that nobody knows, or without an end."""
    meddler.pass_on(line)
    note = json.dumps({"method": "meddler/flood", "params": {"threadId": "nobody"}}).encode() + b"\n"
    for _ in itertools.islice(itertools.count(), count and count // LINES_AT_ONCE):
        meddler.tell(note * LINES_AT_ONCE)


def pile(meddler: "Meddler", line: bytes, megabytes: int) -> None:
    """So much in notifications that nobody knows."""
    meddler.pass_on(line)
    note = json.dumps({"method": "meddler/pile", "params": {"pad": "x" * 100_000}}).encode() + b"\n"
    for _ in range(10 * megabytes):
        meddler.tell(note)


def be_deaf(meddler: "Meddler", line: bytes, _: None) -> None:
    """Nothing is read from stdin any more."""
    meddler.is_deaf = True
    meddler.pass_on(line)


def ask_without_listening(meddler: "Meddler", line: bytes, count: int | None) -> None:
    """So many questions, or without an end, whose answers are not read."""
    be_deaf(meddler, line, None)
    for first in itertools.islice(itertools.count(0, LINES_AT_ONCE), count and count // LINES_AT_ONCE):
        ids = range(1_000_000 + first, 1_000_000 + first + LINES_AT_ONCE)
        meddler.tell("".join(f'{{"method":"meddler/ask","id":{id_}}}\n' for id_ in ids).encode())


def pile_without_listening(meddler: "Meddler", line: bytes, megabytes: int) -> None:
    """More questions than the pipe takes answers, and what comes behind them."""
    ask_without_listening(meddler, line, 5000)
    pile(meddler, b"", megabytes)


def ignore(meddler: "Meddler", line: bytes, what: list[str]) -> None:
    meddler.ignored = frozenset(what)
    meddler.tell(line)


def mangle(meddler: "Meddler", line: bytes, seed: int) -> None:
    """Alter this line and some of those behind it, up to the turn's end; for one seed always alike."""
    meddler.rng = random.Random(seed)
    meddler.tell(alter(line, meddler.rng, 1.0) if line else b"")


def alter(line: bytes, rng: random.Random, chance: float) -> bytes:
    """A line that suffered, if it is its turn; at times without its end, so that the next is part of it."""
    if rng.random() >= chance:
        return line
    return b"\n".join(mangle_line(line.rstrip(b"\n"), rng)) + rng.choice((b"\n", b"\n", b"\n", b""))


STRIKES: dict[str, Strike] = {
    "die": die,
    "freeze": freeze,
    "raw": write_raw,
    "half": write_half,
    "long": write_long,
    "silence": be_silent,
    "repeat": repeat,
    "hold": hold,
    "reply_to_nobody": reply_to_nobody,
    "ask": ask,
    "flood": flood,
    "pile": pile,
    "deaf": be_deaf,
    "ask_without_listening": ask_without_listening,
    "pile_without_listening": pile_without_listening,
    "ignore": ignore,
    "mangle": mangle,
}
