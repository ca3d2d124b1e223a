"""What the quick stand-in says: the words of the other stand-in, taken down once and cut into pieces.

A piece is bytes with places for what differs: `thread` and `turn`, the `hex` of other ids, the `id` of the
request that is answered, the model's `text`, the `query` of its call.
"""

import json
import marshal
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any

from app.backend.calls import TOOL_CALL, UNREAD_NOTIFICATIONS
from tests.bench.continuations import DYNAMIC_TOOL
from tests.bench.load import DELTA
from tests.support.driver import Driver, Message, start_stand_in
from tests.support.stand_in_wire import encode

QUICK = pathlib.Path(__file__).with_name("quick_codex.py")
STAND_IN = QUICK.parents[1] / "support" / "stand_in.py"
GREETINGS = ("account/read", "model/list", "server/diagnostics")
QUERY = "@query@"
CALL = {"call": {"name": DYNAMIC_TOOL["name"], "arguments": f'{{"query":"{QUERY}"}}'}}
OTHER_IDS = re.compile(rb"(?<=_)[0-9a-f]{16}(?=\")")
END = "turn/completed"


def install_quick_codex(folder: pathlib.Path, cores: Sequence[int]) -> pathlib.Path:
    """Put the quick stand-in there, with what it says and where it runs beside it; its path."""
    binary = folder / "quick_codex"
    shutil.copy(QUICK, binary)
    binary.chmod(0o700)
    said = {"stand_in": str(STAND_IN), "cores": list(cores)} | record()
    pathlib.Path(f"{binary}.said").write_bytes(marshal.dumps(said))
    return binary


def record() -> dict[str, bytes]:
    with start_stand_in() as codex:
        greeted = {"initialize": cut([codex.initialize(UNREAD_NOTIFICATIONS)])}
        asked = {method: cut([codex.call(method, {})]) for method in GREETINGS}
        return greeted | asked | record_text(codex) | record_call(codex) | record_interrupt(codex)


def record_text(codex: Driver) -> dict[str, bytes]:
    thread = open_thread(codex)
    opened = codex.seen[-1:]
    said = read_turn(codex, thread, [{"say": [DELTA]}], END)
    place = next(i for i, message in enumerate(said) if message.get("method") == "item/agentMessage/delta")
    return {
        "thread/start": cut(opened, thread),
        "thread/inject_items": cut(said[:1]),
        "echo": cut(said[1:2], thread).partition(b'"item":')[0],
        "turn/start": cut(said[2:3], thread),
        "message": cut(said[3:place], thread),
        "delta": cut([said[place]], thread, text=DELTA),
        "end": cut(said[place + 1 :], thread).replace(DELTA.encode(), b"%(text)b"),
    }


def record_call(codex: Driver) -> dict[str, bytes]:
    thread = open_thread(codex)
    told = read_turn(codex, thread, [CALL, {"then": [{"say": [DELTA]}]}], "rawResponse/completed")
    asked = next(message for message in told if message.get("method") == TOOL_CALL)
    codex.seen.clear()
    codex.answer(asked["id"], "42")
    codex.read_until(lambda message: message.get("method") == "account/rateLimits/updated")
    answered = list(codex.seen)
    codex.read_until(lambda message: message.get("method") == END)
    asking = cut(told[3:], thread).replace(QUERY.encode(), b"%(query)b")
    return {"call": asking, "answered": cut(answered, thread)}


def record_interrupt(codex: Driver) -> dict[str, bytes]:
    thread = open_thread(codex)
    read_turn(codex, thread, [{"say": [DELTA], "open": True}, {"hang": True}], "item/agentMessage/delta")
    codex.seen.clear()
    codex.send("turn/interrupt", {"threadId": thread, "turnId": ""})
    codex.read_until(lambda message: message.get("method") == END)
    return {"turn/interrupt": cut([m for m in codex.seen if m.get("method") in (None, END)], thread)}


def open_thread(codex: Driver) -> str:
    params = {"model": "gpt-5.5", "ephemeral": True, "dynamicTools": [DYNAMIC_TOOL]}
    thread: str = codex.call("thread/start", params)["result"]["thread"]["id"]
    return thread


def read_turn(codex: Driver, thread: str, script: list[Any], last: str) -> list[Message]:
    """All that is said of a turn, from the answer about its history on."""
    codex.seen.clear()
    text = json.dumps(script)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    codex.send("thread/inject_items", {"threadId": thread, "items": [said]})
    codex.send("turn/start", {"threadId": thread, "input": [], "environments": [], "summary": "auto"})
    codex.read_until(lambda message: message.get("method") == last)
    return list(codex.seen)


def cut(messages: list[Message], thread: str = "", text: str = "") -> bytes:
    """The lines of these messages, with places for what differs."""
    lines = b"".join(encode(message) + b"\n" for message in messages).replace(b"%", b"%%")
    if thread:
        lines = lines.replace(thread.encode(), b"%(thread)b")
    for turn in {find_turn(message) for message in messages} - {None, "auto-compact-0"}:
        lines = lines.replace(str(turn).encode(), b"%(turn)b")
    lines = OTHER_IDS.sub(b"%(hex)b", lines)
    is_answer = "method" not in messages[0] or messages[0]["method"] == TOOL_CALL
    return re.sub(rb'"id":\d+', b'"id":%(id)b', lines, count=1) if is_answer else lines


def find_turn(message: Message) -> str | None:
    place = message.get("params") or message.get("result") or {}
    turn: str | None = place.get("turnId") or place.get("turn", {}).get("id")
    return turn
