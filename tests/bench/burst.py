"""A burst: more requests in one moment than there may be codex processes."""

import json
import statistics

from tests.bench.crowd import ask_at_once
from tests.bench.load import CHAT, DELTA, Reply, build_chat
from tests.bench.servers import Server
from tests.bench.table import Row
from tests.support.sse import DONE, read_deltas


def measure(gateway: Server, model: str, requests: int) -> list[Row]:
    """Twice: once with the few warm processes, once with those that the first burst left."""
    limit = gateway.environment["PROXY_MAX_PROCESSES"]
    what = f"{requests} requests at once, real codex, PROXY_MAX_PROCESSES={limit}"
    return [
        build_row(f"{what}, {how}", ask_all(gateway, model, requests))
        for how in ("processes yet to start", "processes running")
    ]


def ask_all(gateway: Server, model: str, requests: int) -> list[Reply | None]:
    """The reply to each of them, None where it is not whole or not its own."""
    scripts = [json.dumps([{"say": [DELTA, str(number)]}]) for number in range(requests)]
    replies = ask_at_once(gateway, CHAT, [build_chat(model, script, stream=True) for script in scripts])
    return [
        reply if reply and read_text(reply) == DELTA + str(number) else None
        for number, reply in enumerate(replies)
    ]


def read_text(reply: Reply) -> str | None:
    """The answer of a stream that came to its end."""
    *brought, last = read_deltas(reply.data)
    if last != DONE or any(isinstance(each, dict) and "error" in each for each in brought):
        return None
    return "".join(each[1].get("content") or "" for each in brought if isinstance(each, tuple))


def build_row(what: str, replies: list[Reply | None]) -> Row:
    times = [reply.first_token_s for reply in replies if reply]
    said = f", first token {statistics.median(times):.2f} s, at most {max(times):.2f} s" if times else ""
    return Row(
        what,
        f"{len(times)} of {len(replies)} answered{said}",
        goal=f"{len(replies)} of {len(replies)}",
        met=len(times) == len(replies),
    )
