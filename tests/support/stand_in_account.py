"""The account of the stand-in: read, logged in by device code, logged out."""

import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.support.stand_in_turn import Task
from tests.support.stand_in_wire import Message, RefusedError, build_id, build_limits

if TYPE_CHECKING:
    from tests.support.stand_in_process import Process

LOOK_AGAIN_S = 0.02
VERIFICATION_URL = "https://auth.example.org/codex/device"
USER_CODE = "ABCD-EFGH"
ACCOUNT = {"type": "chatgpt", "email": "someone@example.org", "planType": "plus"}
LIMITS = {
    "x-codex-primary-used-percent": "12",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "1800000000",
}


def find_account(process: "Process") -> Message | None:
    """What it was told to be; with logins, what the file says that all processes share."""
    if process.config.get("login"):
        return ACCOUNT if find_login_file().exists() else None
    account: Message | None = process.config.get("account", {"type": "apiKey"})
    return account


def find_login_file() -> pathlib.Path:
    return pathlib.Path(os.environ["CODEX_HOME"]) / "auth.json"


def read_account(process: "Process", request_id: Any, params: Message) -> None:
    about = {"requiresOpenaiAuth": True, "workspaceRouting": None}
    process.reply(request_id, {"account": find_account(process), **about})


def read_limits(process: "Process", request_id: Any, params: Message) -> None:
    account = find_account(process)
    if account is None or account["type"] != "chatgpt":
        raise RefusedError(-32600, "codex account authentication required to read rate limits")
    process.reply(request_id, build_limits(process.config.get("limits", LIMITS)))


def start_login(process: "Process", request_id: Any, params: Message) -> None:
    login_id = build_id()
    process.logins[login_id] = Task(wait_for_person(process, login_id))
    process.tasks.append(process.logins[login_id])
    url = process.config.get("verification_url", VERIFICATION_URL)
    shown = {"loginId": login_id, "verificationUrl": url, "userCode": USER_CODE}
    process.reply(request_id, {"type": "chatgptDeviceCode", **shown})


def wait_for_person(process: "Process", login_id: str) -> Iterator[float]:
    end = pathlib.Path(process.config["login"])
    while not end.exists():
        yield LOOK_AGAIN_S
    said = end.read_text()
    if said == "die":
        process.die(1)
    if said == "done":
        login = {"auth_mode": "chatgpt", "tokens": {"account_id": login_id}}
        find_login_file().write_text(json.dumps(login))
    error = None if said == "done" else said
    about = {"loginId": login_id, "success": error is None, "error": error, "onboardingEntrypoint": None}
    process.notify("account/login/completed", about)
    if error is None:
        process.notify("account/updated", {"authMode": "chatgpt", "planType": "plus"})


def cancel_login(process: "Process", request_id: Any, params: Message) -> None:
    task = process.logins.pop(params.get("loginId", ""), None)
    is_waiting = task in process.tasks
    if task is not None and is_waiting:
        process.tasks.remove(task)
    process.reply(request_id, {"status": "canceled" if is_waiting else "notFound"})


def log_out(process: "Process", request_id: Any, params: Message) -> None:
    find_login_file().unlink(missing_ok=True)
    process.reply(request_id, {})
    process.notify("account/updated", {"authMode": None, "planType": None})


METHODS: dict[str, Callable[["Process", Any, Message], None]] = {
    "account/read": read_account,
    "account/rateLimits/read": read_limits,
    "account/login/start": start_login,
    "account/login/cancel": cancel_login,
    "account/logout": log_out,
}
