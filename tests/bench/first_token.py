"""Time to the first token: through the gateway, and the same turn on the bare pipe."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from app.backend.calls import UNREAD_NOTIFICATIONS
from app.backend.directory import ModelDirectory
from app.backend.home import CodexHome
from app.lib.models import Model
from app.settings import Settings
from tests.bench import memory
from tests.bench.cpu import CHAT, RESPONSES
from tests.bench.load import DELTA, Client, build_chat, build_responses, build_script
from tests.bench.servers import Server
from tests.bench.table import Row
from tests.support.driver import Driver, Message

GOAL_MS = 5.0
WARM_UP = 3
# Tools should cost the first token nothing but their own tokens; the machine is not that quiet.
TOOLS_GOAL_MS = 2.0
STORING_GOAL = 1.05
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Looks something up.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }
    for number in range(10)
]
# A process opens its next thread like its last: of requests that differ, the first has to open its own.
RUN = 6


def compare(gateway: Server, model: str, samples: int) -> tuple[Row, Row]:
    """One sample of each in turns, after a few to warm up; medians. And what the turns made of codex."""
    client = Client(gateway.port)
    script = build_script(3)
    body = build_chat(model, script, stream=True)
    pairs = []
    with run_bare_pipe(gateway, model) as pipe:
        for _ in range(samples + WARM_UP):
            pairs.append((client.post(CHAT, body).first_token_s, pipe.time_turn(script)))
        used = memory.measure_used_codex(pipe.pid, len(pairs))
    ours = [ours_s * 1000 for ours_s, _ in pairs[WARM_UP:]]
    whole = [bare.from_thread_s * 1000 for _, bare in pairs[WARM_UP:]]
    turn = [bare.from_turn_s * 1000 for _, bare in pairs[WARM_UP:]]
    return build_row(ours, whole, "its thread opened first"), build_row(ours, turn, "its thread open"), used


def compare_tools(gateway: Server, model: str, samples: int) -> Row:
    chats = [build_chat(model, build_script(3), stream=True, **more) for more in ({"tools": TOOLS}, {})]
    with_ms, without_ms = time_in_turns(gateway, CHAT, chats, samples)
    return Row(
        "first token, real codex, ten tools declared",
        f"{with_ms:.2f} ms",
        f"{without_ms:.2f} ms (gateway, no tools)",
        f"{with_ms / without_ms:.2f}x ({with_ms - without_ms:+.2f} ms)",
        f"≤ +{TOOLS_GOAL_MS:.0f} ms",
        with_ms - without_ms <= TOOLS_GOAL_MS,
    )


def compare_storing(gateway: Server, model: str, samples: int) -> Row:
    asked = [build_responses(model, build_script(3), stream=True, store=store) for store in (True, False)]
    kept_ms, unkept_ms = time_in_turns(gateway, RESPONSES, asked, samples)
    return Row(
        "first token, real codex, a response that is stored",
        f"{kept_ms:.2f} ms",
        f"{unkept_ms:.2f} ms (gateway, `store: false`)",
        f"{kept_ms / unkept_ms:.2f}x ({kept_ms - unkept_ms:+.2f} ms)",
        f"≤ {STORING_GOAL:.2f}x",
        kept_ms <= unkept_ms * STORING_GOAL,
    )


def time_in_turns(gateway: Server, path: str, bodies: list[bytes], samples: int) -> list[float]:
    """A few of each request in turns; the medians of the milliseconds to their first tokens."""
    client = Client(gateway.port)
    times: list[list[float]] = [[] for _ in bodies]
    for _ in range(max(1, samples // RUN)):
        for body, taken in zip(bodies, times, strict=True):
            run = [client.post(path, body).first_token_s * 1000 for _ in range(RUN)]
            taken.extend(run[1:])
    return [statistics.median(taken) for taken in times]


def build_row(ours: list[float], bare: list[float], how: str) -> Row:
    ours_ms, bare_ms = statistics.median(ours), statistics.median(bare)
    return Row(
        "first token, real codex, one client",
        f"{ours_ms:.2f} ms",
        f"{bare_ms:.2f} ms (bare pipe, {how})",
        f"{ours_ms / bare_ms:.2f}x ({ours_ms - bare_ms:+.2f} ms)",
        f"≤ +{GOAL_MS:.0f} ms",
        ours_ms - bare_ms <= GOAL_MS,
    )


class FirstToken(NamedTuple):
    """The seconds to a turn's first delta, from opening its thread and from its history on."""

    from_thread_s: float
    from_turn_s: float


class BarePipe:
    """A codex process with nothing in front of it, given the calls that the gateway gives."""

    def __init__(self, driver: Driver, thread_params: Message) -> None:
        self.pid = driver.process.pid
        self._driver = driver
        self._thread_params = thread_params

    def time_turn(self, script: str) -> FirstToken:
        """Run a turn to its end; the gateway opened its thread ahead, so both clocks are read."""
        asked_s = time.perf_counter()
        started = self._driver.call("thread/start", self._thread_params)
        thread_id = started["result"]["thread"]["id"]
        opened_s = time.perf_counter()
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": script}]}
        self._driver.send("thread/inject_items", {"threadId": thread_id, "items": [said]})
        turn = {"threadId": thread_id, "input": [], "environments": [], "summary": "auto"}
        self._driver.send("turn/start", turn)
        self._driver.read_until(lambda message: message.get("params", {}).get("delta") == DELTA)
        first_s = time.perf_counter()
        self._driver.read_until(lambda message: message.get("method") == "turn/completed")
        return FirstToken(first_s - asked_s, first_s - opened_s)


@contextlib.contextmanager
def run_bare_pipe(gateway: Server, model: str) -> Iterator[BarePipe]:
    """A process of the gateway's own making: the same home, the same environment, the same thread."""
    settings = Settings.from_env(gateway.environment)
    home = CodexHome(settings)
    folder, stderr = home.make_process_folder()
    _, params = ModelDirectory(home, settings).start_thread(Model(model, model, "bench"))
    with stderr, Driver([str(home.binary), "app-server"], home.environment(folder)) as driver:
        driver.initialize(UNREAD_NOTIFICATIONS)
        yield BarePipe(driver, params)
