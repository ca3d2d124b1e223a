"""The knobs of codex processes: how many, who gets one, how long each step may take."""

from __future__ import annotations

from dataclasses import dataclass

from app.knobs import (
    knob,
    parse_count,
    parse_flag,
    parse_natural,
    parse_seconds,
    parse_size,
    parse_whole_seconds,
)


@dataclass(frozen=True)
class ProcessSettings:
    warm_processes: int = knob(
        "PROXY_WARM_PROCESSES", "2", "Idle codex processes kept ready per worker.", parse_natural
    )
    max_processes: int = knob(
        "PROXY_MAX_PROCESSES", "32", "Codex processes per worker, busy and idle together.", parse_count
    )
    process_max_turns: int = knob(
        "PROXY_PROCESS_MAX_TURNS", "100", "Turns after which a codex process is replaced.", parse_count
    )
    process_max_rss_bytes: int = knob(
        "PROXY_PROCESS_MAX_RSS_MB",
        "400",
        "Resident memory past which a codex process is replaced.",
        parse_size,
    )
    max_starting: int = knob(
        "PROXY_MAX_STARTING", "16", "Requests whose turns are being started at once, per worker.", parse_count
    )
    queue_timeout_s: float = knob(
        "PROXY_QUEUE_TIMEOUT_MS",
        "10000",
        "How long a request waits for a free process before 429.",
        parse_seconds,
    )
    max_queue: int = knob(
        "PROXY_MAX_QUEUE",
        "100",
        "Requests that may wait for a process, per worker; beyond: 429.",
        parse_natural,
    )
    parks_turns: bool = knob(
        "PROXY_PARK_TURNS",
        "true",
        "Keep the turn of a tool call, and the thread of an answer, for the request that goes on with it.",
        parse_flag,
    )
    park_ttl_s: float = knob(
        "PROXY_PARK_TTL_S", "600", "How long a turn or thread is kept for that.", parse_whole_seconds
    )
    start_timeout_s: float = knob(
        "PROXY_START_TIMEOUT_MS", "20000", "How long a codex process may take to say hello.", parse_seconds
    )
    rpc_timeout_s: float = knob(
        "PROXY_RPC_TIMEOUT_MS", "30000", "How long codex may take to answer one call.", parse_seconds
    )
    interrupt_timeout_s: float = knob(
        "PROXY_INTERRUPT_TIMEOUT_MS",
        "3000",
        "How long codex may take to stop a turn before its process is killed.",
        parse_seconds,
    )
    first_event_timeout_s: float = knob(
        "PROXY_FIRST_EVENT_TIMEOUT_MS", "120000", "How long the model may take to begin.", parse_seconds
    )
    idle_timeout_s: float = knob(
        "PROXY_STREAM_IDLE_TIMEOUT_MS",
        "300000",
        "How long the model may be silent once it began.",
        parse_seconds,
    )
    total_timeout_s: float = knob(
        "PROXY_TIMEOUT_MS", "1800000", "How long one request may take in all.", parse_seconds
    )
