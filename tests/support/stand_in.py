#!/usr/bin/env python3
"""A stand-in for the codex binary: plays scripts without a model, misbehaves as the variable STAND_IN says.

STAND_IN is a JSON object; the faults among its keys can be limited to one process with `once`:
    boot        what happens at the start: "die" | "hang" | "garbage" | "slow:0.5"
    on          by method, how it is answered: "die" | "hang" | "error" | "garbage" | "twice" | "late:0.5"
    ignore      what has no effect: ["turn/interrupt", "SIGTERM", "EOF"]
    stderr      a text printed at the start
    once        a path: faults only for the process that creates this file
    account, models, rss_bytes      what it answers about itself: null when logged out; extra ids; its memory
    login       a path: its account is that of auth.json, and a login waits until this file says how it ends:
                "done" | "die" | what codex would say of the failure
    verification_url, limits        where codes are entered; the account's limits, as headers
    refuse_tools    true: a thread with tools is refused
    one_by_one  true: asks for tool calls one after the other, as codex 0.163 does
    log         a path: every line of the pipe, as {"from", "pid", "msg"}
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable

# started by its path, from any folder
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from tests.support.stand_in_process import EFFORTS, GARBAGE, MODELS, VERSION, Process
from tests.support.stand_in_wire import Message

FAULT_KEYS = ("boot", "on", "ignore", "stderr", "refuse_tools")


def read_config() -> Message:
    config: Message = json.loads(os.environ.get("STAND_IN") or "{}")
    if "once" in config and not claim(config["once"]):
        return {key: value for key, value in config.items() if key not in FAULT_KEYS}
    return config


def claim(path: str) -> bool:
    """True for the one process that creates the file."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def boot_normally(argument: str) -> None:
    pass


def boot_to_die(argument: str) -> None:
    sys.exit(1)


def boot_to_hang(argument: str) -> None:
    """Swallow what comes and say nothing; the end of input ends it, so that no test leaves it behind."""
    while os.read(0, 1 << 16):
        pass
    sys.exit(0)


def boot_with_garbage(argument: str) -> None:
    os.write(1, GARBAGE)


def boot_slowly(argument: str) -> None:
    time.sleep(float(argument))


BOOTS: dict[str, Callable[[str], None]] = {
    "none": boot_normally,
    "die": boot_to_die,
    "hang": boot_to_hang,
    "garbage": boot_with_garbage,
    "slow": boot_slowly,
}


def run_app_server() -> None:
    config = read_config()
    sys.stderr.write(config.get("stderr", ""))
    sys.stderr.flush()
    if "SIGTERM" in config.get("ignore", ()):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    name, _, argument = config.get("boot", "none").partition(":")
    BOOTS[name](argument)
    Process(config).serve()


def print_version() -> None:
    print(f"codex-cli {VERSION}")


def print_models() -> None:
    print(json.dumps({"models": [build_catalogued(slug) for slug in MODELS]}))


def build_catalogued(slug: str) -> Message:
    """A model as `debug models --bundled` tells it, with the parts a gateway has to neutralise."""
    return {
        "slug": slug,
        "display_name": slug.upper(),
        "description": "A model.",
        "default_reasoning_level": "low",
        "supported_reasoning_levels": [
            {"effort": name, "description": text} for name, text in EFFORTS.items()
        ],
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": MODELS.index(slug),
        "model_messages": {"instructions_template": "You are Codex."},
        "base_instructions": "You are Codex.",
        "default_reasoning_summary": "none",
        "support_verbosity": True,
        "default_verbosity": "low",
        "apply_patch_tool_type": "freeform",
        "web_search_tool_type": "text_and_image",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "context_window": 272_000,
        "max_context_window": 872_000,
        "experimental_supported_tools": ["clock"],
        "input_modalities": ["text", "image"],
        "supports_search_tool": True,
        "use_responses_lite": True,
        "tool_mode": "code_mode_only",
        "multi_agent_version": "v2",
    }


COMMANDS: dict[str, Callable[[], None]] = {
    "--version": print_version,
    "debug": print_models,
    "app-server": run_app_server,
}


def main(arguments: list[str]) -> None:
    command = next((each for each in arguments if each in COMMANDS), None)
    if command is None:
        sys.exit("usage: stand_in.py --version | debug models --bundled | app-server [-c key=value]")
    COMMANDS[command]()


if __name__ == "__main__":
    main(sys.argv[1:])
