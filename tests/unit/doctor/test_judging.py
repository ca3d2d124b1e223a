"""What the checks make of what they saw."""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any

import pytest

from app.backend.account import read_account
from app.backend.home import BARE_MODEL
from app.backend.login import LOG_IN
from app.doctor.codex import describe_warning, find_agent, judge_account, judge_renewal
from app.doctor.findings import Finding, Level, note, ok, wrong
from app.doctor.front import judge_live, judge_metrics, judge_refusal, judge_stream, parse_url
from app.doctor.ground import judge_disk
from app.doctor.limits import (
    WORKER_CONNECTIONS,
    find_groups,
    judge_files,
    judge_memory,
    judge_threads,
    parse_meminfo,
    read_numbers,
)
from app.doctor.patient import Unfit
from app.doctor.wire import Reply

ROOT = pathlib.Path(__file__).parents[3]
CHATGPT = {
    "account": {"type": "chatgpt", "email": "a@example.org", "planType": "pro"},
    "requiresOpenaiAuth": True,
}
NOBODY: dict[str, Any] = {"account": None, "requiresOpenaiAuth": True}


@pytest.mark.parametrize(
    ("answer", "left_s", "is_demo", "expected"),
    [
        pytest.param(
            CHATGPT,
            7200,
            False,
            ok("login", "ChatGPT (pro), its token is to be renewed within 2 hours"),
            id="fine",
        ),
        pytest.param(
            CHATGPT,
            -7200,
            False,
            wrong(
                "login",
                f"ChatGPT (pro), its token ended 2 hours ago, and codex could not renew it: {LOG_IN}",
            ),
            id="ended",
        ),
        pytest.param(
            {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True},
            None,
            False,
            ok("login", "an API key"),
            id="api-key",
        ),
        pytest.param(
            {"account": {"type": "new", "planType": "unknown"}},
            None,
            False,
            ok("login", "new"),
            id="of-a-kind-we-do-not-know",
        ),
        pytest.param(NOBODY, None, False, wrong("login", f"nobody is logged in: {LOG_IN}"), id="nobody"),
        pytest.param(
            NOBODY,
            None,
            True,
            note("login", f"nobody is logged in, so only the model `demo` answers; for others {LOG_IN}"),
            id="nobody-but-a-demo",
        ),
        pytest.param(
            {"account": None, "requiresOpenaiAuth": False},
            None,
            False,
            ok("login", "none is needed by the configured model provider"),
            id="none-needed",
        ),
    ],
)
def test_a_login(answer: dict[str, Any], left_s: float | None, is_demo: bool, expected: Finding) -> None:
    assert judge_account(read_account(answer), left_s, is_demo) == expected


def test_a_running_gateway_renews_the_login_itself() -> None:
    assert [judge_renewal(left_s).level for left_s in (300, -300)] == [Level.NOTE, Level.WRONG]


@pytest.mark.parametrize(
    ("model", "agent"),
    [
        pytest.param(BARE_MODEL | {"slug": "m"}, [], id="bare"),
        pytest.param(BARE_MODEL | {"tool_mode": "code_mode_only"}, ["tool_mode"], id="code-mode"),
        pytest.param(BARE_MODEL | {"shell_type": "local"}, ["shell_type"], id="shell"),
        pytest.param(
            {key: value for key, value in BARE_MODEL.items() if key != "use_responses_lite"},
            ["use_responses_lite"],
            id="nothing-said",
        ),
    ],
)
def test_what_would_make_an_agent_of_a_model(model: dict[str, Any], agent: list[str]) -> None:
    assert find_agent(model) == agent


@pytest.mark.parametrize(
    ("params", "told"),
    [
        pytest.param({"summary": "Ignored:\n  `x`.", "details": None}, "Ignored:\n  `x`", id="a-summary"),
        pytest.param({"summary": "Invalid.", "details": "line 1"}, "Invalid. line 1", id="with-details"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_a_warning_of_codex(params: dict[str, Any], told: str) -> None:
    assert describe_warning(params) == told


@pytest.mark.parametrize(
    ("judged", "level", "advice"),
    [
        pytest.param(judge_files(2196, 32), Level.OK, "2,196 open files", id="files"),
        pytest.param(
            judge_files(math.inf, 32), Level.OK, "any number of open files", id="files-without-limit"
        ),
        pytest.param(judge_files(1024, 32), Level.NOTE, "LimitNOFILE=2196", id="files-for-some"),
        pytest.param(judge_files(256, 32), Level.WRONG, "`ulimit -n 2196`", id="too-few-files"),
        pytest.param(judge_memory((9e8, 2e9), 8 * 10**8, 32), Level.OK, "800 MB of 900 MB", id="memory"),
        pytest.param(
            judge_memory((5e8, 2e9), 8 * 10**8, 32), Level.NOTE, "PROXY_MAX_PROCESSES", id="memory-in-use"
        ),
        pytest.param(
            judge_memory((5e8, 6e8), 8 * 10**8, 32), Level.WRONG, "600 MB of memory", id="too-little-memory"
        ),
        pytest.param(judge_threads(1024, 32, 32), Level.OK, "1,024 are wanted", id="threads"),
        pytest.param(judge_threads(512, 32, 32), Level.WRONG, "TasksMax=1024", id="too-few-threads"),
        *(
            pytest.param(found, level, advice, id=id_)
            for id_, level, advice, [found] in [
                ("little-disk", Level.WRONG, "make room", judge_disk(10**8, 10**9)),
                (
                    "less-disk-than-stored",
                    Level.NOTE,
                    "PROXY_RESPONSE_STORE_MB",
                    judge_disk(5 * 10**8, 10**9),
                ),
            ]
        ),
    ],
)
def test_a_limit(judged: Finding, level: Level, advice: str) -> None:
    assert (judged.level, advice in judged.text) == (level, True), judged


def test_a_disk_with_room_is_not_worth_a_line() -> None:
    assert judge_disk(10**10, 10**9) == []


def test_connections_are_counted_as_gunicorn_is_told() -> None:
    config = (ROOT / "config" / "gunicorn.conf.py").read_text("utf-8")
    assert re.findall(r"^worker_connections = (\d+)", config, re.MULTILINE) == [str(WORKER_CONNECTIONS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0::/a/b\n", ["a/b", "a", ""], id="one-hierarchy"),
        pytest.param("8:pids:/a\n4:memory:/b\n", ["pids/a", "pids"], id="one-for-each"),
        pytest.param("3:cpu,pids:/\n", ["cpu,pids"], id="together"),
        pytest.param("1:name=systemd:/a\n", [], id="none-of-ours"),
    ],
)
def test_groups_around_us(text: str, expected: list[str]) -> None:
    root = pathlib.Path("/sys/fs/cgroup")
    assert list(find_groups(text, "pids")) == [root / place for place in expected]


def test_numbers_of_groups(tmp_path: pathlib.Path) -> None:
    for name, text in {"max": "max\n", "some": "512\n"}.items():
        (tmp_path / name).write_text(text)
    assert list(read_numbers(tmp_path / name for name in ("max", "some", "none"))) == [512.0]


def test_memory_is_read_in_bytes() -> None:
    text = "MemTotal:       2048 kB\nMemAvailable:   1024 kB\nHugePages_Total:       0\n"
    assert parse_meminfo(text) == {"MemTotal": 2048 * 1024, "MemAvailable": 1024 * 1024}


def reply(status: int, body: Any = None, arrivals_s: tuple[float, ...] = (), **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, b"" if body is None else json.dumps(body).encode(), arrivals_s)


def refuse(code: str) -> dict[str, Any]:
    return {"error": {"message": "no", "type": "some_error", "param": None, "code": code}}


@pytest.mark.parametrize(
    ("judged", "level", "advice"),
    [
        pytest.param(
            judge_live(reply(200, {"status": "ok"}), "https://a.org"), Level.OK, "is trusted", id="reached"
        ),
        pytest.param(
            judge_live(reply(301, location="https://a.org/livez?x"), "http://a.org"),
            Level.WRONG,
            "redirects (301) to https://a.org/livez:",
            id="redirected",
        ),
        pytest.param(
            judge_live(reply(502, content_type="text/html; charset=x"), "https://a.org"),
            Level.WRONG,
            "(HTTP 502, text/html): look at proxy_pass",
            id="nobody-behind",
        ),
        pytest.param(
            judge_live(reply(503, refuse("gateway_unavailable")), "https://a.org"),
            Level.WRONG,
            "finds no gateway behind it: start it",
            id="nobody-behind-our-own-site",
        ),
        pytest.param(judge_metrics(reply(404), is_local=False), Level.OK, "(404)", id="metrics-closed"),
        pytest.param(judge_metrics(reply(200), is_local=False), Level.WRONG, "return 404", id="metrics-open"),
        pytest.param(judge_metrics(reply(200), is_local=True), Level.NOTE, "this machine", id="metrics-here"),
        pytest.param(
            judge_stream(reply(200, arrivals_s=tuple(n / 50 for n in range(41)))),
            Level.OK,
            "41 pieces in 0.8 s",
            id="piece-by-piece",
        ),
        pytest.param(
            judge_stream(reply(200, arrivals_s=(0, 0.01))),
            Level.WRONG,
            "proxy_buffering off",
            id="all-at-once",
        ),
        pytest.param(
            judge_stream(reply(200, arrivals_s=(0, 0.4, 0.8))),
            Level.WRONG,
            "pieces: 3, in 0.8 s",
            id="in-heaps",
        ),
        pytest.param(judge_stream(reply(200)), Level.WRONG, "proxy_buffering off", id="an-empty-stream"),
        pytest.param(
            judge_stream(reply(429, refuse("gateway_busy"))), Level.NOTE, "gateway_busy", id="no-stream-now"
        ),
        pytest.param(
            judge_stream(reply(401, refuse("invalid_api_key"))),
            Level.NOTE,
            "`curl -N` and a key",
            id="no-key-that-the-doctor-knows",
        ),
    ],
)
def test_what_stands_in_front(judged: Finding, level: Level, advice: str) -> None:
    assert (judged.level, advice in judged.text) == (level, True), judged


ID = {"x_request_id": "doctor"}


@pytest.mark.parametrize(
    ("answer", "is_local", "faults"),
    [
        pytest.param(reply(401, refuse("invalid_api_key"), **ID), False, [], id="a-key-is-wanted"),
        pytest.param(reply(400, refuse("x"), **ID), True, [], id="open-on-loopback"),
        pytest.param(reply(400, refuse("x"), **ID), False, ["set PROXY_API_KEY"], id="open-to-everybody"),
        pytest.param(
            reply(403, refuse("host_not_allowed"), **ID),
            False,
            ["a.org: add it to PROXY_ALLOWED_HOSTS"],
            id="name",
        ),
        pytest.param(reply(401, refuse("invalid_api_key")), False, ["x-request-id"], id="no-id"),
        pytest.param(
            reply(401, {"error": "no"}, **ID), False, ["proxy_intercept_errors"], id="another-envelope"
        ),
        pytest.param(Reply(502, ID, b"<html>"), False, ["proxy_intercept_errors"], id="a-page"),
    ],
)
def test_a_refusal(answer: Reply, is_local: bool, faults: list[str]) -> None:
    found = [each.text for each in judge_refusal(answer, "a.org", is_local) if each.level is Level.WRONG]
    assert [fault in text for fault, text in zip(faults, found, strict=True)] == [True] * len(faults), found


@pytest.mark.parametrize(
    ("text", "netloc"),
    [
        pytest.param("https://a.org", "a.org", id="a-name"),
        pytest.param("https://a.org:8443/v1/", "a.org:8443", id="port-and-path"),
        pytest.param("https://user:secret@a.org/v1", "a.org", id="no-password"),
        pytest.param("http://[::1]:11435", "[::1]:11435", id="v6"),
    ],
)
def test_a_url(text: str, netloc: str) -> None:
    assert parse_url(text).netloc == netloc


@pytest.mark.parametrize("text", ["a.org", "ftp://a.org", "https://", "https://a.org:x", "http://[::1"])
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(Unfit, match="URL"):
        parse_url(text)
