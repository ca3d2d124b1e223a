"""Every knob, read once from the environment; the only reader of os.environ."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.access_settings import AccessSettings
from app.knobs import (
    ALLOWED,
    knob,
    parse_count,
    parse_delay,
    parse_flag,
    parse_kilos,
    parse_level,
    parse_models,
    parse_natural,
    parse_path,
    parse_pin,
    parse_seconds,
    parse_size,
)
from app.lib.models import Model
from app.lib.obsidian import EscapePolicy
from app.lib.output_mode import OutputMode
from app.lib.request import ToolTransport
from app.lib.stop_policy import StopMode, StopPolicy
from app.process_settings import ProcessSettings

#: What the page's token is handed on by, from the gateway's start to its workers.
PAGE_TOKEN = "CODEX_GATEWAY_PAGE_TOKEN"  # noqa: S105  its name
# A wait for another tool block is looked at four times, but never oftener than every 25 ms.
SHORTEST_GRACE_S = 0.1


class SettingsError(Exception):
    """A variable holds something it cannot mean."""


@dataclass(frozen=True)
class Settings(ProcessSettings, AccessSettings):
    workers: int = knob("WEB_CONCURRENCY", "1", "Worker processes, each with a pool of its own.", parse_count)
    state_dir: pathlib.Path = knob(
        "PROXY_STATE_DIR",
        "~/.local/state/codex-gateway",
        "The gateway's own folder: its CODEX_HOME, what its processes keep, stored responses. Mode 0700.",
        parse_path,
    )
    codex_bin: str = knob("CODEX_BIN", "", "The codex binary; empty: the one installed with the gateway.")
    codex_config_file: str = knob(
        "PROXY_CODEX_CONFIG_FILE", "", "A TOML file merged over the generated codex configuration."
    )
    extra_models: tuple[Model, ...] = knob(
        "PROXY_MODELS",
        "",
        "More model ids and aliases: `some-model`, `fast=gpt-5.5`, `codex-5=gpt-6.1-sol:low`.",
        parse_models,
    )
    demo: bool = knob(
        "PROXY_DEMO", "false", "Offer the scripted model `demo`, which needs no login.", parse_flag
    )
    commit_after_s: float = knob(
        "PROXY_COMMIT_AFTER_MS",
        "5000",
        "How long a stream's 200 waits for the model to begin; what goes wrong by then keeps its status.",
        parse_seconds,
    )
    keepalive_s: float = knob(
        "PROXY_SSE_KEEPALIVE_MS", "15000", "Silence after which a stream gets a comment.", parse_seconds
    )
    graceful_timeout_s: float = knob(
        "PROXY_GRACEFUL_TIMEOUT_MS",
        "30000",
        "Time running answers get to end when a worker stops.",
        parse_seconds,
    )
    max_line_bytes: int = knob("PROXY_MAX_LINE_MB", "64", "Longest line taken from codex.", parse_size)
    max_choices: int = knob("PROXY_MAX_CHAT_CHOICES", "5", "Largest `n` of a chat request.", parse_count)
    enforces_max_tokens: bool = knob(
        "PROXY_ENFORCE_MAX_TOKENS",
        "true",
        "Cut an answer at `max_tokens`, by an estimate of four bytes a token.",
        parse_flag,
    )
    kill_on_disconnect: bool = knob(
        "PROXY_KILL_ON_DISCONNECT",
        "false",
        "End the codex process of a client that leaves, instead of its turn alone.",
        parse_flag,
    )
    output_mode: OutputMode = knob(
        "PROXY_OUTPUT_MODE",
        "obsidian-xml",
        "How tool calls reach a chat client: as `<use_tool>` blocks too, or as `openai-json` alone.",
        OutputMode,
    )
    output_mode_by_request: bool = knob(
        "PROXY_OUTPUT_MODE_BY_REQUEST",
        "true",
        "Whether a request that declares tools is answered in `openai-json` without asking for it.",
        parse_flag,
    )
    obsidian_escape: EscapePolicy = knob(
        "PROXY_OBSIDIAN_ESCAPE",
        "xml",
        "How texts stand in `<use_tool>` blocks: with entities, or raw for `copilot`, which reads none.",
        EscapePolicy,
    )
    cumulative_arguments: bool = knob(
        "PROXY_CUMULATIVE_TOOL_ARGUMENTS",
        "false",
        "Send a call's arguments so far beside `function` in `openai-json` streams too.",
        parse_flag,
    )
    tool_transport: ToolTransport = knob(
        "PROXY_TOOL_TRANSPORT",
        "native",
        "How the model is offered tools: as functions of its own, or by text (`sentinel`).",
        ToolTransport,
    )
    parallel_tool_calls: bool | None = knob(
        "PROXY_ENABLE_PARALLEL_TOOL_CALLS",
        "auto",
        "Several calls in one answer: as the request says, always or never.",
        parse_pin,
    )
    stop_after_tools: bool = knob(
        "PROXY_STOP_AFTER_TOOLS",
        "true",
        "Cut an answer behind its tool blocks, where the instructions speak of such blocks.",
        parse_flag,
    )
    stop_mode: StopMode = knob(
        "PROXY_STOP_AFTER_TOOLS_MODE",
        "first",
        "Cut behind the `first` block, or behind `all` that follow one another.",
        StopMode,
    )
    stop_grace_s: float = knob(
        "PROXY_STOP_AFTER_TOOLS_GRACE_MS", "300", "How long mode `all` waits for another block.", parse_delay
    )
    suppress_tail: bool = knob(
        "PROXY_SUPPRESS_TAIL_AFTER_TOOLS",
        "true",
        "Drop text behind a tool block, also where the answer is not cut.",
        parse_flag,
    )
    tool_block_dedup: bool = knob(
        "PROXY_TOOL_BLOCK_DEDUP",
        "false",
        "Drop a tool block that repeats one before it to the letter.",
        parse_flag,
    )
    tool_block_max: int = knob(
        "PROXY_TOOL_BLOCK_MAX", "0", "Tool blocks of an answer that count as calls; 0: all.", parse_natural
    )
    tool_buffer_max_chars: int = knob(
        "PROXY_TOOL_BUFFER_MAX_KB",
        "1024",
        "Longest tool block held back in a stream, in 1,024 characters; a longer one is text.",
        parse_kilos,
    )
    allows_web_search: bool = knob(
        "PROXY_ALLOW_WEB_SEARCH",
        "false",
        "Let a Responses request turn on codex's own web search with a `web_search` tool.",
        parse_flag,
    )
    response_ttl_days: int = knob(
        "PROXY_RESPONSE_TTL_DAYS", "30", "Days for which a stored response is kept.", parse_count
    )
    response_store_bytes: int = knob(
        "PROXY_RESPONSE_STORE_MB",
        "1024",
        "Size of all stored responses; beyond it the oldest are dropped.",
        parse_size,
    )
    max_background: int = knob(
        "PROXY_MAX_BACKGROUND",
        "16",
        "Background responses under way, per worker; each takes one of PROXY_MAX_PROCESSES.",
        parse_count,
    )
    usage_days: int = knob(
        "PROXY_USAGE_DAYS", "90", "Days for which it is remembered what keys and models used.", parse_count
    )
    usage_entries: int = knob(
        "PROXY_USAGE_ENTRIES", "100000", "Requests that `/v1/usage/raw` remembers one by one.", parse_count
    )
    log_level: str = knob("PROXY_LOG_LEVEL", "info", "debug, info, warning or error.", parse_level)
    logs_bodies: bool = knob(
        "PROXY_LOG_BODIES",
        "false",
        "Log what clients send and get, at level debug; what looks like a secret is left out.",
        parse_flag,
    )
    serves_page: bool = knob("PROXY_UI", "true", "Serve the first page, `/`, and what it shows.", parse_flag)
    serves_test_endpoints: bool = knob(
        "PROXY_TEST_ENDPOINTS", "false", "Serve `/__test/…`, where tests read and reset counters.", parse_flag
    )
    #: The rest of the environment, for what codex processes inherit.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Read every knob; an empty variable counts as unset."""
        given = {
            each.name: parse_knob(each.metadata, environ[each.metadata["name"]])
            for each in dataclasses.fields(cls)
            if each.metadata and environ.get(each.metadata["name"])
        }
        settings = cls(**given, environ=dict(environ))
        if complaint := settings.find_fault(environ):
            raise SettingsError(complaint)
        return settings

    @property
    def strange(self) -> list[str]:
        """Variables that look like knobs and are none: a limit in one that is misspelt limits nothing."""
        known = {each.metadata.get("name") for each in dataclasses.fields(self)}
        return sorted(name for name in self.environ if name.startswith("PROXY_") and name not in known)

    @property
    def tick_s(self) -> float:
        """How often an idle wait wakes up: once a second, or four times in the shortest wait it serves."""
        waits = [4.0, self.commit_after_s, self.keepalive_s]
        if self.stop_after_tools and self.stop_mode is StopMode.ALL:
            waits.append(max(self.stop_grace_s, SHORTEST_GRACE_S))
        return min(waits) / 4

    @property
    def page_token(self) -> str:
        """What on an open gateway stands for an admin's key; empty where nobody printed one."""
        return self.environ.get(PAGE_TOKEN, "")

    @property
    def shows_bodies(self) -> bool:
        """Whether the page can show what went in and out."""
        return self.serves_page and self.logs_bodies and self.log_level == "DEBUG"

    @property
    def stop_policy(self) -> StopPolicy:
        return StopPolicy(
            self.stop_after_tools,
            self.stop_mode,
            self.stop_grace_s,
            self.suppress_tail,
            self.tool_block_dedup,
            self.tool_block_max,
        )


def parse_knob(metadata: Mapping[str, Any], text: str) -> Any:
    try:
        return metadata["parse"](text)
    except (ValueError, KeyError, RuntimeError) as error:  # the last: a home folder nobody has
        raise SettingsError(f"{metadata['name']}={text}: must be {ALLOWED[metadata['parse']]}") from error
