"""The bare pipe: a codex process with nothing in front of it, given the calls that the gateway gives."""

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.backend.calls import TOOL_CALL, UNREAD_NOTIFICATIONS
from app.backend.directory import ModelDirectory
from app.backend.home import CodexHome
from app.lib.models import Model
from app.settings import Settings
from tests.bench.load import DELTA
from tests.bench.servers import Server
from tests.support.driver import Driver, Message

#: What has come when a turn waits for the result of a call: codex's question, and the end of the response.
PARKED = {TOOL_CALL, "rawResponse/completed"}


class FirstToken(NamedTuple):
    """The seconds to a turn's first delta, from opening its thread and from its history on; and its end."""

    from_thread_s: float
    from_turn_s: float
    whole_s: float


class BarePipe:
    def __init__(self, driver: Driver, thread_params: Message) -> None:
        self.pid = driver.process.pid
        self._driver = driver
        self._thread_params = thread_params

    def time_turn(self, script: str) -> FirstToken:
        """Run a turn to its end; the gateway opened its thread ahead, so both clocks are read."""
        asked_s = time.perf_counter()
        thread_id = self._open_thread()
        opened_s = time.perf_counter()
        self._start_turn(thread_id, script)
        first_s = self._read_first_delta()
        self._read_end()
        return FirstToken(first_s - asked_s, first_s - opened_s, time.perf_counter() - opened_s)

    def time_result(self, script: str, result: str) -> float:
        """Run a turn that calls a tool; the seconds from the call's answer to the first delta."""
        self._start_turn(self._open_thread(), script)
        heard: dict[str, Message] = {}
        while heard.keys() != PARKED:
            message = self._driver.read_until(lambda message: message.get("method") in PARKED)
            heard[message["method"]] = message
        answered_s = time.perf_counter()
        self._driver.answer(heard[TOOL_CALL]["id"], result)
        first_s = self._read_first_delta()
        self._read_end()
        return first_s - answered_s

    def _open_thread(self) -> str:
        thread_id: str = self._driver.call("thread/start", self._thread_params)["result"]["thread"]["id"]
        return thread_id

    def _start_turn(self, thread_id: str, script: str) -> None:
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": script}]}
        self._driver.send("thread/inject_items", {"threadId": thread_id, "items": [said]})
        turn = {"threadId": thread_id, "input": [], "environments": [], "summary": "auto"}
        self._driver.send("turn/start", turn)

    def _read_first_delta(self) -> float:
        """When it came."""
        self._driver.read_until(lambda message: message.get("params", {}).get("delta") == DELTA)
        return time.perf_counter()

    def _read_end(self) -> None:
        self._driver.read_until(lambda message: message.get("method") == "turn/completed")


class BareCodex:
    """Starts processes of a gateway's own making: the same home, the same environment, the same thread."""

    def __init__(self, gateway: Server, model: str, tools: Sequence[Message] = ()) -> None:
        settings = Settings.from_env(gateway.environment)
        self._home = CodexHome(settings)
        directory = ModelDirectory(self._home, settings)
        _, self._thread_params = directory.start_thread(Model(model, model, "bench"), tools)

    @contextlib.contextmanager
    def run(self) -> Iterator[BarePipe]:
        """A process that was greeted; it ends with the context."""
        folder, stderr = self._home.make_process_folder()
        command, environment = [str(self._home.binary), "app-server"], self._home.environment(folder)
        try:
            with stderr, Driver(command, environment) as driver:
                driver.initialize(UNREAD_NOTIFICATIONS)
                yield BarePipe(driver, self._thread_params)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def time_cold_turn(self, script: str) -> float:
        """The seconds to the first delta of a process that is yet to be started."""
        asked_s = time.perf_counter()
        with self.run() as pipe:
            greeted_s = time.perf_counter()
            return greeted_s - asked_s + pipe.time_turn(script).from_thread_s
