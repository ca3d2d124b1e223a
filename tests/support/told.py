"""What a client is told, as one value: the same for a stream and for a body."""

import json
from typing import Any

from tests.support.gateway import Gateway
from tests.support.sse import DONE, read_frames

#: A status, the text that was shown, and an error's code, be it of a body or of a frame.
Told = tuple[int, str, str | None]

STATUSES = {"backend_unavailable": 503, "backend_timeout": 504}


def ask(gateway: Gateway, script: Any, stream: bool = True, **more: Any) -> Told:
    """Play a script; a stream that began ends as one."""
    response = gateway.chat(script, stream=stream, **more)
    body = response.content
    if not stream or response.status_code != 200:
        return read_body(response.status_code, json.loads(body))
    *frames, last = read_frames(body)
    assert last == DONE
    codes = [frame["error"]["code"] for frame in frames if "error" in frame]
    deltas = [choice["delta"] for frame in frames for choice in frame.get("choices", ())]
    return 200, "".join(delta.get("content") or "" for delta in deltas), codes[0] if codes else None


def read_body(status: int, body: dict[str, Any]) -> Told:
    if "error" in body:
        return status, "", body["error"]["code"]
    return status, body["choices"][0]["message"]["content"], None


def fold(told: Told) -> Told:
    """What a stream tells, told as one body: what broke off is not shown."""
    status, _, code = told
    return (STATUSES[code], "", code) if code and status == 200 else told
