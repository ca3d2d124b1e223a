"""What the gateway asks of codex, in codex's spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.lib.errors import BackendRefused
from app.version import VERSION

Call = tuple[str, dict[str, Any]]

CLIENT_INFO = {"name": "codex_gateway", "title": "Codex Gateway", "version": VERSION}
# `item/started` stays: it is the earliest sign that the model answers.
UNREAD_NOTIFICATIONS = [
    "thread/started",
    "thread/status/changed",
    "thread/settings/updated",
    "turn/started",
    "item/completed",
    "item/reasoning/summaryPartAdded",
    "remoteControl/status/changed",
]
INITIALIZE: Call = (
    "initialize",
    {
        "clientInfo": CLIENT_INFO,
        "capabilities": {"experimentalApi": True, "optOutNotificationMethods": UNREAD_NOTIFICATIONS},
    },
)
READ_ACCOUNT: Call = ("account/read", {})
REFRESH_LOGIN: Call = ("account/read", {"refreshToken": True})
READ_LIMITS: Call = ("account/rateLimits/read", {"excludeResetCreditDetails": True})
START_LOGIN: Call = ("account/login/start", {"type": "chatgptDeviceCode"})
LOG_OUT: Call = ("account/logout", {})
LIST_MODELS: Call = ("model/list", {})
RAW_ITEM = b'{"method":"rawResponseItem/completed"'
ECHO = b'"turnId":"auto-compact'
# Behind a thread's id, and before the item: what a model or a client wrote stands further on.
ECHO_WITHIN_BYTES = 150
#: What codex asks of us for each call of the client's tools.
TOOL_CALL = "item/tool/call"


def start_thread(model: str, folder: str, tools: Sequence[dict[str, Any]] = ()) -> Call:
    """A bare conversation: no instructions, tools, environment or approvals of codex's own."""
    params: dict[str, Any] = {
        "model": model,
        "ephemeral": True,
        "baseInstructions": "",
        "sandbox": "read-only",
        "approvalPolicy": "never",
        "environments": [],
        "cwd": folder,
        "experimentalRawEvents": True,
    }
    return "thread/start", params | ({"dynamicTools": list(tools)} if tools else {})


def with_web_search(call: Call) -> Call:
    """The same thread, with codex's own web search, which is off otherwise."""
    return with_config(call, {"web_search": "live"})


def with_provider(call: Call, name: str, base_url: str) -> Call:
    """The same thread, on a model provider that codex's configuration does not know."""
    method, params = call
    provider = {
        "name": name,
        "base_url": base_url,
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    return with_config((method, params | {"modelProvider": name}), {"model_providers": {name: provider}})


def with_config(call: Call, config: dict[str, Any]) -> Call:
    method, params = call
    return method, params | {"config": params.get("config", {}) | config}


def inject_items(thread_id: str, items: Sequence[dict[str, Any]]) -> Call:
    return "thread/inject_items", {"threadId": thread_id, "items": items}


def start_turn(
    thread_id: str, effort: str | None, summary: str = "auto", output_schema: dict[str, Any] | None = None
) -> Call:
    """Everything was injected, so the turn itself brings no input: its text would be capped."""
    params = {"threadId": thread_id, "input": [], "environments": [], "summary": summary}
    effort_too = {"effort": effort} if effort else {}
    schema_too = {"outputSchema": output_schema} if output_schema is not None else {}
    return "turn/start", params | effort_too | schema_too


def interrupt_turn(thread_id: str, turn_id: str) -> Call:
    return "turn/interrupt", {"threadId": thread_id, "turnId": turn_id}


def cancel_login(login_id: str) -> Call:
    return "account/login/cancel", {"loginId": login_id}


def is_echo(line: bytes) -> bool:
    """Whether a line repeats injected history; told by its beginning, without reading all of it."""
    return line.startswith(RAW_ITEM) and ECHO in line[:ECHO_WITHIN_BYTES]


def read_id(answer: dict[str, Any], kind: str) -> str:
    """The id of a thread or turn that was started."""
    match answer.get(kind):
        case {"id": str(id_)}:
            return id_
        case _:
            raise BackendRefused(f"Codex answered with a {kind} without an id.")
