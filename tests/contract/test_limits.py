"""How much a key may ask for, and how much one request may bring; what is too much costs little."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app.lib.errors import RateLimited
from app.lib.events import Tick
from app.settings import Settings
from tests.contract.conftest import BODY
from tests.support.scripted_backend import Anew, ScriptedBackend, Step, end, say

JSON = {"content-type": "application/json"}
ANSWER = [say("Hi"), end()]
ASKING: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": BODY,
    "/v1/responses": {"model": "gpt-5.5", "input": "Hi"},
}

Ask = Callable[..., TestResponse]


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend(ANSWER)


@pytest.fixture
def ask(client: FlaskClient) -> Ask:
    """Ask for an answer, by one route or the other; the reply is read to its end unless `buffered=False`."""

    def send(
        path: str = "/v1/chat/completions", key: str = "one", buffered: bool = True, **more: Any
    ) -> TestResponse:
        headers = {"authorization": f"Bearer {key}"}
        return client.post(path, json=ASKING[path] | more, headers=headers, buffered=buffered)

    return send


def with_settings(**settings: Any) -> Any:
    keyed = Settings(api_keys=("one", "two"), admin_keys=("three",), **settings)
    return pytest.mark.parametrize("gateway_settings", [pytest.param(keyed, id="limited")])


def read_limits(response: TestResponse) -> tuple[int, str | None, str | None, str | None]:
    """Status, and what the reply says of the minute: all, left, and when to come back."""
    told = response.headers
    names = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "retry-after")
    return response.status_code, *(told.get(name) for name in names)


@with_settings(requests_per_minute=2)
def test_answers_a_minute(ask: Ask, backend: ScriptedBackend) -> None:
    replies = [ask() for _ in range(4)]
    assert [read_limits(reply) for reply in replies] == [
        (200, "2", "1", None),
        (200, "2", "0", None),
        (429, "2", "0", "60"),
        (429, "2", "0", "60"),
    ]
    assert len(backend.turns) == 2
    assert [float(reply.headers["x-ratelimit-reset-requests"].removesuffix("s")) for reply in replies] == [
        pytest.approx(60, abs=2)
    ] * 4
    assert replies[2].get_json() == {
        "error": {
            "message": "This key may ask for 2 answers a minute; try again in 60 s.",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
    }


@with_settings(requests_per_minute=2)
def test_both_routes_count_and_every_key_for_itself(ask: Ask) -> None:
    order = [("/v1/chat/completions", "one"), ("/v1/responses", "one"), ("/v1/chat/completions", "two")]
    assert [ask(path, key).status_code for path, key in order * 2] == [200, 200, 200, 429, 429, 200]
    assert ask(key="three").status_code == 200


@with_settings(requests_per_minute=1)
def test_only_answers_count(ask: Ask, client: FlaskClient) -> None:
    """A list of models, usage, a stored response may be asked for as often as one likes."""
    bearer = {"authorization": "Bearer one"}
    response_id = ask("/v1/responses").get_json()["id"]
    paths = ["/v1/models", "/v1/usage", f"/v1/responses/{response_id}", "/v1/nothing", "/livez"]
    told = [client.get(path, headers=bearer, buffered=True) for path in paths * 2]
    assert [read_limits(reply) for reply in told] == [
        (status, None, None, None) for status in (200, 200, 200, 404, 200) * 2
    ]


@with_settings(requests_per_minute=2)
@pytest.mark.parametrize("path", ASKING)
def test_what_is_refused_for_its_body_counts_too(client: FlaskClient, ask: Ask, path: str) -> None:
    """Looking at it costs as much."""
    bearer = {"authorization": "Bearer one"}
    wrong = [client.post(path, data=b"[", headers=bearer | JSON, buffered=True) for _ in range(2)]
    assert [read_limits(reply) for reply in [*wrong, ask(path)]] == [
        (400, "2", "1", None),
        (400, "2", "0", None),
        (429, "2", "0", "60"),
    ]


@with_settings(requests_per_minute=1)
def test_a_stranger_uses_up_nothing(ask: Ask) -> None:
    assert [ask(key=key).status_code for key in ("nobody", "nobody", "one", "one")] == [401, 401, 200, 429]


@with_settings(requests_per_minute=5, workers=2)
def test_a_worker_grants_its_share(ask: Ask) -> None:
    assert [read_limits(ask())[:2] for _ in range(3)] == [(200, "2"), (200, "2"), (429, "2")]


def test_without_limits_nothing_is_said_of_any(ask: Ask) -> None:
    assert [read_limits(ask()) for _ in range(3)] == [(200, None, None, None)] * 3


@pytest.mark.parametrize(
    "gateway_settings", [pytest.param(Settings(requests_per_minute=1, max_streams=1), id="open")]
)
def test_an_open_gateway_has_limits_for_all(ask: Ask) -> None:
    assert [ask(key=key).status_code for key in ("a", "b")] == [200, 429]


@with_settings(requests_per_minute=2)
@pytest.mark.parametrize("path", ASKING)
def test_a_stream_says_what_is_left(ask: Ask, path: str) -> None:
    assert read_limits(ask(path, stream=True)) == (200, "2", "1", None)


@with_settings(requests_per_minute=1)
def test_a_page_may_read_it(client: FlaskClient) -> None:
    headers = {"authorization": "Bearer one", "origin": "app://obsidian.md"}
    replies = [
        client.post("/v1/chat/completions", json=BODY, headers=headers, buffered=True) for _ in range(2)
    ]
    for reply, status in zip(replies, (200, 429), strict=True):
        exposed = reply.headers["access-control-expose-headers"].split(", ")
        told = [name for name, _ in reply.headers if name.lower().startswith(("x-ratelimit", "retry"))]
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (
            status,
            "app://obsidian.md",
        )
        assert told
        assert set(told) <= set(exposed)


@with_settings(max_streams=2)
def test_answers_at_once(ask: Ask, backend: ScriptedBackend) -> None:
    held = [ask(stream=True, buffered=False) for _ in range(2)]
    refused = ask("/v1/responses")
    assert (read_limits(refused), len(backend.turns)) == ((429, None, None, "5"), 2)
    assert refused.get_json() == {
        "error": {
            "message": "This key may have 2 answers under way at once; wait for one to end.",
            "type": "rate_limit_error",
            "param": None,
            "code": "concurrency_limit_exceeded",
        }
    }
    assert ask(key="two").status_code == 200
    held.pop().close()
    assert [ask().status_code for _ in range(3)] == [200] * 3
    held.pop().close()


@with_settings(max_streams=1)
@pytest.mark.parametrize(
    ("script", "more", "status"),
    [
        pytest.param(ANSWER, {}, 200, id="a-body"),
        pytest.param(ANSWER, {"stream": True}, 200, id="a-stream"),
        pytest.param([RateLimited("No.")], {"stream": True}, 429, id="a-failure-before-the-first-byte"),
        pytest.param([say("a"), RateLimited("No.")], {"stream": True}, 200, id="a-failure-in-a-stream"),
        pytest.param([say("a"), RateLimited("No.")], {}, 429, id="a-failure-in-a-body"),
        pytest.param([ZeroDivisionError()], {}, 500, id="a-fault-of-ours"),
        pytest.param(ANSWER, {"messages": 1, "input": 1}, 400, id="a-body-that-is-refused"),
    ],
)
@pytest.mark.parametrize("path", ASKING)
def test_whatever_its_end_an_answer_gives_its_place_back(
    ask: Ask, backend: ScriptedBackend, path: str, script: Any, more: dict[str, Any], status: int
) -> None:
    backend.script = script
    assert [ask(path, **more).status_code for _ in range(2)] == [status] * 2
    backend.script = ANSWER
    assert [ask(path).status_code for path in ASKING] == [200] * 2


@with_settings(max_streams=1)
@pytest.mark.parametrize("path", ASKING)
def test_a_client_that_leaves_gives_its_place_back(ask: Ask, path: str) -> None:
    """Also one that never read a byte."""
    for reads in (0, 1):
        left = ask(path, stream=True, buffered=False)
        assert ask(path).status_code == 429
        for _ in range(reads):
            next(left.response)
        left.close()
        assert ask(path).status_code == 200


@with_settings(requests_per_minute=2, max_streams=1)
def test_what_there_is_no_place_for_takes_nothing_of_the_minute(ask: Ask) -> None:
    """It is told all the same how much of that is left."""
    held = ask(stream=True, buffered=False)
    refused = [ask() for _ in range(3)]
    assert [each.get_json()["error"]["code"] for each in refused] == ["concurrency_limit_exceeded"] * 3
    assert [read_limits(each) for each in refused] == [(429, "2", "1", "5")] * 3
    held.close()
    assert [read_limits(ask())[:3] for _ in range(2)] == [(200, "2", "0"), (429, "2", "0")]


@with_settings(requests_per_minute=1, max_streams=1)
def test_what_the_minute_has_no_more_of_takes_no_place(ask: Ask) -> None:
    assert [ask().status_code for _ in range(3)] == [200, 429, 429]
    assert ask().get_json()["error"]["code"] == "rate_limit_exceeded"


@with_settings(max_streams=4, workers=2)
def test_a_worker_has_its_share_of_places(ask: Ask) -> None:
    held = [ask(stream=True, buffered=False) for _ in range(2)]
    assert ask().status_code == 429
    for each in held:
        each.close()


class Gate:
    """A script that goes on when it is let, or nobody came."""

    def __init__(self) -> None:
        self.is_open = False
        self._ends_s = time.monotonic() + 5

    def __iter__(self) -> Iterator[Step]:
        yield say("Hel")
        while not self.is_open and time.monotonic() < self._ends_s:
            time.sleep(0.005)  # as a pipe that is read: what the wait is for is the tick
            yield [Tick(0)]
        yield end()


@with_settings(max_streams=1)
def test_a_background_response_counts_until_it_ends(
    ask: Ask, app: flask.Flask, backend: ScriptedBackend
) -> None:
    """Its request was answered at once."""
    gate = Gate()
    backend.script = Anew(lambda: iter(gate))
    assert ask("/v1/responses", background=True).get_json()["status"] == "queued"
    assert [ask(path).status_code for path in ASKING] == [429, 429]
    assert ask(key="two", stream=True, buffered=False).status_code == 200
    gate.is_open = True
    app.extensions["background"].wait(5)
    assert ask().status_code == 200


@with_settings(max_streams=1, max_background=1)
def test_a_background_response_that_is_refused_takes_no_place(
    ask: Ask, app: flask.Flask, backend: ScriptedBackend
) -> None:
    gate = Gate()
    backend.script = Anew(lambda: iter(gate))
    assert ask("/v1/responses", background=True).status_code == 200
    models = ["gpt-5.5", "gpt-5.5", "none", "none"]
    refused = [ask("/v1/responses", key="two", background=True, model=model) for model in models]
    assert [reply.get_json()["error"]["code"] for reply in refused] == [
        *["gateway_busy"] * 2,
        *["model_not_found"] * 2,
    ]
    gate.is_open = True
    app.extensions["background"].wait(5)
    assert ask(key="two").status_code == 200


@with_settings(max_streams=2)
def test_following_a_response_counts_as_an_answer(
    ask: Ask, app: flask.Flask, client: FlaskClient, backend: ScriptedBackend
) -> None:
    gate = Gate()
    backend.script = Anew(lambda: iter(gate))
    url = f"/v1/responses/{ask('/v1/responses', background=True).get_json()['id']}?stream=true"
    bearer = {"authorization": "Bearer one"}
    followed = client.get(url, headers=bearer, buffered=False)
    assert (followed.status_code, client.get(url, headers=bearer, buffered=True).status_code) == (200, 429)
    followed.close()
    gate.is_open = True
    app.extensions["background"].wait(5)
    assert [client.get(url, headers=bearer, buffered=True).status_code for _ in range(3)] == [200] * 3


class Watched(io.BytesIO):
    """A body that knows how much of it was read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


SMALL = pytest.mark.parametrize(
    "gateway_settings",
    [pytest.param(Settings(max_body_bytes=1000, max_json_depth=6, max_messages=6, max_tools=3), id="small")],
)


@SMALL
@pytest.mark.parametrize(
    ("size", "is_announced", "status", "taken"),
    [
        pytest.param(1000, True, 400, 1000, id="at-the-bound"),
        pytest.param(1001, True, 413, 0, id="announced"),
        pytest.param(50_000_000, True, 413, 0, id="much"),
        pytest.param(1000, False, 400, 1000, id="in-chunks-at-the-bound"),
        pytest.param(1001, False, 413, 1001, id="in-chunks"),
        pytest.param(50_000_000, False, 413, 1001, id="much-in-chunks"),
    ],
)
@pytest.mark.parametrize("path", ASKING)
def test_the_largest_body(
    client: FlaskClient, path: str, size: int, is_announced: bool, status: int, taken: int
) -> None:
    """What is too large is refused by its announcement; where there is none, a byte behind the bound."""
    body = Watched(bytes(size))
    environ = {"wsgi.input": body, "wsgi.input_terminated": True}
    environ |= {"CONTENT_LENGTH": str(size)} if is_announced else {"HTTP_TRANSFER_ENCODING": "chunked"}
    response = client.post(path, headers=JSON, environ_overrides=environ, buffered=True)
    code = "request_too_large" if status == 413 else None
    assert (response.status_code, response.get_json()["error"]["code"], body.taken) == (status, code, taken)


def nest(levels: int) -> str:
    return "[" * levels + "]" * levels


@SMALL
@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(nest(6), "The body must be a JSON object.", id="as-deep-as-may-be"),
        pytest.param(nest(7), "The body is nested deeper than 6 levels.", id="a-level-deeper"),
        pytest.param('{"a":' * 7 + "1" + "}" * 7, "The body is nested deeper than 6 levels.", id="objects"),
        pytest.param(f'["{nest(50)}"]', "The body must be a JSON object.", id="a-text-has-no-levels"),
        pytest.param(nest(1) * 6, "The body is not valid JSON", id="no-json"),
        pytest.param("[" + ",".join([nest(5)] * 9) + "]", "The body must be a JSON object.", id="wide"),
        pytest.param("[" * 999, "The body is not valid JSON", id="never-closed"),
    ],
)
@pytest.mark.parametrize("path", ASKING)
def test_the_deepest_body(client: FlaskClient, path: str, data: str, message: str) -> None:
    response = client.post(path, data=data, headers=JSON, buffered=True)
    assert response.status_code == 400
    assert response.get_json()["error"]["message"].startswith(message)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        pytest.param(999_999, "The body must be a JSON object.", id="as-many-as-may-be"),
        pytest.param(
            1_000_000,
            "The body has more than 1,000,000 lists, objects or brackets in its texts.",
            id="one-more",
        ),
    ],
)
def test_the_most_lists(client: FlaskClient, count: int, message: str) -> None:
    data = b"[" + b",".join([b"[]"] * count) + b"]"
    response = client.post("/v1/chat/completions", data=data, headers=JSON, buffered=True)
    assert (response.status_code, response.get_json()["error"]["message"]) == (400, message)


U = {"role": "user", "content": "x"}
TWO_PARTS = {"role": "user", "content": [{"type": "text", "text": "x"}] * 2}
CALLS = [
    {"id": f"c{place}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for place in range(4)
]
CHAT_TOOL = {"type": "function", "function": {"name": "f"}}
ITEM = {"role": "user", "content": [{"type": "input_text", "text": "x"}]}
TOOL = {"type": "function", "name": "f"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}] * 2}


def number(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools have names of their own."""
    return [
        {**tool, "name": f"f{place}"} if "name" in tool else tool | {"function": {"name": f"f{place}"}}
        for place, tool in enumerate(tools)
    ]


@SMALL
@pytest.mark.parametrize(
    ("path", "field", "most", "one_more"),
    [
        pytest.param("/v1/chat/completions", "messages", [U] * 6, [U] * 7, id="messages"),
        pytest.param("/v1/chat/completions", "messages", [TWO_PARTS] * 2, [TWO_PARTS] * 2 + [U], id="parts"),
        pytest.param(
            "/v1/chat/completions",
            "messages",
            [U, {"role": "assistant", "tool_calls": CALLS[:2]}, U],
            [U, {"role": "assistant", "tool_calls": CALLS}, U],
            id="calls",
        ),
        pytest.param(
            "/v1/chat/completions", "tools", number([CHAT_TOOL] * 3), number([CHAT_TOOL] * 4), id="tools"
        ),
        pytest.param(
            "/v1/chat/completions",
            "functions",
            [{"name": f"f{place}"} for place in range(3)],
            [{"name": f"f{place}"} for place in range(4)],
            id="functions",
        ),
        pytest.param("/v1/responses", "input", [ITEM] * 3, [ITEM] * 4, id="input"),
        pytest.param("/v1/responses", "input", [ITEM, OUTPUT, ITEM], [ITEM, OUTPUT] * 2, id="outputs"),
        pytest.param("/v1/responses", "input", [THOUGHT, ITEM], [THOUGHT] * 3, id="summaries"),
        pytest.param("/v1/responses", "instructions", [ITEM] * 3, [ITEM] * 4, id="instructions"),
        pytest.param("/v1/responses", "tools", number([TOOL] * 3), number([TOOL] * 4), id="tools-here"),
    ],
)
def test_the_most_of_a_list(
    client: FlaskClient, backend: ScriptedBackend, path: str, field: str, most: Any, one_more: Any
) -> None:
    """Refused by their number alone, whatever they are, with the field's name."""
    served, refused = (
        client.post(path, json=ASKING[path] | {field: items}, buffered=True) for items in (most, one_more)
    )
    limit = 3 if field in ("tools", "functions") else 6
    assert (served.status_code, served.get_json().get("error")) == (200, None)
    assert (refused.status_code, refused.get_json()["error"], len(backend.turns)) == (
        400,
        {
            "message": f"{field}: Must not have more than {limit} items, the parts of each counted.",
            "type": "invalid_request_error",
            "param": field,
            "code": None,
        },
        1,
    )


@SMALL
@pytest.mark.parametrize("items", [[7] * 7, [None] * 7, [[]] * 7, [{"content": 7}] * 7])
def test_they_are_counted_before_they_are_read(client: FlaskClient, items: list[Any]) -> None:
    response = client.post("/v1/chat/completions", json=BODY | {"messages": items}, buffered=True)
    assert "Must not have more than 6 items" in response.get_json()["error"]["message"]


#: How much slower our own loops may be while coverage looks on; what is read in C is as fast as ever.
TRACED = 8
LARGE = 16 * 1024 * 1024 - 500


def build_chat(messages: bytes, more: bytes = b"") -> bytes:
    return b'{"model":"gpt-5.5","messages":[' + messages + b"]" + more + b"}"


def fill(piece: bytes, size: int = LARGE) -> bytes:
    return b",".join([piece] * (size // (len(piece) + 1)))


def measure(client: FlaskClient, data: bytes) -> tuple[int, float]:
    """Status, and seconds of the processor: the better of two."""
    spent = []
    for _ in range(2):
        began_s = time.process_time()
        status = client.post("/v1/chat/completions", data=data, headers=JSON, buffered=True).status_code
        spent.append(time.process_time() - began_s)
    return status, min(spent)


MESSAGE = b'{"role":"user","content":"x"}'


@pytest.mark.parametrize(
    ("data", "most"),
    [
        pytest.param(b"[" * LARGE, 5, id="brackets"),
        pytest.param(b'{"a":' * (LARGE // 5), 5, id="braces"),
        pytest.param(b"[" + fill(b"[]") + b"]", 5, id="empty-lists"),
        pytest.param(b"[" + fill(nest(101).encode()) + b"]", 5, id="towers"),
        pytest.param(b"9" * LARGE, 5, id="a-number"),
        pytest.param(b"[" + fill(b"[]", 2_900_000) + b"]", 60, id="as-many-lists-as-may-be"),
        pytest.param(build_chat(fill(nest(97).encode(), 1_900_000)), 60, id="towers-as-high-as-may-be"),
        pytest.param(build_chat(b",".join([MESSAGE] * 100_000)), 60, id="100,000-messages"),
        pytest.param(
            build_chat(b'{"role":"user","content":[' + fill(b"{}", 2_900_000) + b"]}"), 60, id="parts"
        ),
        pytest.param(build_chat(MESSAGE, b',"tools":[' + fill(b"{}", 2_900_000) + b"]"), 60, id="tools"),
    ],
)
def test_what_is_too_much_costs_little(client: FlaskClient, data: bytes, most: float) -> None:
    """Beside a plain message of 16 MB, which takes some hundredths of a second."""
    plain = build_chat(b'{"role":"user","content":"' + b"x" * (LARGE - 100) + b'"}')
    (served, unit_s), (refused, spent_s) = (measure(client, each) for each in (plain, data))
    assert (served, refused) == (200, 400)
    assert spent_s < most * unit_s * (TRACED if sys.gettrace() else 1)
