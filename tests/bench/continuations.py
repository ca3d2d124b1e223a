"""Conversations that go on: the first token of a second request, by what was kept of the first."""

import json
import time
from typing import Any

from tests.bench.load import CHAT, PARAMETERS, Client, Reply, build_conversation, build_script

Message = dict[str, Any]

RESULT = "42"
THINKING_S = 0.02
SCRIPT = build_script(3)
CALLING_SCRIPT = json.dumps(
    [{"call": {"name": "look_up", "arguments": '{"query":"all"}'}}, {"then": json.loads(SCRIPT)}]
)
ABOUT_TOOL = {"name": "look_up", "description": "Looks something up."}
TOOL = {"type": "function", "function": {**ABOUT_TOOL, "parameters": PARAMETERS}}
#: The same, as codex takes it.
DYNAMIC_TOOL = {"type": "function", **ABOUT_TOOL, "inputSchema": PARAMETERS}


class Talk:
    """A client of one gateway that always says its conversation again, as clients do.

    A connection takes its next request only when the turn before is closed, and codex may take a tenth of a
    second to let go of a turn that is given up. So another request goes between the two, and then the time
    that a client needs for its tool or its next words, in which the process can make ready again.
    """

    def __init__(self, port: int, model: str) -> None:
        self._client = Client(port)
        self._model = model

    def time_result(self, continuation: str) -> float:
        """Have the model call a tool; the seconds from sending the result to the first token."""
        asked = [{"role": "user", "content": CALLING_SCRIPT}]
        called = self._ask(asked, tools=[TOOL])
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in called["tool_calls"]
        ]
        return self._time([*asked, called, *results], continuation, tools=[TOOL])

    def time_follow_up(self, is_echoed: bool) -> float:
        """Ask something more; what was answered before is said as it was, or otherwise."""
        asked = [{"role": "user", "content": SCRIPT}]
        answered = self._ask(asked)
        said = answered if is_echoed else answered | {"content": answered["content"] + "Or so."}
        return self._time([*asked, said, *asked], "warm")

    def _ask(self, messages: list[Message], **more: Any) -> Message:
        """The model's message."""
        reply = self._client.post(CHAT, build_conversation(self._model, messages, stream=False, **more))
        self._client.is_ready()
        time.sleep(THINKING_S)
        message: Message = json.loads(reply.data)["choices"][0]["message"]
        return message

    def _time(self, messages: list[Message], continuation: str, **more: Any) -> float:
        """The seconds to the first token; an error unless the gateway continued in the way to be timed."""
        reply = self._client.post(CHAT, build_conversation(self._model, messages, stream=True, **more))
        return read_first_token(reply, continuation)


def read_first_token(reply: Reply, continuation: str) -> float:
    if reply.continuation != continuation:
        raise RuntimeError(f"continued as {reply.continuation!r}, to be timed was {continuation!r}")
    return reply.first_token_s
