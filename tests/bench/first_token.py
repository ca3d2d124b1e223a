"""Time to the first token: through the gateway, and the same turn on the bare pipe."""

import statistics

from tests.bench import memory
from tests.bench.bare_pipe import BareCodex, BarePipe, FirstToken
from tests.bench.continuations import CALLING_SCRIPT, DYNAMIC_TOOL, RESULT, SCRIPT, Talk, read_first_token
from tests.bench.load import CHAT, RESPONSES, TEN_TOOLS, Client, build_chat, build_responses
from tests.bench.rounds import (
    FASTER,
    WARM_UP,
    Take,
    build_extra_goal,
    build_ratio_goal,
    build_row,
    take_in_turns,
)
from tests.bench.servers import CodexGateways, Server, wait_until
from tests.bench.table import Row
from tests.support.processes import find_children

FIRST = "first token, real codex, "
WARM_GOAL = build_extra_goal(5)
# Tools should cost the first token nothing but their own tokens; the machine is not that quiet.
TOOLS_GOAL = build_extra_goal(2)
STORING_GOAL = build_ratio_goal(1.05)
# A process opens its next thread like its last: of requests that differ, the first has to open its own.
RUN = 6


def compare(gateways: CodexGateways, model: str, samples: int) -> tuple[list[Row], Row]:
    """Every way to a first token, in turns. And what its turns made of the bare pipe's codex."""
    bare = BareCodex(gateways.warm, model)
    bare_with_tool = BareCodex(gateways.parking, model, [DYNAMIC_TOOL])
    with bare.run() as pipe, bare_with_tool.run() as tool_pipe:
        takes = [
            *build_warm_takes(gateways.warm, model, pipe),
            *build_continuing_takes(gateways, model, tool_pipe),
            *build_cold_takes(gateways.cold, model, bare),
        ]
        times = take_in_turns(takes, samples)
        used = memory.measure_used_codex(pipe.pid, WARM_UP + samples)
    return build_rows(times), used


def build_warm_takes(gateway: Server, model: str, pipe: BarePipe) -> list[Take]:
    client, body = Client(gateway.port), build_chat(model, SCRIPT, stream=True)

    def take_bare() -> dict[str, float]:
        taken: FirstToken = pipe.time_turn(SCRIPT)
        return {
            "bare, opening": taken.from_thread_s,
            "bare, open": taken.from_turn_s,
            "bare, whole": taken.whole_s,
        }

    def take_warm() -> dict[str, float]:
        reply = client.post(CHAT, body)
        return {"warm": read_first_token(reply, "warm"), "warm, whole": reply.took_s}

    return [take_warm, take_bare]


def build_continuing_takes(gateways: CodexGateways, model: str, pipe: BarePipe) -> list[Take]:
    """Each on a gateway of its own: a request finds a thread opened ahead that is like the last one's."""
    parking, replaying, following = (
        Talk(gateway.port, model) for gateway in (gateways.parking, gateways.replaying, gateways.following)
    )
    return [
        lambda: {"parked": parking.time_result("parked")},
        lambda: {"bare, parked": pipe.time_result(CALLING_SCRIPT, RESULT)},
        lambda: {"replayed": replaying.time_result("warm")},
        lambda: {"followed": following.time_follow_up(is_echoed=True)},
        lambda: {"retold": following.time_follow_up(is_echoed=False)},
    ]


def build_cold_takes(gateway: Server, model: str, bare: BareCodex) -> list[Take]:
    """Each process serves one turn; it is gone before anything else is timed."""
    client, body = Client(gateway.port), build_chat(model, SCRIPT, stream=True)

    def take_cold() -> dict[str, float]:
        first_token_s = read_first_token(client.post(CHAT, body), "cold")
        wait_until(lambda: not find_children(gateway.worker_pid))
        return {"cold": first_token_s}

    return [take_cold, lambda: {"bare, cold": bare.time_cold_turn(SCRIPT)}]


def build_rows(times: dict[str, float]) -> list[Row]:
    """From each clock's milliseconds."""
    pairs = (
        ("warm process", "warm", "bare, opening", "bare pipe, its thread opened first", WARM_GOAL),
        ("warm process", "warm", "bare, open", "bare pipe, its thread open", WARM_GOAL),
        ("cold process", "cold", "bare, cold", "bare pipe, started first", None),
        ("parked turn", "parked", "bare, parked", "bare pipe, a call answered", None),
        ("parked turn", "parked", "replayed", "gateway, the same replayed", FASTER),
        ("follow-up on its own thread", "followed", "retold", "gateway, history told anew", None),
    )
    whole = "whole answer, real codex, warm process"
    return [
        *(
            build_row(FIRST + what, times[ours], times[beside], words, goal)
            for what, ours, beside, words, goal in pairs
        ),
        build_row(whole, times["warm, whole"], times["bare, whole"], "bare pipe, its thread open"),
    ]


def compare_tools(gateway: Server, model: str, samples: int) -> Row:
    chats = [build_chat(model, SCRIPT, stream=True, **more) for more in ({"tools": TEN_TOOLS}, {})]
    with_ms, without_ms = time_in_turns(gateway, CHAT, chats, samples)
    return build_row(FIRST + "ten tools declared", with_ms, without_ms, "gateway, no tools", TOOLS_GOAL)


def compare_storing(gateway: Server, model: str, samples: int) -> Row:
    asked = [build_responses(model, SCRIPT, stream=True, store=store) for store in (True, False)]
    kept_ms, unkept_ms = time_in_turns(gateway, RESPONSES, asked, samples)
    what = FIRST + "a response that is stored"
    return build_row(what, kept_ms, unkept_ms, "gateway, `store: false`", STORING_GOAL)


def time_in_turns(gateway: Server, path: str, bodies: list[bytes], samples: int) -> list[float]:
    """A few of each request in turns; the medians of the milliseconds to their first tokens."""
    client = Client(gateway.port)
    times: list[list[float]] = [[] for _ in bodies]
    for _ in range(max(1, samples // RUN)):
        for body, taken in zip(bodies, times, strict=True):
            run = [client.post(path, body).first_token_s * 1000 for _ in range(RUN)]
            taken.extend(run[1:])
    return [statistics.median(taken) for taken in times]
