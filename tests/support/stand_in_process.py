"""The app-server of the stand-in: answers requests and plays the turns of all its threads in one loop."""

import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tests.support import stand_in_account
from tests.support.stand_in_pipe import Pipe
from tests.support.stand_in_tools import find_flaw
from tests.support.stand_in_turn import Task, Thread, Turn
from tests.support.stand_in_wire import Message, RefusedError, build_id, encode, now_ms

VERSION = "0.163.0"
GARBAGE = b'}{ garbage, "not" json\n'
# Codex holds what is not read without bound; here turns wait, so that a test cannot eat the machine's memory.
MAX_HELD_BYTES = 1 << 20
MODELS = ("gpt-5.5", "gpt-5.6-luna")
EFFORTS = {"low": "Fast", "medium": "Balanced", "high": "Thorough"}
ITEM_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


class Process:
    """What one codex process does with its pipe."""

    def __init__(self, config: Message) -> None:
        self.config = config
        self.pipe = Pipe(config.get("log"))
        self.threads: dict[str, Thread] = {}
        self.tasks: list[Task] = []
        self.asked: dict[int, Turn] = {}
        self.request_ids = count()
        self.opted_out: frozenset[str] = frozenset()
        self.last_reply = b""
        self.is_initialized = False
        #: The login that waits for a person, by its id.
        self.logins: dict[str, Task] = {}

    def serve(self) -> None:
        while True:
            self.advance()
            self.pipe.flush()
            if not self.pipe.wait(self.find_timeout()):
                continue
            lines = self.pipe.read()
            if lines is None and "EOF" not in self.config.get("ignore", ()):
                return
            self.pipe.reading = self.pipe.reading and lines is not None
            for line in lines or ():
                self.receive(line)

    def advance(self) -> None:
        for task in [task for task in self.tasks if task.wake_at <= time.monotonic()]:
            if len(self.pipe.held) > MAX_HELD_BYTES:
                return
            delay_s = next(task.play, None)
            if delay_s is None:
                self.tasks.remove(task)
            else:
                task.wake_at = time.monotonic() + delay_s

    def find_timeout(self) -> float:
        if len(self.pipe.held) > MAX_HELD_BYTES:
            return float("inf")  # room on stdout ends the wait
        return min((task.wake_at for task in self.tasks), default=float("inf")) - time.monotonic()

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # codex does not answer such a line either
        if "method" not in message:
            self.take_answer(message)
        elif "id" in message and message["method"] not in self.config.get("ignore", ()):
            name, _, argument = self.config.get("on", {}).get(message["method"], "none").partition(":")
            FAULTS[name](self, message, argument)

    def take_answer(self, message: Message) -> None:
        turn = self.asked.pop(message.get("id", -1), None)
        if turn is not None and turn.task is not None:
            turn.answers[message["id"]] = message
            turn.task.wake_at = 0

    def answer(self, message: Message) -> None:
        try:
            METHODS.get(message["method"], Process.refuse)(self, message["id"], message.get("params") or {})
        except RefusedError as error:
            code, text = error.args
            self.write_reply({"error": {"code": code, "message": text}, "id": message["id"]})

    def reply(self, request_id: Any, result: Message) -> None:
        self.write_reply({"id": request_id, "result": result})

    def write_reply(self, message: Message) -> None:
        self.last_reply = encode(message) + b"\n"
        self.write(self.last_reply)

    def repeat_reply(self) -> None:
        self.write(self.last_reply)

    def write(self, lines: bytes) -> None:
        self.pipe.write(lines)

    def wants(self, method: str) -> bool:
        return method not in self.opted_out

    def notify(self, method: str, params: Message) -> None:
        if self.wants(method):
            self.write(encode({"method": method, "params": params, "emittedAtMs": now_ms()}) + b"\n")

    def request(self, turn: Turn, method: str, params: Message) -> int:
        request_id = next(self.request_ids)
        self.asked[request_id] = turn
        self.write(encode({"method": method, "id": request_id, "params": params}) + b"\n")
        return request_id

    def stop_reading(self) -> None:
        self.pipe.reading = False

    def die(self, code: int) -> None:
        self.pipe.flush_all(within_s=5)
        os._exit(code)

    def refuse(self, request_id: Any, params: Message) -> None:
        raise RefusedError(-32601, "Method not found")

    def initialize(self, request_id: Any, params: Message) -> None:
        if self.is_initialized:
            raise RefusedError(-32600, "Already initialized")
        self.is_initialized = True
        self.opted_out = frozenset(params.get("capabilities", {}).get("optOutNotificationMethods") or ())
        name = params.get("clientInfo", {}).get("name", "")
        home = os.environ.get("CODEX_HOME", "")
        about = {"userAgent": f"{name}/{VERSION} (stand-in)", "codexHome": home}
        self.reply(request_id, {**about, "platformFamily": "unix", "platformOs": "linux"})
        status = {
            "status": "disabled",
            "serverName": "box",
            "installationId": build_id(),
            "environmentId": None,
        }
        self.notify("remoteControl/status/changed", status)

    def list_models(self, request_id: Any, params: Message) -> None:
        ids = (*MODELS, *self.config.get("models", ()))
        self.reply(request_id, {"data": [build_listed(each, ids) for each in ids], "nextCursor": None})

    def diagnose(self, request_id: Any, params: Message) -> None:
        memory = {
            "residentMemoryBytes": self.config.get("rss_bytes", 30_000_000),
            "physicalFootprintBytes": None,
        }
        gauges = [{"name": "app.requests.in_flight", "value": 1}]
        self.reply(request_id, {"process": {"id": os.getpid(), **memory}, "gauges": gauges})

    def start_thread(self, request_id: Any, params: Message) -> None:
        tools = params.get("dynamicTools") or ()
        flaw = "no tools here" if tools and self.config.get("refuse_tools") else find_flaw(tools)
        if flaw:
            raise RefusedError(-32600, flaw)
        thread = Thread({tool["name"] for tool in tools})
        self.threads[thread.id] = thread
        model, provider = params.get("model") or MODELS[0], params.get("modelProvider") or "openai"
        about = {"model": model, "modelProvider": provider, "cwd": params.get("cwd"), "reasoningEffort": None}
        times = dict.fromkeys(("createdAt", "updatedAt", "recencyAt"), now_ms() // 1000)
        shown = {
            "id": thread.id,
            "sessionId": thread.id,
            "preview": "",
            "ephemeral": True,
            "path": None,
            "turns": [],
        }
        shown |= {**about, **times, "status": {"type": "idle"}, "cliVersion": VERSION, "source": "vscode"}
        self.reply(request_id, {"thread": shown, **about, "approvalPolicy": params.get("approvalPolicy")})
        self.notify("thread/started", {"thread": shown})

    def find_thread(self, params: Message) -> Thread:
        thread = self.threads.get(params.get("threadId", ""))
        if thread is None:
            raise RefusedError(-32600, f"thread not found: {params.get('threadId')}")
        return thread

    def inject_items(self, request_id: Any, params: Message) -> None:
        thread = self.find_thread(params)
        if not params.get("items"):
            raise RefusedError(-32600, "items must not be empty")
        if thread.turn is not None:
            thread.turn.injected += params["items"]  # behind the outputs it waits for
            self.reply(request_id, {})
            return
        thread.items += params["items"]
        self.reply(request_id, {})
        for item in params["items"]:
            shown = {"id": f"{ITEM_PREFIXES.get(item.get('type'), 'item')}_{build_id()}", **item}
            place = {"threadId": thread.id, "turnId": "auto-compact-0"}
            self.notify("rawResponseItem/completed", {**place, "item": shown})

    def start_turn(self, request_id: Any, params: Message) -> None:
        thread = self.find_thread(params)
        turn = thread.turn = Turn(self, thread, params.get("input") or [])
        begun = turn.describe("inProgress", None) | dict.fromkeys(("startedAt", "completedAt", "durationMs"))
        self.reply(request_id, {"turn": begun})
        turn.task = Task(turn.play())
        self.tasks.append(turn.task)

    def interrupt_turn(self, request_id: Any, params: Message) -> None:
        turn = self.find_thread(params).turn
        if turn is None or turn.task is None:
            raise RefusedError(-32600, "no active turn to interrupt")
        self.tasks.remove(turn.task)
        turn.interrupt()
        self.reply(request_id, {})
        turn.end("interrupted")


def build_listed(model: str, ids: tuple[str, ...]) -> Message:
    """A model as `model/list` tells it."""
    efforts = [{"reasoningEffort": effort, "description": text} for effort, text in EFFORTS.items()]
    about = {
        "id": model,
        "model": model,
        "displayName": model.upper(),
        "description": "A model.",
        "hidden": False,
    }
    rest = {"inputModalities": ["text", "image"], "isDefault": model == ids[0]}
    return {**about, "supportedReasoningEfforts": efforts, "defaultReasoningEffort": "low", **rest}


Handler = Callable[[Process, Any, Message], None]
METHODS: dict[str, Handler] = {
    "initialize": Process.initialize,
    **stand_in_account.METHODS,
    "model/list": Process.list_models,
    "server/diagnostics": Process.diagnose,
    "thread/start": Process.start_thread,
    "thread/inject_items": Process.inject_items,
    "turn/start": Process.start_turn,
    "turn/interrupt": Process.interrupt_turn,
}


def answer_properly(process: Process, message: Message, argument: str) -> None:
    process.answer(message)


def answer_never(process: Process, message: Message, argument: str) -> None:
    """Silence, while other requests are still answered."""


def answer_by_dying(process: Process, message: Message, argument: str) -> None:
    process.die(1)


def answer_with_error(process: Process, message: Message, argument: str) -> None:
    error = {"code": -32603, "message": "the stand-in was told to fail here"}
    process.write_reply({"error": error, "id": message["id"]})


def answer_garbage(process: Process, message: Message, argument: str) -> None:
    process.write(GARBAGE)


def answer_twice(process: Process, message: Message, argument: str) -> None:
    process.answer(message)
    process.repeat_reply()


def answer_late(process: Process, message: Message, argument: str) -> None:
    def play() -> Iterator[float]:
        yield float(argument)
        process.answer(message)

    process.tasks.append(Task(play()))


FAULTS: dict[str, Callable[[Process, Message, str], None]] = {
    "none": answer_properly,
    "die": answer_by_dying,
    "hang": answer_never,
    "error": answer_with_error,
    "garbage": answer_garbage,
    "twice": answer_twice,
    "late": answer_late,
}
