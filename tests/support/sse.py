"""Server-sent events read back."""

from __future__ import annotations

import json
from typing import Any

DONE = "[DONE]"


def read_frames(data: bytes) -> list[Any]:
    """The frames of a chat stream as JSON, comments left out; the bytes must end where a frame does."""
    *frames, rest = data.decode().split("\n\n")
    assert rest == "", f"half a frame: {rest!r}"
    payloads = [frame.removeprefix("data: ") for frame in frames if not frame.startswith(":")]
    return [payload if payload == DONE else json.loads(payload) for payload in payloads]


def split_frames(text: str) -> list[str]:
    """The frames of any stream as they were sent, comments too."""
    return [frame for frame in text.split("\n\n") if frame]


def read_deltas(data: bytes) -> list[Any]:
    """What each frame brings: (choice, delta, finish reason), `[DONE]`, an error's object, or usage."""
    brought: list[Any] = []
    for frame in read_frames(data):
        if frame == DONE or "error" in frame:
            brought.append(frame)
        elif not frame["choices"]:
            brought.append({"usage": frame["usage"]})
        else:
            brought += [(each["index"], each["delta"], each["finish_reason"]) for each in frame["choices"]]
    return brought


def read_events(data: bytes) -> list[dict[str, Any]]:
    """The events of a Responses stream, each named as its data says; comments and the end left out."""
    *frames, rest = data.decode().split("\n\n")
    assert rest == "", f"half a frame: {rest!r}"
    named = [frame.split("\n") for frame in frames if not frame.startswith(":") and frame != f"data: {DONE}"]
    events = [json.loads(payload.removeprefix("data: ")) for _, payload in named]
    assert [name for name, _ in named] == [f"event: {event['type']}" for event in events]
    return events
