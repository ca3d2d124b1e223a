"""Time to the first token: through the gateway, and the same turn on the bare pipe."""

import contextlib
import statistics
import time
from collections.abc import Iterator

from app.backend.directory import ModelDirectory
from app.backend.home import CodexHome
from app.backend.process import UNREAD_NOTIFICATIONS
from app.lib.models import Model
from app.settings import Settings
from tests.bench import memory
from tests.bench.cpu import CHAT
from tests.bench.load import DELTA, Client, build_chat, build_script
from tests.bench.servers import Server
from tests.bench.table import Row
from tests.support.driver import Driver, Message

GOAL_MS = 5.0
WARM_UP = 3


def compare(gateway: Server, model: str, samples: int) -> tuple[Row, Row]:
    """One sample of each in turns, after a few to warm up; medians. And what the turns made of codex."""
    client = Client(gateway.port)
    script = build_script(3)
    body = build_chat(model, script, stream=True)
    pairs = []
    with run_bare_pipe(gateway, model) as pipe:
        for _ in range(samples + WARM_UP):
            pairs.append((client.post(CHAT, body).first_token_s * 1000, pipe.time_turn(script) * 1000))
        used = memory.measure_used_codex(pipe.pid, len(pairs))
    ours_ms, bare_ms = (statistics.median(side) for side in zip(*pairs[WARM_UP:], strict=True))
    first = Row(
        "first token, real codex, one client",
        f"{ours_ms:.2f} ms",
        f"{bare_ms:.2f} ms (bare pipe)",
        f"{ours_ms / bare_ms:.2f}x ({ours_ms - bare_ms:+.2f} ms)",
        f"≤ +{GOAL_MS:.0f} ms",
        ours_ms - bare_ms <= GOAL_MS,
    )
    return first, used


class BarePipe:
    """A codex process with nothing in front of it, given the same calls as the gateway gives."""

    def __init__(self, driver: Driver, thread_params: Message) -> None:
        self.pid = driver.process.pid
        self._driver = driver
        self._thread_params = thread_params

    def time_turn(self, script: str) -> float:
        """Run a turn to its end; the seconds up to its first delta."""
        asked_s = time.perf_counter()
        started = self._driver.call("thread/start", self._thread_params)
        thread_id = started["result"]["thread"]["id"]
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": script}]}
        self._driver.send("thread/inject_items", {"threadId": thread_id, "items": [said]})
        turn = {"threadId": thread_id, "input": [], "environments": [], "summary": "auto"}
        self._driver.send("turn/start", turn)
        self._driver.read_until(lambda message: message.get("params", {}).get("delta") == DELTA)
        first_s = time.perf_counter() - asked_s
        self._driver.read_until(lambda message: message.get("method") == "turn/completed")
        return first_s


@contextlib.contextmanager
def run_bare_pipe(gateway: Server, model: str) -> Iterator[BarePipe]:
    """A process of the gateway's own making: the same home, the same environment, the same thread."""
    settings = Settings.from_env(gateway.environment)
    home = CodexHome(settings)
    folder, stderr = home.make_process_folder()
    params = ModelDirectory(home, settings).thread_params(Model(model, model, "bench"))
    with stderr, Driver([str(home.binary), "app-server"], home.environment(folder)) as driver:
        driver.initialize(UNREAD_NOTIFICATIONS)
        yield BarePipe(driver, params)
