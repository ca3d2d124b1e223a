"""What keys and models used: an entry for every request, however it ended, and what they add up to."""

from __future__ import annotations

import contextlib
import json
import logging
import pathlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import BackendRefused, BackendTimeout, BackendUnavailable, QuotaExceeded, RateLimited
from app.lib.events import LimitsTold, ResponseDone
from app.lib.keys import Role, name_keys
from app.settings import Settings
from app.store.usage import BUFFERS, COLUMNS, DAY_S, FILE_NAME, HOUR_S, Entry, Span, UsageStore
from tests.contract.conftest import BODY, OBSIDIAN, Ask, Post, without_folder
from tests.support.gateway import ROOT
from tests.support.scripted_backend import USAGE, ScriptedBackend, Step, end, say
from tests.unit.store.conftest import hold_write_lock

ME, YOU, ADMIN = "sk-me-0123456789", "sk-you-0123456789", "sk-admin-0123456789"
MY_NAME, YOUR_NAME = (key.name for key in name_keys((ME, YOU), "env", Role.CLIENT))
ADMINS_NAME = name_keys((ADMIN,), "admin", Role.ADMIN)[0].name
KEYED = Settings(api_keys=(ME, YOU), admin_keys=(ADMIN,))
MINE = {"x-request-id": "mine"}
TOKENS = {"input_tokens": 120, "cached_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5}
NOTHING = dict.fromkeys(COLUMNS, 0)
BLOCK = "<use_tool><name>f</name></use_tool>"

Send = Callable[[FlaskClient], Any]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def get(client: FlaskClient, path: str, asking: str = ADMIN, **asked: Any) -> TestResponse:
    return client.get(path, query_string=asked, headers=bearer(asking), buffered=True)


def read_usage(client: FlaskClient, asking: str = ADMIN, **asked: Any) -> dict[str, Any]:
    response = get(client, "/v1/usage", asking, **asked)
    assert response.status_code == 200, response.text
    return response.get_json()


def read_raw(client: FlaskClient, asking: str = ADMIN, **asked: Any) -> dict[str, Any]:
    response = get(client, "/v1/usage/raw", asking, **asked)
    assert response.status_code == 200, response.text
    return response.get_json()


def read_entries(client: FlaskClient, request_id: str = "mine") -> list[dict[str, Any]]:
    """The entries of one request, the first of them first."""
    found = [entry for entry in read_raw(client)["data"] if entry.get("request_id") == request_id]
    # What goes on in the background may end before the request that began it.
    in_order = found[::-1]
    return sorted(in_order, key=lambda entry: "background" in entry)


def pick_used(counts: dict[str, Any]) -> dict[str, int]:
    """What is not zero of a total, of a result or of the buffers' counters."""
    return {name: counts[name] for name in COLUMNS if counts.get(name)}


def chat(stream: bool = False, key: str = ME, **changes: Any) -> Send:
    """A chat request; its reply is read to the end."""
    body = BODY | {"stream": stream} | changes
    return lambda client: client.post(
        "/v1/chat/completions", json=body, headers=MINE | bearer(key), buffered=True
    )


def send(method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Send:
    return lambda client: client.open(
        path, method=method, headers=MINE | bearer(ME) | (headers or {}), buffered=True, **more
    )


def leave(client: FlaskClient) -> None:
    """Ask for a stream, read a little of it, go."""
    client.post(
        "/v1/chat/completions", json=BODY | {"stream": True}, headers=MINE | bearer(ME), buffered=False
    ).close()


def background(client: FlaskClient) -> None:
    body = {"model": "gpt-5.5", "input": "Hi", "background": True}
    client.post("/v1/responses", json=body, headers=MINE | bearer(ME), buffered=True)
    client.application.extensions["background"].wait(5)


def ask_twice(client: FlaskClient) -> None:
    """The second time the key has nothing left."""
    client.post("/v1/chat/completions", json=BODY, headers=bearer(ME), buffered=True)
    chat()(client)


CHAT = {"method": "POST", "path": "/v1/chat/completions", "route": "/v1/chat/completions", "key": MY_NAME}
MODEL = {"model": "gpt-5.5", "output_mode": "obsidian-xml"}
RESPONSES = CHAT | {"path": "/v1/responses", "route": "/v1/responses", "model": "gpt-5.5"}
ANSWER = [say("Hi"), end()]
FAIL = "model failed"


@pytest.mark.parametrize("gateway_settings", [KEYED])
@pytest.mark.parametrize(
    ("script", "request_", "expected"),
    [
        pytest.param(
            ANSWER,
            chat(),
            [CHAT | MODEL | TOKENS | {"stream": False, "status": 200, "finish": "stop"}],
            id="200",
        ),
        pytest.param(
            ANSWER,
            chat(stream=True),
            [CHAT | MODEL | TOKENS | {"stream": True, "status": 200, "finish": "stop", "frames": 4}],
            id="a-stream",
        ),
        pytest.param(
            [say("Hi"), BackendUnavailable(FAIL)],
            chat(stream=True),
            [CHAT | MODEL | {"stream": True, "status": 200, "error": "backend_unavailable", "frames": 4}],
            id="a-stream-that-fails",
        ),
        pytest.param(
            [say("Hi"), [ResponseDone(0, USAGE)], BackendUnavailable(FAIL)],
            chat(stream=True),
            [
                CHAT
                | MODEL
                | TOKENS
                | {"stream": True, "status": 200, "error": "backend_unavailable", "frames": 4}
            ],
            id="a-stream-that-fails-behind-its-tokens",
        ),
        pytest.param(
            [say("a"), say("b"), end()],
            leave,
            [CHAT | MODEL | {"stream": True, "status": 200, "error": "client_closed_request", "frames": 2}],
            id="a-stream-that-is-left",
        ),
        pytest.param(
            [say("a"), say("b", choice=1), end(), end(choice=1)],
            chat(n=2),
            [
                CHAT
                | MODEL
                | {"stream": False, "status": 200, "finish": "stop"}
                | {name: 2 * count for name, count in TOKENS.items()}
            ],
            id="n",
        ),
        pytest.param(
            ANSWER,
            background,
            [
                RESPONSES | {"status": 200},
                RESPONSES | TOKENS | {"stream": False, "status": 200, "finish": "stop", "background": True},
            ],
            id="in-the-background",
        ),
        pytest.param(
            [BackendUnavailable(FAIL)],
            background,
            [
                RESPONSES | {"status": 200},
                RESPONSES
                | {"stream": False, "status": 200, "error": "backend_unavailable", "background": True},
            ],
            id="in-the-background-and-it-fails",
        ),
        pytest.param([], chat(messages=7), [CHAT | {"status": 400, "error": None}], id="400"),
        pytest.param(
            [],
            send("POST", "/v1/chat/completions", data=b"{", content_type="application/json"),
            [CHAT | {"status": 400, "error": None}],
            id="400-no-json",
        ),
        pytest.param(
            [],
            chat(key="nobody's"),
            [CHAT | {"key": "(none)", "status": 401, "error": "invalid_api_key"}],
            id="401",
        ),
        pytest.param(
            [],
            send("POST", "/v1/chat/completions", {"origin": "https://evil.example"}, json=BODY),
            [CHAT | {"key": "(none)", "status": 403, "error": "origin_not_allowed"}],
            id="403",
        ),
        pytest.param(
            [],
            send("GET", "/v1/nothing"),
            [
                {"method": "GET", "path": "/v1/nothing", "route": None, "key": MY_NAME}
                | {"status": 404, "error": "not_found"}
            ],
            id="404",
        ),
        pytest.param(
            [],
            send("POST", "/v1/responses", json={"model": "gpt-0", "input": "Hi", "background": True}),
            [RESPONSES | {"model": "gpt-0", "stream": False, "status": 404, "error": "model_not_found"}],
            id="404-model",
        ),
        pytest.param(
            [],
            send("DELETE", "/v1/models"),
            [
                {"method": "DELETE", "path": "/v1/models", "route": None, "key": MY_NAME}
                | {"status": 405, "error": "method_not_allowed"}
            ],
            id="405",
        ),
        pytest.param(
            [],
            chat(messages="x" * 2**20),
            [CHAT | {"status": 413, "error": "request_too_large"}],
            id="413",
        ),
        pytest.param(
            [],
            send("POST", "/v1/chat/completions", data=b"{}", content_type="text/plain"),
            [CHAT | {"status": 415, "error": "unsupported_media_type"}],
            id="415",
        ),
        pytest.param(
            [RateLimited(FAIL)],
            chat(),
            [CHAT | MODEL | {"stream": False, "status": 429, "error": "rate_limit_exceeded"}],
            id="429",
        ),
        pytest.param(
            [ZeroDivisionError(FAIL)],
            chat(),
            [CHAT | MODEL | {"stream": False, "status": 500, "error": "internal_error"}],
            id="500",
        ),
        pytest.param(
            [BackendRefused(FAIL)],
            chat(),
            [CHAT | MODEL | {"stream": False, "status": 502, "error": "backend_refused"}],
            id="502",
        ),
        pytest.param(
            [BackendUnavailable(FAIL)],
            chat(stream=True),
            [CHAT | MODEL | {"stream": True, "status": 503, "error": "backend_unavailable"}],
            id="503",
        ),
        pytest.param(
            [BackendTimeout(FAIL)],
            chat(),
            [CHAT | MODEL | {"stream": False, "status": 504, "error": "backend_timeout"}],
            id="504",
        ),
    ],
)
def test_every_exit_has_an_entry(
    client: FlaskClient,
    backend: ScriptedBackend,
    logged: list[logging.LogRecord],
    script: list[Step],
    request_: Send,
    expected: list[dict[str, Any]],
) -> None:
    """The fields of its log line; and where one failed, it counts as an error."""
    client.application.config["MAX_CONTENT_LENGTH"] = 2**20
    backend.script = script
    request_(client)
    lines = [dict(record.fields) for record in logged if record.getMessage() == "request"]
    entries = read_entries(client)
    told = [{name: value for name, value in entry.items() if name not in TIMES} for entry in entries]
    assert told == [MINE_TOLD | each for each in expected]
    kept = [{name: value for name, value in entry.items() if name not in ADDED} for entry in entries]
    mine = [line for line in lines if line["request_id"] == "mine"]
    assert kept == sorted(mine, key=lambda line: "background" in line)
    total = read_usage(client)["total"]
    failed = [each for each in expected if "error" in each]
    # Those that read the entries are requests, too.
    assert (total["requests"], total["errors"]) == (2, len(failed))


MINE_TOLD = {"request_id": "mine"}
ADDED = ("number", "time", "tool_buffer_metrics")
TIMES = (*ADDED, "duration_ms", "first_event_ms", "first_token_ms")


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(api_keys=(ME,), requests_per_minute=1), id="one-a-minute")]
)
def test_a_request_beyond_a_keys_limit_has_an_entry(client: FlaskClient, backend: ScriptedBackend) -> None:
    backend.script = ANSWER
    ask_twice(client)
    entries = read_raw(client, ME)["data"]
    assert [(entry["status"], entry.get("error"), entry["key"]) for entry in entries] == [
        (429, "rate_limit_exceeded", MY_NAME),
        (200, None, MY_NAME),
    ]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/metrics"])
def test_who_watches_is_not_counted(client: FlaskClient, path: str) -> None:
    client.get(path, buffered=True)
    client.options("/v1/chat/completions", buffered=True)
    assert (read_raw(client)["data"], read_usage(client)["total"]["requests"]) == ([], 1)


def test_a_stream_is_there_when_it_was_read(
    post: Post, client: FlaskClient, backend: ScriptedBackend
) -> None:
    """And not before: read your writes."""
    backend.script = ANSWER
    response = post(stream=True, headers=MINE, buffered=False)
    before = read_entries(client)
    assert response.data.endswith(b"[DONE]\n\n")
    response.close()
    assert (before, [entry["status"] for entry in read_entries(client)]) == ([], [200])


def test_the_report(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """All of it, by the models on offer, whatever was asked for; a turn that was cut tells no tokens."""
    backend.script = ANSWER
    for model in ("gpt-5.5", "gpt-5.5-low", "vendor/fast", "vendor/fast-high", "gpt-0", "gpt-0-low"):
        post(model=model)
    backend.script = [say("<use_tool><a", BLOCK), end()]
    post(headers=OBSIDIAN, stream=True)
    backend.script = [QuotaExceeded("Used up.")]
    post()
    client.get("/v1/nothing", buffered=True)
    report = read_usage(client)
    tokens = {name: 6 * count for name, count in TOKENS.items()}
    assert pick_used(report["total"]) == {"requests": 9, "errors": 2, "tool_calls": 1} | tokens
    assert (report["object"], report["account_limits"]) == ("usage", None)
    buffers = {"tool_buffer_started": 2, "tool_buffer_flushed": 1, "tool_buffer_aborted": 1}
    assert report["tool_buffer_metrics"] == buffers
    of_each = [entry["tool_buffer_metrics"] for entry in read_raw(client)["data"]]
    nothing = dict.fromkeys(buffers, 0)
    assert [each for each in of_each if each != nothing] == [buffers]
    [bucket] = report["data"]
    results = [
        (each["key"], each["model"], pick_used(each), pick_used(each["tool_buffer_metrics"]))
        for each in bucket["results"]
    ]
    twice = {name: 2 * count for name, count in TOKENS.items()}
    assert results == [
        ("(open)", None, {"requests": 1, "errors": 1}, {}),
        ("(open)", "gpt-5.5", {"requests": 4, "errors": 1, "tool_calls": 1} | twice, buffers),
        ("(open)", "other", {"requests": 2} | twice, {}),
        ("(open)", "vendor/fast", {"requests": 2} | twice, {}),
    ]


@pytest.fixture
def past(tmp_path: pathlib.Path) -> Iterator[UsageStore]:
    """The store of another worker, which had other days."""
    with contextlib.closing(UsageStore(tmp_path / "usage", 90, 10**6)) as store:
        yield store


#: Noon of a day; the hours of the table below are counted from there.
NOON_S = time.time() // DAY_S * DAY_S - 3 * DAY_S + DAY_S // 2


def at(hour: float) -> float:
    return NOON_S + hour * HOUR_S


def iso(hour: float, zone: str = "Z", shift: float = 0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at(hour) + shift * HOUR_S)) + zone


@pytest.mark.parametrize(
    ("asked", "hours"),
    [
        pytest.param({}, [-24, -1, 0, 1], id="the-last-week"),
        pytest.param({"start": int(at(0))}, [0, 1], id="from"),
        pytest.param({"start": iso(0)}, [0, 1], id="from-iso"),
        pytest.param({"start": iso(0, "")}, [0, 1], id="without-a-zone"),
        pytest.param({"start": iso(0, "+05:30", 5.5)}, [0, 1], id="in-another-zone"),
        pytest.param({"end": int(at(0))}, [-140, -24, -1], id="the-week-before"),
        pytest.param({"start": int(at(-1)), "end": int(at(1))}, [-1, 0], id="from-to"),
        pytest.param({"start": iso(-1), "end": iso(1)}, [-1, 0], id="from-to-iso"),
        pytest.param({"start": int(at(-1)), "end": int(at(-1))}, [], id="no-time"),
        pytest.param({"start": 0}, [-1000, -140, -24, -1, 0, 1], id="from-the-beginning"),
        pytest.param({"start": "0001-01-01"}, [-1000, -140, -24, -1, 0, 1], id="from-before-the-epoch"),
        pytest.param({"start": int(at(1)), "end": 10**11}, [1], id="into-the-future"),
        pytest.param({"start": "", "end": ""}, [-24, -1, 0, 1], id="empty"),
    ],
)
def test_the_time_asked_for(
    client: FlaskClient, past: UsageStore, asked: dict[str, Any], hours: list[int]
) -> None:
    """Seconds since the epoch or ISO; what begins where another ended counts nothing twice."""
    past.add([Entry(at(hour), "gpt-5.5", {"key": "k"}) for hour in (-1000, -140, -24, -1, 0, 1)])
    report = read_usage(client, group="hour", **asked)
    raw = [entry["time"] for entry in read_raw(client, **asked)["data"] if entry["key"] == "k"]
    starts = [bucket["start_time"] for bucket in report["data"] if bucket["results"][0]["key"] == "k"]
    assert (starts, raw[::-1]) == ([at(hour) for hour in hours], [at(hour) for hour in hours])


@pytest.mark.parametrize(
    ("group", "buckets"),
    [
        pytest.param({"group": "hour"}, [(-13, -12), (0, 1), (11, 12)], id="hours"),
        pytest.param({"group": "day"}, [(-36, -12), (-12, 12)], id="days"),
        pytest.param({}, [(-36, -12), (-12, 12)], id="days-unasked"),
    ],
)
def test_groups(
    client: FlaskClient, past: UsageStore, group: dict[str, str], buckets: list[tuple[int, int]]
) -> None:
    past.add([Entry(at(hour), "gpt-5.5", {}) for hour in (-13, 0, 11.99)])
    report = read_usage(client, start=int(at(-24)), end=int(at(12)), **group)
    told = [(bucket["start_time"], bucket["end_time"]) for bucket in report["data"]]
    assert told == [(at(start), at(end)) for start, end in buckets]


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage/raw"])
@pytest.mark.parametrize(
    ("asked", "param"),
    [
        pytest.param({"start": "yesterday"}, "start", id="start"),
        pytest.param({"end": "2026-13-01"}, "end", id="end"),
        pytest.param({"start": "-1"}, "start", id="negative"),
        pytest.param({"start": 1_712_111_612_000}, "start", id="milliseconds"),
        pytest.param({"end": 1_712_111_612_000}, "end", id="until-milliseconds"),
        pytest.param({"start": "9999-12-31T23:59:59-23:59"}, "start", id="beyond-all-time"),
        pytest.param({"start": 200, "end": 100}, "start", id="the-wrong-way-round"),
        pytest.param({"start": 10**11}, "start", id="in-the-future"),
    ],
)
def test_a_time_that_cannot_be_meant(
    client: FlaskClient, path: str, asked: dict[str, Any], param: str
) -> None:
    refuse(client, path, asked, param)


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        pytest.param("/v1/usage", {"group": "week"}, "group", id="group"),
        pytest.param("/v1/usage", {"group": ""}, "group", id="no-group"),
        pytest.param("/v1/usage/raw", {"limit": 0}, "limit", id="no-entries"),
        pytest.param("/v1/usage/raw", {"limit": 1001}, "limit", id="too-many"),
        pytest.param("/v1/usage/raw", {"limit": "many"}, "limit", id="no-number"),
        pytest.param("/v1/usage/raw", {"limit": "1" * 19}, "limit", id="a-huge-one"),
        pytest.param("/v1/usage/raw", {"before": "-1"}, "before", id="before"),
        pytest.param("/v1/usage/raw", {"before": "1.5"}, "before", id="a-fraction"),
    ],
)
def test_a_value_that_cannot_be_meant(
    client: FlaskClient, path: str, asked: dict[str, Any], param: str
) -> None:
    refuse(client, path, asked, param)


def refuse(client: FlaskClient, path: str, asked: dict[str, Any], param: str) -> None:
    response = get(client, path, **asked)
    error = response.get_json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"].startswith(f"{param}: Must ")


@pytest.mark.parametrize("gateway_settings", [KEYED])
@pytest.mark.parametrize(
    ("key", "asked", "seen"),
    [
        pytest.param(ME, {}, [MY_NAME], id="its-own"),
        pytest.param(YOU, {}, [YOUR_NAME], id="another-its-own"),
        pytest.param(ME, {"key": YOUR_NAME}, [MY_NAME], id="not-another's"),
        pytest.param(ME, {"key": "(none)"}, [MY_NAME], id="not-a-stranger's"),
        pytest.param(ADMIN, {}, sorted(["(none)", MY_NAME, YOUR_NAME]), id="everybody's"),
        pytest.param(ADMIN, {"key": YOUR_NAME}, [YOUR_NAME], id="one's"),
        pytest.param(ADMIN, {"key": "(none)"}, ["(none)"], id="strangers'"),
        pytest.param(ADMIN, {"key": "nobody"}, [], id="nobody's"),
    ],
)
def test_who_sees_what(
    client: FlaskClient, backend: ScriptedBackend, key: str, asked: dict[str, str], seen: list[str]
) -> None:
    backend.script = ANSWER
    for each in (ME, YOU, "wrong"):
        chat(key=each)(client)
    raw = {entry["key"] for entry in read_raw(client, key, **asked)["data"]}
    report = read_usage(client, key, **asked)
    told = {result["key"] for bucket in report["data"] for result in bucket["results"]}
    # Who asked for the raw ones is among the requests by now.
    assert (sorted(raw), sorted(told - {ADMINS_NAME}), report["total"]["requests"] >= len(seen)) == (
        seen,
        seen,
        True,
    )


@pytest.mark.parametrize("gateway_settings", [KEYED])
@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage/raw"])
def test_a_stranger_sees_nothing(client: FlaskClient, path: str) -> None:
    assert get(client, path, "wrong").status_code == 401


def test_pages(client: FlaskClient, past: UsageStore) -> None:
    """Each request for a page is an entry, too: what is there already moves by none of them."""
    past.add([Entry(time.time(), "gpt-5.5", {"id": number}) for number in range(1, 8)])
    pages: list[dict[str, Any]] = [{"next_before": 8, "has_more": True}]
    while pages[-1]["has_more"] and len(pages) < 10:
        pages.append(read_raw(client, limit=3, before=pages[-1]["next_before"]))
    assert [
        ([entry["id"] for entry in page["data"]], page["has_more"], page["next_before"]) for page in pages[1:]
    ] == [([7, 6, 5], True, 5), ([4, 3, 2], True, 2), ([1], False, 1)]
    assert read_raw(client, before=1) == {
        "object": "list",
        "data": [],
        "has_more": False,
        "next_before": None,
    }


def test_the_newest_come_first_and_so_many(client: FlaskClient, past: UsageStore) -> None:
    past.add([Entry(time.time(), "gpt-5.5", {"key": "k"}) for _ in range(1500)])
    counts = [len(read_raw(client, **asked)["data"]) for asked in ({}, {"limit": 1000}, {"limit": 1})]
    assert (counts, read_raw(client, before=10**17)["has_more"]) == ([100, 1000, 1], True)


LIMITS = AccountLimits("plus", LimitWindow(42, 300, 4_000_000_000), LimitWindow(7))
FULL_LIMITS = AccountLimits(None, *[LimitWindow(42, 300, 4_000_000_000)] * 2)


def test_the_accounts_limits(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """On the reply they came with, and in the report from then on; what is told later adds to it."""
    backend.script = [say("Hi"), [LimitsTold(LIMITS)], end()]
    told = post()
    backend.script = [
        say("Hi"),
        [LimitsTold(AccountLimits(None, LimitWindow(43, 300, 4_000_000_060)))],
        end(),
    ]
    post()
    backend.script = ANSWER
    silent = post()
    headers = [
        {name: value for name, value in reply.headers.items() if name.startswith("x-ratelimit-codex")}
        for reply in (told, silent)
    ]
    reset_s = int(headers[0].pop("x-ratelimit-codex-primary-reset").removesuffix("s"))
    assert headers == [
        {
            "x-ratelimit-codex-primary-used-percent": "42",
            "x-ratelimit-codex-primary-window-minutes": "300",
            "x-ratelimit-codex-secondary-used-percent": "7",
        },
        {},
    ]
    assert abs(time.time() + reset_s - 4_000_000_000) < 5
    known = read_usage(client)["account_limits"]
    assert abs(time.time() - known.pop("told_at")) < 5
    assert known == {
        "plan": "plus",
        "primary": {"used_percent": 43, "window_minutes": 300, "resets_at": 4_000_000_060},
        "secondary": {"used_percent": 7, "window_minutes": None, "resets_at": None},
    }


def test_limits_of_a_failure(post: Post, client: FlaskClient, backend: ScriptedBackend) -> None:
    """Those are the ones a client wants most."""
    used_up = AccountLimits(None, LimitWindow(100, 300, 4_000_000_000))
    backend.script = [[LimitsTold(used_up)], QuotaExceeded("Used up.", retry_at_s=time.time() + 60)]
    reply = post(stream=True)
    told = {
        name: reply.headers.get(name) for name in ("x-ratelimit-codex-primary-used-percent", "retry-after")
    }
    assert (reply.status_code, reply.get_json()["error"]["type"], told) == (
        429,
        "insufficient_quota",
        {"x-ratelimit-codex-primary-used-percent": "100", "retry-after": "60"},
    )
    assert read_usage(client)["account_limits"]["primary"]["used_percent"] == 100


def test_a_store_in_the_way_costs_no_answer(
    post: Post, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    """Its routes say so; when it is back, it tells of what was asked meanwhile."""
    backend.script = ANSWER
    post()
    read_usage(client)
    with without_folder(tmp_path / "usage"):
        replies = [post(headers=MINE), post(headers=MINE, stream=True)]
        refused = [get(client, path) for path in ("/v1/usage", "/v1/usage/raw")]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert [(reply.status_code, reply.get_json()["error"]["code"]) for reply in refused] == [
        (503, "store_unavailable")
    ] * 2
    assert [entry["status"] for entry in read_entries(client)] == [200, 200]


def test_a_locked_store_costs_no_answer_any_time(
    post: Post, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    backend.script = ANSWER
    read_usage(client)
    with hold_write_lock(tmp_path / "usage" / FILE_NAME):
        began_s = time.monotonic()
        assert post(headers=MINE).status_code == 200
        took_s = time.monotonic() - began_s
    assert (took_s < 0.5, [entry["status"] for entry in read_entries(client)]) == (True, [200])


def test_what_waits_is_written_when_a_worker_ends(
    app: flask.Flask, post: Post, backend: ScriptedBackend, past: UsageStore
) -> None:
    """Nobody asked for it, and its thread may just be waiting for more to come."""
    backend.script = ANSWER
    post(headers=MINE)
    before = past.read_entries(Span(0, 2**40), 2**62, 10)
    app.extensions["lifecycle"].close()
    after = past.read_entries(Span(0, 2**40), 2**62, 10)
    assert (before, [fields["request_id"] for _, _, fields in after]) == ([], ["mine"])


def test_no_word_and_no_key_is_kept(
    ask: Ask, post: Post, client: FlaskClient, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> None:
    backend.script = [say("their answer", BLOCK), end()]
    post(messages=[{"role": "user", "content": "my question"}], headers=bearer(ME))
    read_usage(client)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "usage").iterdir())
    assert [word for word in (b"answer", b"question", b"use_tool><", ME.encode()) if word in kept] == []


PAGE = ROOT / "docs" / "api" / "usage.md"
JSON = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shape(value: Any) -> Any:
    """An answer by its names and types; of a list, all that its entries have."""
    match value:
        case dict():
            return {name: shape(each) for name, each in sorted(value.items())}
        case list():
            merged: dict[str, Any] = {}
            shapes = [shape(each) for each in value]
            for each in shapes:
                if isinstance(each, dict):
                    merged |= each
            return [merged or shapes[0]] if shapes else []
        case bool() | None | str():
            return type(value).__name__
        case _:
            return "number"


def test_the_page_shows_what_is_told(
    app: flask.Flask, post: Post, client: FlaskClient, backend: ScriptedBackend
) -> None:
    """docs/api/usage.md: its examples have every field that an answer has, and no other."""
    backend.script = [[LimitsTold(FULL_LIMITS)], say("Hi", BLOCK), end()]
    post(headers=OBSIDIAN, stream=True)
    report, raw = [json.loads(found) for found in JSON.findall(PAGE.read_text("utf-8"))]
    for example in (report, raw):
        assert example["data"]
    assert shape(report) == shape(read_usage(client))
    told = read_raw(client, limit=1, before=2)
    assert (shape(raw) | {"next_before": "number", "data": []}, set(told["data"][0])) == (
        shape(told) | {"data": []},
        set(raw["data"][0]),
    )


def test_the_page_names_every_count() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(COLUMNS) <= set(named)
    assert set(BUFFERS) <= set(COLUMNS)
